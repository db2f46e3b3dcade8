package boltlog

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// Some tests need a process of their own: this program, started with the name of a task in this environment variable.
const childEnv = "BOLTLOG_TEST_CHILD"

func TestMain(m *testing.M) {
	if do, ok := children[os.Getenv(childEnv)]; ok {
		do()
		os.Exit(0)
	}
	// The tests are about the contents of a file. The tests on a real disk are in internal/durability.
	var memory syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &memory) == nil && memory.Bavail*uint64(memory.Bsize) > 2<<30 {
		_ = os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

const acme = "acme"

func TestLog_keepsTheContract(t *testing.T) {
	open := func(o Options) func(t *testing.T, r eventlog.Retention) eventlog.Log {
		return func(t *testing.T, r eventlog.Retention) eventlog.Log {
			o.Retention = r
			return openLog(t, t.TempDir(), &o)
		}
	}
	for name, test := range map[string]func(t *testing.T){
		"Log":     func(t *testing.T) { eventlogtest.TestLog(t, open(Options{})) },
		"no tail": func(t *testing.T) { eventlogtest.TestLog(t, open(Options{TailBytes: 1})) }, // readers read the file
		"State":   func(t *testing.T) { eventlogtest.TestState(t, open(Options{})) },
		"Storage": func(t *testing.T) { eventlogtest.TestStorage(t, "bbolt", open(Options{})) },
		"Activity": func(t *testing.T) {
			eventlogtest.TestActivity(t, func(t *testing.T, o activitytest.Options) eventlog.Log {
				return openLog(t, t.TempDir(), &Options{Retention: eventlog.Retention{TTL: o.TTL,
					StateMaxBytes: o.MaxBytes / 3 * 8}, MaxEvents: o.MaxEvents})
			})
		},
		"Documents": func(t *testing.T) {
			documenttest.TestStore(t, func(t *testing.T) document.Store { return openLog(t, t.TempDir(), nil).Documents() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func TestOpen_saysHowFarItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := openLog(t, dir, nil)
	for n := range 200 {
		eventlogtest.Append(t, log, acme, eventlogtest.Sized(eventlogtest.Entry("a", n), 4000))
	}
	require.NoError(t, log.Release())
	var total int64
	var all []int64
	openLog(t, dir, &Options{Progress: func(done, of int64) { all, total = append(all, done), of }})
	assert.IsNonDecreasing(t, append(all, total))
	assert.Len(t, all, 200, "each entry")
	assert.Less(t, all[0], total/100)
	assert.Greater(t, all[len(all)-1], total/2, "free pages are not read")
}

func errorOf(_ any, err error) error { return err }

// puts returns changes that give n new documents values of a size.
func puts(n, size int, ttl time.Duration, name func(i int) string) []document.Change {
	changes := make([]document.Change, n)
	for i := range changes {
		changes[i] = document.Put(document.Document{Name: name(i)}, make([]byte, size), ttl)
	}
	return changes
}

// openLog opens a log that is released when the test ends, unless it was before.
func openLog(t testing.TB, dir string, opts *Options) *Log {
	t.Helper()
	l, err := Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Release()) })
	return l
}

// item is an entry as a reader sees it.
type item struct {
	ID        eventlog.ID
	SessionID string
	Keys      []feed.Key
	Data      string
}

func items(entries []eventlog.Entry) []item {
	list := make([]item, len(entries))
	for i, e := range entries {
		list[i] = item{e.ID, e.SessionID, append([]feed.Key{}, e.Keys...), string(e.Data)}
	}
	return list
}

func get(t testing.TB, log eventlog.Log, productID string, names ...string) []document.Document {
	t.Helper()
	docs, err := log.Documents().Get(t.Context(), productID, names...)
	require.NoError(t, err)
	return docs
}

func list(t testing.TB, log eventlog.Log, productID string) []document.Document {
	t.Helper()
	docs, err := log.Documents().List(t.Context(), productID, "", "", 1<<20)
	require.NoError(t, err)
	return docs
}

// put gives a document a value regardless of its version.
func put(t testing.TB, log eventlog.Log, productID, name, value string, ttl time.Duration) {
	t.Helper()
	put := document.Put(get(t, log, productID, name)[0], []byte(value), ttl)
	require.NoError(t, errorOf(log.Documents().Write(t.Context(), productID, put)))
}

func TestOpen_reportsEveryMistake(t *testing.T) {
	_, err := Open("", &Options{TailBytes: -1,
		Retention: eventlog.Retention{TTL: -1, MaxBytes: -1, StateMaxBytes: -1, TotalBytes: -1}})
	assert.Equal(t, []string{"boltlog.dir", "boltlog.TailBytes", "eventlog.Retention.TTL", "eventlog.Retention.MaxBytes",
		"eventlog.Retention.StateMaxBytes", "eventlog.Retention.TotalBytes"}, musttest.Mistakes(t, err))
}
