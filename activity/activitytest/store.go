package activitytest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Options are the bounds of a store under test. TTL and MaxEvents are always
// set.
type Options struct {
	TTL       time.Duration // how long an action is kept
	MaxEvents int           // actions kept per user
	MaxBytes  int64         // bound of a product's users; zero for the engine's default
}

// Engine is a store that can be filled.
type Engine interface {
	recent.Store

	// Add files the batch's actions. It may be repeated after an error, and may
	// keep the batch's strings but not its slice.
	Add(ctx context.Context, b activity.Batch) error

	// Identify files an identity.
	Identify(ctx context.Context, who feed.Identity) error
}

// TestStore checks every promise of [recent.Store]. It calls open for an
// empty store at the start of each subtest; open registers its cleanup with
// t.Cleanup. Stores may share a server as long as none sees another's actions.
func TestStore(t *testing.T, open func(t *testing.T, o Options) Engine) {
	for _, chapter := range []struct {
		name  string
		tests []test
	}{
		{"Order", orderTests},
		{"Trim", trimTests},
		{"Limit", []test{{name: "newest of those kept", run: testLimits}}},
		{"Duplicates", duplicateTests},
		{"Isolation", isolationTests},
		{"End", endTests},
		{"Identity", identityTests},
		{"Session", sessionTests},
		{"Sessions", sessionsOfTests},
		{"Marks", []test{{name: "a click that arrives again", run: testMarks}}},
		{"Arrival", arrivalTests},
		{"Retention", retentionTests},
		{"JSON", jsonTests},
		{"Ownership", ownershipTests},
		{"Concurrency", concurrencyTests},
		{"Model", modelTests()},
	} {
		t.Run(chapter.name, func(t *testing.T) { runAll(t, chapter.tests, open, Options{}) })
	}
}

// test is one promise of a store.
type test struct {
	name string
	max  int // actions kept per user; maxEvents for zero
	run  func(f fixture)
}

// runAll runs each test as a subtest with a store of its own.
func runAll(t *testing.T, tests []test, open func(t *testing.T, o Options) Engine, o Options) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o.TTL, o.MaxEvents = ttl, cmp.Or(test.max, maxEvents)
			base := time.Now().Add(-ttl / 2).Truncate(time.Second)
			test.run(fixture{T: t, store: open(t, o), base: base})
		})
	}
}

const (
	product   = "acme"
	page      = "https://app.acme.example/reports/42"
	ttl       = time.Hour
	maxEvents = 50
)

// fixture is an empty store and a clock: tests count seconds from a base time
// that is well within the retention.
type fixture struct {
	*testing.T
	store Engine
	base  time.Time
}

// at returns the time that many seconds after the base, to the microsecond.
func (f fixture) at(seconds float64) time.Time {
	return f.base.Add(time.Duration(math.Round(seconds*1e6)) * time.Microsecond)
}

// click returns an action at that second, labelled with it.
func (f fixture) click(second float64) activity.Action {
	return Click(f.at(second), fmt.Sprint(second), page)
}

func (f fixture) add(batches ...activity.Batch) {
	f.Helper()
	for _, b := range batches {
		require.NoError(f, f.store.Add(f.Context(), b))
	}
}

func (f fixture) recent(product, user string, limit int) recent.Records {
	return f.read(product, recent.Subject{UserID: user}, limit).Records
}

// session returns the records of a session of the product.
func (f fixture) session(id string) recent.Records {
	return f.read(product, recent.Subject{SessionID: id}, 1000).Records
}

func (f fixture) read(product string, of recent.Subject, limit int) recent.Snapshot {
	f.Helper()
	first, err := f.store.Recent(f.Context(), product, of, limit)
	require.NoError(f, err)
	clear(first.Records) // the caller owns them
	found, err := f.store.Recent(f.Context(), product, of, limit)
	require.NoError(f, err)
	return found
}

// spans formats the user's activity as "start-end" in seconds after the base.
func (f fixture) spans(product, user string) string {
	f.Helper()
	return spans(f.recent(product, user, maxEvents), f.base)
}

func spans(found recent.Records, base time.Time) string {
	words := make([]string, len(found))
	for i, r := range found {
		words[i] = fmt.Sprintf("%g-%g", secondsAfter(base, r.Start), secondsAfter(base, r.End))
	}
	return strings.Join(words, " ")
}

func secondsAfter(base time.Time, micros int64) float64 {
	return time.UnixMicro(micros).Sub(base).Seconds()
}

// labels returns the labels of the clicks, in the order returned.
func labels(t testing.TB, found recent.Records) string {
	t.Helper()
	actions, err := found.Actions()
	require.NoError(t, err)
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = strings.TrimPrefix(a.Title, "Click ")
	}
	return strings.Join(words, " ")
}

// did is an action that arrives in its own batch.
type did struct {
	user, session string
	at            float64
}

// happen files actions and identities, each a did or a said, in this order.
func (f fixture) happen(all ...any) {
	f.Helper()
	for _, one := range all {
		switch one := one.(type) {
		case did:
			f.add(NewBatch(product, one.session, one.user, f.click(one.at)))
		case said:
			f.identify(one)
		}
	}
}

// clicks returns an action at each second.
func (f fixture) clicks(seconds ...float64) []activity.Action {
	actions := make([]activity.Action, len(seconds))
	for i, second := range seconds {
		actions[i] = f.click(second)
	}
	return actions
}

// addAs adds an action with that ID.
func (f fixture) addAs(id string, d did) {
	f.Helper()
	a := f.click(d.at)
	a.ID = id
	f.add(NewBatch(product, d.session, d.user, a))
}

// brings adds batches of a session with actions at these seconds, and requires that those
// wanted are kept.
func brings(want string, batches ...[]float64) func(f fixture) {
	return func(f fixture) {
		for _, seconds := range batches {
			f.add(NewBatch(product, "s", "ada", f.clicks(seconds...)...))
		}
		require.Equal(f, want, labels(f, f.recent(product, "ada", maxEvents)))
	}
}

var orderTests = []test{
	{name: "actions that come in any order",
		run: brings("1 2 3 4 5", []float64{4}, []float64{1}, []float64{5}, []float64{3}, []float64{2})},
	{name: "actions microseconds apart",
		run: brings("1.000001 1.000002 1.000003", []float64{1.000002}, []float64{1.000001}, []float64{1.000003})},
	{name: "simultaneous actions are all kept in order of arrival", run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada", Click(f.at(1), "a", page), Click(f.at(1), "b", page)),
			NewBatch(product, "s", "ada", f.click(2)),
			NewBatch(product, "s", "ada", Click(f.at(1), "c", page)))
		require.Equal(f, "a b c 2", labels(f, f.recent(product, "ada", maxEvents)))
	}},
}

var trimTests = []test{
	{name: "newest of one batch are kept", max: 3, run: brings("5 6 7", []float64{1, 2, 3, 4, 5, 6, 7})},
	{name: "late batch that overlaps", max: 3, run: brings("5.5 6 7", []float64{4, 5, 6}, []float64{1, 2, 5.5, 7})},
	{name: "newest of many sessions are kept, however late the others come", max: 3, run: func(f fixture) {
		f.happen(did{"ada", "now", 9}, did{"ada", "s1", 1}, did{"ada", "s2", 2}, did{"ada", "s3", 3}, did{"ada", "s4", 4})
		require.Equal(f, "3 4 9", labels(f, f.recent(product, "ada", maxEvents)))
		f.happen(did{"ada", "s3", 6}, did{"ada", "now", 0}, did{"ada", "s1", 5})
		require.Equal(f, "5 6 9", labels(f, f.recent(product, "ada", maxEvents)))
		f.happen(did{"anon", "s5", 2}, did{"anon", "s5", 8}, said{"anon", "ada", "s5", 10, 0}, did{"ada", "s6", 7})
		require.Equal(f, "7 8 9", labels(f, f.recent(product, "ada", maxEvents)))
	}},
}

// testLimits asks for so many of five actions of a user and of a session.
func testLimits(f fixture) {
	f.add(NewBatch(product, "s", "ada", f.clicks(1, 2, 3, 4, 5)...))
	for limit, want := range map[int]string{-1: "", 0: "", 1: "5", 2: "4 5", 5: "1 2 3 4 5", 1 << 30: "1 2 3 4 5"} {
		require.Equal(f, want, labels(f, f.recent(product, "ada", limit)), "limit %d", limit)
		of := recent.Subject{SessionID: "s"}
		require.Equal(f, want, labels(f, f.read(product, of, limit).Records), "limit %d of the session", limit)
	}
}

var duplicateTests = []test{
	{name: "duplicate within a batch", run: func(f fixture) {
		a := f.click(1)
		f.add(NewBatch(product, "s", "ada", a, a, f.click(2), a))
		require.Equal(f, "1-2 2-2", f.spans(product, "ada"))
	}},
	{name: "batch retried after an error", max: 3, run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.clicks(1, 2, 3, 4)...)
		f.add(b, b, NewBatch(product, "s", "ada", f.click(5)), b)
		require.Equal(f, "3-4 4-5 5-5", f.spans(product, "ada"))
	}},
	{name: "batch retried in part", run: func(f fixture) {
		all := f.clicks(1, 2, 3, 4)
		f.add(NewBatch(product, "s", "ada", all[:3]...), NewBatch(product, "s", "ada", all[1:]...))
		require.Equal(f, "1-2 2-3 3-4 4-4", f.spans(product, "ada"))
	}},
	{name: "many duplicates of an action without a user id", max: 3, run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada", f.click(1)))
		b := NewBatch(product, "s", "", f.click(3))
		for range 40 {
			f.add(b)
		}
		f.add(NewBatch(product, "s", "bob", f.click(2)))
		require.Equal(f, "1-1", f.spans(product, "ada"), "duplicates must not take the place of late actions")
		require.Equal(f, "2-2", f.spans(product, "bob"))
		require.Equal(f, "1-1 2-2 3-3", spans(f.session("s"), f.base))
	}},
	{name: "IDs that are not UUIDs", run: func(f fixture) {
		for i, id := range []string{"1", "2", "1", strings.Repeat("x", 1000), strings.Repeat("x", 1001), "2"} {
			f.addAs(id, did{"ada", "s", float64(i)})
		}
		require.Equal(f, "0-1 1-3 3-4 4-4", f.spans(product, "ada"), "no action ends at a duplicate")
	}},
	{name: "UUIDs alike", run: func(f fixture) {
		const nothing = "00000000-0000-0000-0000-000000000000"
		f.addAs(nothing, did{"ada", "s", 0})
		for i := range nothing {
			if nothing[i] != '-' {
				f.addAs(nothing[:i]+"1"+nothing[i+1:], did{"ada", "s", float64(i + 1)})
			}
		}
		require.Len(f, f.recent(product, "ada", maxEvents), 33)
	}},
	{name: "another product may use the ID, in another session of that name", run: func(f fixture) {
		a := f.click(1)
		f.add(NewBatch(product, "s", "ada", a), NewBatch("other", "s", "ada", a, f.click(2)))
		require.Equal(f, "1-1", f.spans(product, "ada"))
		require.Equal(f, "1-2 2-2", f.spans("other", "ada"))
	}},
}

var isolationTests = []test{
	{name: "unknown user has nothing", run: func(f fixture) {
		require.Empty(f, f.recent(product, "nobody", maxEvents))
		f.add(NewBatch(product, "s", "ada", f.click(1)))
		require.Empty(f, f.recent(product, "nobody", maxEvents))
		require.Empty(f, f.recent(product, "", maxEvents))
		require.Empty(f, f.recent("other", "ada", maxEvents))
	}},
	{name: "action belongs to its own user, not the batch's", run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.clicks(1, 2, 3)...)
		b.Actions[0].UserID, b.Actions[1].UserID = "anonymous", ""
		f.add(b)
		require.Equal(f, "1-1", f.spans(product, "anonymous"))
		require.Equal(f, "3-3", f.spans(product, "ada"))
	}},
	{name: "users and products of similar names", run: testNames},
}

// testNames files one action for each pair of product and user, with names
// that an engine could confuse when it builds keys from them.
func testNames(f fixture) {
	products := []string{"acme", "ACME", "acme:a", "acme/a", "{acme}", "*", "é", "e\u0301"}
	users := []string{"ada", "Ada", "ada ", " ada", "a:ada", "/ada", "a/ada", "../ada", "ada\x00", "*", "a*", "?",
		"{acme}", "ada@example.com", "%61da", "日本", "\n", "\"", `\`, "'; --", "null", strings.Repeat("u", 4096)}
	for i, p := range products {
		for j, u := range users {
			f.add(NewBatch(p, "s", u, Click(f.at(1), fmt.Sprintf("%d/%d", i, j), page)))
		}
	}
	for i, p := range products {
		for j, u := range users {
			require.Equal(f, fmt.Sprintf("%d/%d", i, j), labels(f, f.recent(p, u, maxEvents)), "product %q user %.40q", p, u)
		}
	}
}

var retentionTests = []test{
	{name: "kept until it expires", run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada",
			Click(time.Now().Add(-ttl-time.Minute), "old", page),
			Click(time.Now().Add(-ttl+time.Minute), "kept", page),
			Click(time.Now(), "new", page)))
		require.Equal(f, "kept new", labels(f, f.recent(product, "ada", maxEvents)))
	}},
	{name: "expired action evicts nothing", max: 2, run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2)...),
			NewBatch(product, "s", "ada", Click(time.Now().Add(-2*ttl), "old", page)))
		require.Equal(f, "1-2 2-2", f.spans(product, "ada"))
	}},
	{name: "expires while it is kept", run: func(f fixture) {
		const left = 50 * time.Millisecond
		f.add(NewBatch(product, "s", "ada", Click(time.Now().Add(left-ttl), "brief", page)))
		waittest.Until(f, "the action has expired", func() bool {
			ada := recent.Subject{UserID: "ada"}
			found, err := f.store.Recent(context.WithoutCancel(f.Context()), product, ada, maxEvents)
			return err == nil && len(found.Records) == 0
		})
	}},
}

var ownershipTests = []test{
	{name: "caller owns the batch again after Add", run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.clicks(1, 2)...)
		f.add(b)
		for i := range b.Actions {
			b.Actions[i] = activity.BatchAction{Action: f.click(9), SessionID: "other", UserID: "bob"}
		}
		require.Equal(f, "1-2 2-2", f.spans(product, "ada"))
		require.Empty(f, f.recent(product, "bob", maxEvents))
	}},
	{name: "caller owns the result, which does not change later", max: 2, run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2)...))
		mine := f.recent(product, "ada", maxEvents)
		mine[0], mine[1] = mine[1], recent.Record{}
		before := f.recent(product, "ada", maxEvents)
		f.add(NewBatch(product, "s", "ada", f.clicks(3, 4, 5)...))
		require.Equal(f, "1-2 2-2", spans(before, f.base))
		require.Equal(f, "1 2", labels(f, before))
	}},
	{name: "empty batch", run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada"))
		require.Empty(f, f.recent(product, "ada", maxEvents))
	}},
}
