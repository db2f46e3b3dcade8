package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// openBolt opens a log that lasts, and runs it.
func openBolt(t testing.TB, dir string, maxEvents int) *boltlog.Log {
	t.Helper()
	log, err := boltlog.Open(dir, &boltlog.Options{TailBytes: 64 << 10, MaxEvents: maxEvents})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, log.Release())
	})
	return log
}

// lookups returns the store's answers about users.
func lookups(t testing.TB, store recent.Store, users []string) map[string]recent.Records {
	t.Helper()
	all := map[string]recent.Records{}
	for _, user := range users {
		found, err := store.Recent(t.Context(), product, user, 1000)
		require.NoError(t, err)
		all[user] = found
	}
	return all
}

// filing returns a function for Replay that files in a memory.
func filing(m *recent.Memory) func([]eventlog.Entry) error {
	return func(entries []eventlog.Entry) error {
		filings, err := engine.Filings(entries)
		m.File(product, filings...)
		return err
	}
}

func replay(t testing.TB, log eventlog.Log, m *recent.Memory) eventlog.ID {
	t.Helper()
	newest, err := eventlog.Replay(t.Context(), log, product, eventlog.ID{}, filing(m))
	require.NoError(t, err)
	return newest
}

// traffic makes up requests: sessions that change hands, events that come
// late, more than once or without a session, and users of many sessions.
type traffic struct {
	random *rand.Rand
	clock  time.Time
	past   []activity.Event
	users  []string
}

func newTraffic(seed uint64) *traffic {
	tr := &traffic{random: rand.New(rand.NewPCG(seed, 0)), clock: noon}
	for n := range 12 {
		tr.users = append(tr.users, fmt.Sprint("user ", n))
	}
	return tr
}

func (tr *traffic) request() []activity.Event {
	events := make([]activity.Event, 1+tr.random.IntN(12))
	for i := range events {
		if len(tr.past) > 0 && tr.random.IntN(10) == 0 {
			events[i] = tr.past[tr.random.IntN(len(tr.past))]
			continue
		}
		events[i] = tr.event()
		tr.past = append(tr.past, events[i])
	}
	return events
}

// event returns a new event, of which some are of the same time.
func (tr *traffic) event() activity.Event {
	tr.clock = tr.clock.Add(time.Duration(tr.random.IntN(3)) * time.Second)
	at := tr.clock
	if tr.random.IntN(4) == 0 {
		at = at.Add(-time.Duration(tr.random.IntN(600)) * time.Second)
	}
	n := tr.random.IntN(20)
	e := does(fmt.Sprint("session ", n), tr.users[(n+tr.random.IntN(2)*tr.random.IntN(5))%len(tr.users)],
		fmt.Sprint("event ", len(tr.past)), 0)
	e.Time = at
	switch tr.random.IntN(12) {
	case 0:
		e.SessionID = ""
	case 1:
		e.UserID = ""
	case 2:
		e.Action, e.Email = nil, "somebody@example.com"
	}
	if tr.random.IntN(2) == 0 {
		e.ID = uuid.NewSHA1(uuid.Nil, []byte(e.ID)).String()
	}
	return e
}

// Lookups answer the same after a restart as before it, also for users with more actions than are
// kept. Recording goes on as if it had never stopped.
func TestReplay_bringsBackEveryLookup(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dir, maxEvents := t.TempDir(), 10<<(seed%3)
			tr := newTraffic(seed)
			var want map[string]recent.Records
			t.Run("before", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				recorder := musttest.New(eventlog.NewRecorder(log, nil))
				for range 100 {
					_, err := recorder.Record(t.Context(), product, tr.request())
					require.NoError(t, err)
				}
				want = lookups(t, log.Activity(), tr.users)
			})
			t.Run("after", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				require.Equal(t, want, lookups(t, log.Activity(), tr.users))
				_, err := musttest.New(eventlog.NewRecorder(log, nil)).Record(t.Context(), product,
					tr.past[max(0, len(tr.past)-50):])
				require.NoError(t, err)
				require.Equal(t, want, lookups(t, log.Activity(), tr.users), "events that are sent again change nothing")
			})
		})
	}
}

func TestReplay_skipsEntriesWithoutABatch(t *testing.T) {
	log, store := newMemoryLog(), musttest.New(recent.NewMemory(nil))
	require.NoError(t, log.Append(t.Context(), product, []eventlog.Entry{
		{Data: []byte(`{}`)}, {Data: []byte(`{"type":"note","actions":7}`)}, eventlogtest.Entry("s1", 0),
	}))
	_, err := musttest.New(eventlog.NewRecorder(log, nil)).Record(t.Context(), product,
		[]activity.Event{does("s1", "ada", "a", 1)})
	require.NoError(t, err)
	last := eventlogtest.Append(t, log, product, eventlogtest.Entry("s1", 1))[0]
	require.Equal(t, last.ID, replay(t, log, store))
	require.Len(t, lookups(t, store, []string{"ada"})["ada"], 1)
	require.Equal(t, 1, store.Users(product))
}

func TestReplay_ofAnEmptyLogEndsWhereItIsTrimmedTo(t *testing.T) {
	log, store := newMemoryLog(), musttest.New(recent.NewMemory(nil))
	require.Equal(t, eventlogtest.Bounds(t, log, product).TrimmedTo, replay(t, log, store))
	require.Zero(t, store.Users(product))
}

// recordMany records actions of many sessions and users, one request each.
func recordMany(t testing.TB, log eventlog.Log, n int) (users []string) {
	t.Helper()
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	for i := range n {
		users = append(users, fmt.Sprint("user ", i))
		_, err := recorder.Record(t.Context(), product,
			[]activity.Event{does(fmt.Sprint("s", i), users[i], fmt.Sprint("a", i), 1)})
		require.NoError(t, err)
	}
	return users
}

func TestReplay_returnsTheErrorsOfStorage(t *testing.T) {
	memory := newMemoryLog()
	recordMany(t, memory, 2000)
	nothing := func([]eventlog.Entry) error { return nil }
	portions := 0
	for name, test := range map[string]struct {
		log  eventlog.Log
		file func([]eventlog.Entry) error
	}{
		"of the log from the start": {func() eventlog.Log {
			log := &failingLog{Log: memory}
			log.down.Store(true)
			return log
		}(), nothing},
		"of the log on the way":    {&readsLog{Log: memory, left: 2}, nothing},
		"of filing from the start": {memory, func([]eventlog.Entry) error { return errDown }},
		"of filing on the way": {memory, func([]eventlog.Entry) error {
			if portions++; portions > 2 {
				return errDown
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eventlog.Replay(t.Context(), test.log, product, eventlog.ID{}, test.file)
			require.ErrorIs(t, err, errDown)
		})
	}
}

// readsLog is a log that can be read so many times.
type readsLog struct {
	eventlog.Log
	left int
}

func (l *readsLog) Read(ctx context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	if l.left--; l.left < 0 {
		return 0, errDown
	}
	return l.Log.Read(ctx, productID, after, dst)
}

func TestReplay_refusesABatchThatCannotBeRead(t *testing.T) {
	log := newMemoryLog()
	eventlogtest.Append(t, log, product, eventlog.Entry{Data: []byte(`{"type":"actions","actions":7}`)})
	_, err := eventlog.Replay(t.Context(), log, product, eventlog.ID{}, filing(musttest.New(recent.NewMemory(nil))))
	require.Error(t, err)
}

func TestReplay_endsWithItsContext(t *testing.T) {
	log := newMemoryLog()
	users := recordMany(t, log, 3000)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := eventlog.Replay(ctx, log, product, eventlog.ID{}, func([]eventlog.Entry) error {
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)

	memory := musttest.New(recent.NewMemory(nil))
	if _, err = eventlog.Replay(ctx, log, product, eventlog.ID{}, filing(memory)); err == nil {
		require.Equal(t, len(users), memory.Users(product), "who says that all is filed has filed all")
		return
	}
	require.ErrorIs(t, err, context.Canceled)
}

// A replay goes on from the end of another one.
func TestReplay_beginsAfterItsCursor(t *testing.T) {
	log := newMemoryLog()
	recordMany(t, log, 10)
	cursor := replay(t, log, musttest.New(recent.NewMemory(nil)))
	last := eventlogtest.Append(t, log, product, eventlogtest.Entry("s1", 1))[0]
	var got []eventlog.ID
	end, err := eventlog.Replay(t.Context(), log, product, cursor, func(entries []eventlog.Entry) error {
		got = append(got, eventlogtest.IDs(entries)...)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, last.ID, end)
	require.Equal(t, []eventlog.ID{last.ID}, got)
}

// Entries may come and go while a log is replayed. The replay files every entry that is still
// there, up to the one that it ended with.
func TestReplay_whileEntriesComeAndGo(t *testing.T) {
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 400 << 10}}))
	recordMany(t, log, 500)
	first := eventlogtest.Bounds(t, log, product)
	const perRound = 50 // so that the log never loses all it held when a round began
	allowed := make(chan struct{}, perRound)
	var appending sync.WaitGroup
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	appending.Go(func() {
		n := 0
		for range allowed {
			n++
			name := fmt.Sprint("new ", n)
			_, err := recorder.Record(t.Context(), product, []activity.Event{does(name, name, name, 1)})
			assert.NoError(t, err)
		}
	})
	for range 20 {
		before := eventlogtest.Bounds(t, log, product)
		for range perRound {
			allowed <- struct{}{}
		}
		store := musttest.New(recent.NewMemory(nil))
		newest := replay(t, log, store)
		require.GreaterOrEqual(t, newest.Compare(before.Newest), 0)
		require.Less(t, eventlogtest.Bounds(t, log, product).TrimmedTo.Compare(before.Newest), 0,
			"else there was nothing to find")
		for _, e := range heldNow(t, log) {
			if e.ID.Compare(newest) <= 0 {
				user := strings.Replace(e.SessionID, "s", "user ", 1)
				require.Len(t, lookups(t, store, []string{user})[user], 1)
			}
		}
	}
	close(allowed)
	appending.Wait()
	require.Positive(t, eventlogtest.Bounds(t, log, product).TrimmedTo.Compare(first.Newest),
		"everything there was at first has gone")
}

// heldNow returns the log's entries at a moment, however fast they change.
func heldNow(t testing.TB, log eventlog.Log) []eventlog.Entry {
	t.Helper()
	var held []eventlog.Entry
	into := make([]eventlog.Entry, 1000)
	bounds := eventlogtest.Bounds(t, log, product)
	for at := bounds.TrimmedTo; at.Compare(bounds.Newest) < 0; {
		n, err := log.Read(t.Context(), product, at, into)
		var gap *eventlog.GapError
		if errors.As(err, &gap) {
			held, at = nil, gap.TrimmedTo
			continue
		}
		require.NoError(t, err)
		held, at = append(held, into[:n]...), into[n-1].ID
	}
	return held
}

// A log that was closed can still be replayed.
func TestReplay_ofAClosedLog(t *testing.T) {
	log := newMemoryLog()
	users := recordMany(t, log, 100)
	require.NoError(t, log.Close())
	store := musttest.New(recent.NewMemory(nil))
	require.Equal(t, eventlogtest.Bounds(t, log, product).Newest, replay(t, log, store))
	require.Equal(t, len(users), store.Users(product))
}
