package eventlogtest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// TestActivity checks that the logs returned by open file the actions of the
// entries that they append. It runs the suites of package activitytest, and checks
// that an append and its actions are atomic. Every call of open must return a new
// empty log with these bounds. MaxBytes bounds the users' actions; zero means the
// default. open must register its cleanup with t.Cleanup.
func TestActivity(t *testing.T, open func(t *testing.T, o activitytest.Options) eventlog.Log) {
	openFiler := func(t *testing.T, o activitytest.Options) activitytest.Engine { return NewFiler(open(t, o)) }
	t.Run("Store", func(t *testing.T) { activitytest.TestStore(t, openFiler) })
	t.Run("Bounds", func(t *testing.T) { activitytest.TestBounds(t, openFiler) })
	t.Run("Append", func(t *testing.T) {
		runAll(t, filingTests, func(t *testing.T, _ eventlog.Retention) eventlog.Log {
			return open(t, activitytest.Options{TTL: time.Hour, MaxEvents: 50})
		})
	})
}

// Filer makes a log an [activitytest.Engine].
type Filer struct {
	recent.Store
	log eventlog.Log
}

// NewFiler returns a log's activity as a store that can be filled.
func NewFiler(log eventlog.Log) Filer { return Filer{log.Activity(), log} }

// Add appends the batch as an entry without keys.
func (f Filer) Add(ctx context.Context, b activity.Batch) error {
	data, err := b.AppendJSON(nil)
	if err != nil {
		return err
	}
	return f.log.Append(ctx, b.ProductID, []eventlog.Entry{{SessionID: b.SessionID, Data: data, Batch: &b}})
}

// Identify appends the identity as an entry.
func (f Filer) Identify(ctx context.Context, who feed.Identity) error {
	return f.log.Append(ctx, who.ProductID, []eventlog.Entry{identityEntry(who)})
}

// identityEntry returns an entry with the identity and a new key.
func identityEntry(who feed.Identity) eventlog.Entry {
	return eventlog.Entry{SessionID: who.SessionID, Data: musttest.New(json.Marshal(who)),
		Keys: keysNamed(uuid.NewString())}
}

// BatchEntry returns an entry that is made from a batch as a recorder makes it,
// with the keys of its actions.
func BatchEntry(t testing.TB, b activity.Batch) eventlog.Entry {
	t.Helper()
	data, err := b.AppendJSON(nil)
	require.NoError(t, err)
	e := eventlog.Entry{SessionID: b.SessionID, Data: data, Batch: &b}
	for i := range b.Actions {
		e.Keys = append(e.Keys, feed.KeyOf(b.Actions[i].ID))
	}
	return e
}

const page = "https://app.acme.example/reports/42"

// filed returns how many actions of a user can be looked up.
func (f fixture) filed(user string) int {
	f.Helper()
	return f.actions(recent.Subject{UserID: user})
}

func (f fixture) actions(of recent.Subject) int {
	f.Helper()
	found, err := f.log.Activity().Recent(f.Context(), product, of, 50)
	require.NoError(f, err)
	return len(found.Records)
}

var filingTests = []test{
	{name: "a refused append is not filed", run: func(f fixture) {
		first := f.append(f.act("s", "ada"))[0]
		other, wrong := f.act("s", "ada"), f.act("s", "ada")
		wrong.Batch.Actions[0].TimestampStart = 1e300
		put, unnamed := f.put("new", "1"), document.Put(named(""), nil, 0)
		var duplicate *eventlog.DuplicateError
		for _, entries := range [][]eventlog.Entry{{first}, {other, first}, {other, other}} {
			require.ErrorAs(f, f.log.Append(f.Context(), product, entries, put), &duplicate)
		}
		require.ErrorIs(f, f.log.Append(f.Context(), product, []eventlog.Entry{other, wrong}, put), eventlog.ErrInvalid)
		require.ErrorIs(f, f.log.Append(f.Context(), product, []eventlog.Entry{other}, put, unnamed), document.ErrInvalid)
		require.ErrorIs(f, f.log.Append(f.Context(), product, nil, put, unnamed), document.ErrInvalid)
		f.conflict("none", []eventlog.Entry{other}, put, document.Check(document.Document{Name: "none", Version: 1}))
		require.Equal(f, 1, f.filed("ada"))
		require.Empty(f, f.documents())
		require.Len(f, Retained(f, f.log, product), 1)
		f.change([]eventlog.Entry{other}, put)
		require.Equal(f, 2, f.filed("ada"))
	}},
	{name: "a retry is a duplicate only once the action is filed", run: testRetries},
}

// testRetries appends with a caller that may give up at any moment, and then appends again.
// The second append may or may not be a duplicate; in both cases the action can be looked up.
func testRetries(f fixture) {
	const tries = 200
	duplicates := 0
	for n := range tries {
		e := f.act("s", "ada")
		user := e.Batch.Actions[0].ID
		e.Batch.Actions[0].UserID = user
		ctx, cancel := context.WithTimeout(f.Context(), time.Duration(n)*10*time.Microsecond)
		_ = f.log.Append(ctx, product, []eventlog.Entry{e}) // it may have happened
		cancel()
		var seen *eventlog.DuplicateError
		waittest.Until(f, "the retry is answered", func() bool {
			err := f.log.Append(f.Context(), product, []eventlog.Entry{e})
			if errors.As(err, &seen) {
				duplicates++
				return true
			}
			return err == nil
		})
		require.Equal(f, 1, f.filed(user), "after %s", ctx.Err())
	}
	f.Logf("%d of %d were duplicates", duplicates, tries)
}
