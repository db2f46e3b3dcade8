package redislog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

const (
	acme = "acme"
	page = "https://app.acme.example/reports/42"
)

// appendOne appends an entry, which must work, and returns it with its ID.
func appendOne(t testing.TB, log *Log, e eventlog.Entry) eventlog.Entry {
	t.Helper()
	entries := []eventlog.Entry{e}
	require.NoError(t, log.Append(t.Context(), acme, entries))
	return entries[0]
}

// entry returns an entry of a session with an action of each user, and the key of each.
func entry(session string, users ...string) eventlog.Entry {
	actions := make([]activity.Action, len(users))
	for i, user := range users {
		actions[i] = activitytest.Click(time.Now().Add(time.Duration(i)*time.Millisecond), user, page)
	}
	b := activitytest.NewBatch(acme, session, "", actions...)
	e := eventlog.Entry{SessionID: session, Batch: &b}
	for i, user := range users {
		b.Actions[i].UserID = user
		e.Keys = append(e.Keys, feed.KeyOf(actions[i].ID))
	}
	e.Data, _ = jsontext.Marshal(b) // a batch always encodes
	return e
}

// labels returns the titles of a user's clicks.
func labels(t testing.TB, log *Log, user string) (titles []string) {
	t.Helper()
	found, err := log.Activity().Recent(t.Context(), acme, recent.Subject{UserID: user}, 100)
	require.NoError(t, err)
	actions, err := found.Actions()
	require.NoError(t, err)
	for _, a := range actions {
		titles = append(titles, a.Title)
	}
	return titles
}

func write(t testing.TB, log *Log, changes ...document.Change) document.Version {
	t.Helper()
	version, err := log.Documents().Write(t.Context(), acme, changes...)
	require.NoError(t, err)
	return version
}

// listed returns the documents whose names begin so.
func listed(t testing.TB, log *Log, prefix string) []document.Document {
	t.Helper()
	docs, err := log.Documents().List(t.Context(), acme, prefix, "", 1000)
	require.NoError(t, err)
	return docs
}

func readsNothing(t testing.TB, log *Log, productID string, after eventlog.ID) {
	t.Helper()
	n, err := log.Read(t.Context(), productID, after, make([]eventlog.Entry, 1))
	require.NoError(t, err)
	require.Zero(t, n)
}

func newest(t testing.TB, log *Log) eventlog.ID {
	t.Helper()
	return eventlogtest.Bounds(t, log, acme).Newest
}

func data(entries []eventlog.Entry) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = string(e.Data)
	}
	return list
}

// reader follows a log until it is stopped.
type reader struct {
	mu    sync.Mutex
	got   []eventlog.Entry
	gaps  int
	stop  func() error
	ended chan struct{} // closed in the end
}

func follow(t testing.TB, log eventlog.Log, after eventlog.ID) *reader {
	r := &reader{ended: make(chan struct{})}
	source := musttest.New(eventlog.NewSource(log, acme))
	source.Logger = slog.New(slog.DiscardHandler)
	r.stop = waittest.Run(t, func(ctx context.Context) error {
		defer close(r.ended)
		return source.Entries(ctx, after, func(_ eventlog.ID, entries []eventlog.Entry) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.got = append(r.got, entries...); len(entries) == 0 {
				r.gaps++
			}
			return nil
		})
	})
	return r
}

func (r *reader) read() []eventlog.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[:len(r.got):len(r.got)]
}

func (r *reader) told() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gaps
}

// gets waits until the newest entry that the reader has got has this ID.
func (r *reader) gets(t testing.TB, id eventlog.ID) {
	t.Helper()
	waittest.Until(t, "the entry is read", func() bool {
		got := r.read()
		return len(got) > 0 && got[len(got)-1].ID == id
	})
}

func (r *reader) has(t testing.TB, n int) []eventlog.Entry {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d entries are read", n), func() bool { return len(r.read()) >= n })
	return r.read()
}

// writer appends entries one after another, each until it is acknowledged.
type writer struct {
	name  string
	acked []eventlog.Entry // with their IDs, where they are known
}

// write appends the writer's entries from first up to n, counted from zero.
// After an error it tries again, as sources do.
func (w *writer) write(ctx context.Context, log eventlog.Log, first, n int) error {
	for i := first; i < n; i++ {
		for {
			e := []eventlog.Entry{eventlogtest.Entry(w.name, i)}
			err := log.Append(ctx, acme, e)
			if err == nil || errors.As(err, new(*eventlog.DuplicateError)) {
				w.acked = append(w.acked, e...)
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// requireAll requires that entries are n of each of the writers, each once and
// in the order in which it was acknowledged.
func requireAll(t testing.TB, entries []eventlog.Entry, n int, writers ...*writer) {
	t.Helper()
	for i := range len(entries) - 1 {
		require.Negative(t, entries[i].ID.Compare(entries[i+1].ID), "%s then %s", entries[i].ID, entries[i+1].ID)
	}
	bySession := map[string][]string{}
	for _, e := range entries {
		bySession[e.SessionID] = append(bySession[e.SessionID], string(e.Data))
	}
	for _, w := range writers {
		require.Equal(t, data(eventlogtest.Entries(w.name, n)), bySession[w.name], w.name)
	}
}

// tailBytes returns the cost of the newest entries that this process has.
func (l *Log) tailBytes() (total int64) {
	l.each(func(p *product) { total += p.tail.Bytes() })
	return total
}

// watched returns how many products readers wait for.
func (l *Log) watched() (n int) {
	l.each(func(p *product) {
		if p.watched {
			n++
		}
	})
	return n
}

// rest makes all products as quiet as they would be after that time.
func (l *Log) rest(after time.Duration) { l.each(func(p *product) { p.news = p.news.Add(-after) }) }

func (l *Log) each(do func(p *product)) {
	for _, p := range l.products.All() {
		p.mu.Lock()
		do(p)
		p.mu.Unlock()
	}
}
