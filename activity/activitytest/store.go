package activitytest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
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
	activity.Store

	// Add files the batch's actions. It may be repeated after an error, and may
	// keep the batch's strings but not its slice.
	Add(ctx context.Context, b activity.Batch) error

	// Identify files an identity.
	Identify(ctx context.Context, who activity.Identity) error
}

// TestStore checks every promise of [activity.Store]. It calls open for an
// empty store at the start of each subtest; open registers its cleanup with
// t.Cleanup. Stores may share a server as long as none sees another's actions.
func TestStore(t *testing.T, open func(t *testing.T, o Options) Engine) {
	groups := []struct {
		name string
		run  func(t *testing.T, open openFunc)
	}{
		{"Order", testOrder},
		{"Trim", testTrim},
		{"Limit", testLimit},
		{"Duplicates", testDuplicates},
		{"Isolation", testIsolation},
		{"End", testEnd},
		{"Identity", testIdentity},
		{"Session", testSession},
		{"Marks", testMarks},
		{"Arrival", testArrival},
		{"Retention", testRetention},
		{"JSON", testJSON},
		{"Ownership", testOwnership},
		{"Concurrency", testConcurrency},
		{"Model", testModel},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, open) })
	}
}

type openFunc = func(t *testing.T, o Options) Engine

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

func newFixture(t *testing.T, open openFunc, o Options) fixture {
	t.Helper()
	base := time.Now().Add(-ttl / 2).Truncate(time.Second)
	return fixture{T: t, store: open(t, o), base: base}
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

func (f fixture) recent(product, user string, limit int) activity.Recent {
	f.Helper()
	recent, err := f.store.Recent(f.Context(), product, user, limit)
	require.NoError(f, err)
	return recent
}

// spans formats the user's activity as "start-end" in seconds after the base.
func (f fixture) spans(product, user string) string {
	f.Helper()
	return spans(f.recent(product, user, maxEvents), f.base)
}

func spans(recent activity.Recent, base time.Time) string {
	words := make([]string, len(recent))
	for i, r := range recent {
		words[i] = fmt.Sprintf("%g-%g", secondsAfter(base, r.Start), secondsAfter(base, r.End))
	}
	return strings.Join(words, " ")
}

func secondsAfter(base time.Time, micros int64) float64 {
	return time.UnixMicro(micros).Sub(base).Seconds()
}

// labels returns what was clicked, in the order returned.
func labels(t testing.TB, recent activity.Recent) string {
	t.Helper()
	actions, err := recent.Actions()
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

func (f fixture) addEach(all []did) {
	f.Helper()
	for _, d := range all {
		f.add(NewBatch(product, d.session, d.user, f.click(d.at)))
	}
}

func testOrder(t *testing.T, open openFunc) {
	orders := map[string][]float64{
		"actions that come in order":     {1, 2, 3, 4, 5},
		"actions that come in reverse":   {5, 4, 3, 2, 1},
		"actions that come in any order": {4, 1, 5, 3, 2},
		"actions microseconds apart":     {1.000002, 1.000001, 1.000003},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
			for _, second := range order {
				f.add(NewBatch(product, "s", "ada", f.click(second)))
			}
			want := slices.Sorted(slices.Values(order))
			require.Equal(t, strings.Trim(fmt.Sprint(want), "[]"), labels(t, f.recent(product, "ada", maxEvents)))
		})
	}
	t.Run("late batch is merged", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", f.click(1), f.click(4), f.click(6)),
			NewBatch(product, "s", "ada", f.click(2), f.click(3), f.click(5)))
		require.Equal(t, "1 2 3 4 5 6", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("simultaneous actions are all kept in order of arrival", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", Click(f.at(1), "a", page), Click(f.at(1), "b", page)),
			NewBatch(product, "s", "ada", f.click(2)),
			NewBatch(product, "s", "ada", Click(f.at(1), "c", page)))
		require.Equal(t, "a b c 2", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("records carry start and session", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		a := f.click(1.5)
		f.add(NewBatch(product, "s", "ada", a))
		recent := f.recent(product, "ada", maxEvents)
		require.Len(t, recent, 1)
		require.Equal(t, f.at(1.5).UnixMicro(), recent[0].Start)
		require.Equal(t, "s", recent[0].Session)
	})
}

func testTrim(t *testing.T, open openFunc) {
	cases := []struct {
		name string
		adds [][]float64 // a batch each
		want string
	}{
		{"newest are kept", [][]float64{{1}, {2}, {3}, {4}, {5}}, "3 4 5"},
		{"newest of one batch are kept", [][]float64{{1, 2, 3, 4, 5, 6, 7}}, "5 6 7"},
		{"exactly full", [][]float64{{1, 2, 3}}, "1 2 3"},
		{"late action evicts the oldest", [][]float64{{1, 2, 4}, {3}}, "2 3 4"},
		{"late action older than everything in a full memory is dropped", [][]float64{{2, 3, 4}, {1}}, "2 3 4"},
		{"late action older than everything in a memory with room is kept", [][]float64{{2, 3}, {1}}, "1 2 3"},
		{"late batch that overlaps", [][]float64{{4, 5, 6}, {1, 2, 5.5, 7}}, "5.5 6 7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
			for _, seconds := range c.adds {
				f.add(NewBatch(product, "s", "ada", f.clicks(seconds...)...))
			}
			require.Equal(t, c.want, labels(t, f.recent(product, "ada", maxEvents)))
		})
	}
	t.Run("one user's actions evict no other user's", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		f.add(NewBatch(product, "s1", "ada", f.click(1)),
			NewBatch(product, "s2", "bob", f.clicks(2, 3, 4, 5, 6)...))
		require.Equal(t, "1", labels(t, f.recent(product, "ada", maxEvents)))
	})
}

func (f fixture) clicks(seconds ...float64) []activity.Action {
	actions := make([]activity.Action, len(seconds))
	for i, second := range seconds {
		actions[i] = f.click(second)
	}
	return actions
}

func testLimit(t *testing.T, open openFunc) {
	cases := []struct {
		name  string
		limit int
		want  string
	}{
		{"fewer than kept returns the newest", 2, "4 5"},
		{"one", 1, "5"},
		{"as many as kept", 5, "1 2 3 4 5"},
		{"more than kept", 6, "1 2 3 4 5"},
		{"far more than kept", 1 << 30, "1 2 3 4 5"},
		{"none", 0, ""},
		{"negative", -1, ""},
	}
	f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
	f.add(NewBatch(product, "s", "ada", f.clicks(1, 2, 3, 4, 5)...))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.NotPanics(t, func() {
				recent, err := f.store.Recent(t.Context(), product, "ada", c.limit)
				require.NoError(t, err)
				require.Equal(t, c.want, labels(t, recent))
			})
		})
	}
}

func testDuplicates(t *testing.T, open openFunc) {
	t.Run("duplicate of an ID changes nothing", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		first := f.click(1)
		again := f.click(3)
		again.ID = first.ID
		f.add(NewBatch(product, "s", "ada", first), NewBatch(product, "s", "ada", again))
		require.Equal(t, "1", labels(t, f.recent(product, "ada", maxEvents)))
		require.Equal(t, "1-1", f.spans(product, "ada"), "an action must not end at its own duplicate")
	})
	t.Run("duplicate within a batch", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		a := f.click(1)
		f.add(NewBatch(product, "s", "ada", a, a, f.click(2), a))
		require.Equal(t, "1-2 2-2", f.spans(product, "ada"))
	})
	t.Run("batch retried after an error", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		b := NewBatch(product, "s", "ada", f.clicks(1, 2, 3, 4)...)
		f.add(b, b, NewBatch(product, "s", "ada", f.click(5)), b)
		require.Equal(t, "3-4 4-5 5-5", f.spans(product, "ada"))
	})
	t.Run("batch retried in part", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		all := f.clicks(1, 2, 3, 4)
		f.add(NewBatch(product, "s", "ada", all[:3]...), NewBatch(product, "s", "ada", all[1:]...))
		require.Equal(t, "1-2 2-3 3-4 4-4", f.spans(product, "ada"))
	})
	t.Run("duplicate action without a user id", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		b := NewBatch(product, "s", "", f.click(2))
		f.add(NewBatch(product, "s", "ada", f.click(1)), b, b)
		require.Equal(t, "1-1", f.spans(product, "ada"))
		require.Len(t, f.session("s"), 2)
	})
	t.Run("many duplicates of an action without a user id", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		f.add(NewBatch(product, "s", "ada", f.click(1)))
		b := NewBatch(product, "s", "", f.click(3))
		for range 40 {
			f.add(b)
		}
		f.add(NewBatch(product, "s", "bob", f.click(2)))
		require.Equal(t, "1-1", f.spans(product, "ada"), "duplicates must not take the place of late actions")
		require.Equal(t, "2-2", f.spans(product, "bob"))
	})
	testDuplicateIDs(t, open)
}

// testDuplicateIDs checks that different IDs of any form are distinguished.
func testDuplicateIDs(t *testing.T, open openFunc) {
	t.Run("IDs that are not UUIDs", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		for i, id := range []string{"1", "2", "1", strings.Repeat("x", 1000), strings.Repeat("x", 1001), "2"} {
			f.addAs(id, did{"ada", "s", float64(i)})
		}
		require.Equal(t, "0 1 3 4", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("UUIDs alike", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		const nothing = "00000000-0000-0000-0000-000000000000"
		ids := []string{nothing}
		for i := range nothing {
			if nothing[i] != '-' {
				ids = append(ids, nothing[:i]+"1"+nothing[i+1:])
			}
		}
		want := make([]string, len(ids))
		for i, id := range ids {
			f.addAs(id, did{"ada", "s", float64(i)})
			want[i] = fmt.Sprint(i)
		}
		require.Equal(t, strings.Join(want, " "), labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("UUIDs of a clock and a machine", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		for second := range 10 {
			f.addAs(fmt.Sprintf("6ba7b81%d-9dad-11d1-80b4-00c04fd430c8", second), did{"ada", "s", float64(second)}) // version 1
		}
		require.Equal(t, "0 1 2 3 4 5 6 7 8 9", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("another product may use the ID", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		a := f.click(1)
		f.add(NewBatch(product, "s", "ada", a), NewBatch("other", "s", "ada", a))
		require.Equal(t, "1", labels(t, f.recent(product, "ada", maxEvents)))
		require.Equal(t, "1", labels(t, f.recent("other", "ada", maxEvents)))
	})
}

func testIsolation(t *testing.T, open openFunc) {
	t.Run("unknown user has nothing", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		require.Empty(t, f.recent(product, "nobody", maxEvents))
		f.add(NewBatch(product, "s", "ada", f.click(1)))
		require.Empty(t, f.recent(product, "nobody", maxEvents))
		require.Empty(t, f.recent("other", "ada", maxEvents))
	})
	t.Run("action without a user id belongs to no user", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", f.click(1)), NewBatch(product, "s", "", f.click(2)))
		require.Equal(t, "1", labels(t, f.recent(product, "ada", maxEvents)))
		require.Empty(t, f.recent(product, "", maxEvents))
	})
	t.Run("action belongs to its own user, not the batch's", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		b := NewBatch(product, "s", "ada", f.clicks(1, 2, 3)...)
		b.Actions[0].UserID, b.Actions[1].UserID = "anonymous", ""
		f.add(b)
		require.Equal(t, "1-1", f.spans(product, "anonymous"))
		require.Equal(t, "3-3", f.spans(product, "ada"))
	})
	t.Run("users and products of similar names", func(t *testing.T) { testNames(t, open) })
}

// testNames files one action for each pair of product and user, with names
// that an engine could confuse when it builds keys from them.
func testNames(t *testing.T, open openFunc) {
	products := []string{"acme", "ACME", "acme:a", "acme/a", "{acme}", "*", "é", "e\u0301"}
	users := []string{"ada", "Ada", "ada ", " ada", "a:ada", "/ada", "a/ada", "../ada", "ada\x00", "*", "a*", "?",
		"{acme}",
		"ada@example.com", "%61da", "日本", "\n", "\"", `\`, "'; --", "null", strings.Repeat("u", 4096)}
	f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
	for i, p := range products {
		for j, u := range users {
			f.add(NewBatch(p, "s", u, Click(f.at(1), fmt.Sprintf("%d/%d", i, j), page)))
		}
	}
	for i, p := range products {
		for j, u := range users {
			require.Equal(t, fmt.Sprintf("%d/%d", i, j), labels(t, f.recent(p, u, maxEvents)), "product %q user %.40q", p, u)
		}
	}
}

func testRetention(t *testing.T, open openFunc) {
	t.Run("expired on arrival", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", Click(time.Now().Add(-ttl-time.Minute), "old", page)))
		require.Empty(t, f.recent(product, "ada", maxEvents))
	})
	t.Run("kept until it expires", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada",
			Click(time.Now().Add(-ttl-time.Minute), "old", page),
			Click(time.Now().Add(-ttl+time.Minute), "kept", page),
			Click(time.Now(), "new", page)))
		require.Equal(t, "kept new", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("counts from the action, not from its arrival", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: time.Minute, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", Click(time.Now().Add(-2*time.Minute), "late", page)))
		require.Empty(t, f.recent(product, "ada", maxEvents))
	})
	t.Run("expired action evicts nothing", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 2})
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2)...),
			NewBatch(product, "s", "ada", Click(time.Now().Add(-2*ttl), "old", page)))
		require.Equal(t, "1-2 2-2", f.spans(product, "ada"))
	})
	t.Run("expires while it is kept", func(t *testing.T) {
		const short = 50 * time.Millisecond
		f := newFixture(t, open, Options{TTL: short, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", Click(time.Now(), "brief", page)))
		gone := func() bool {
			recent, err := f.store.Recent(context.WithoutCancel(t.Context()), product, "ada", maxEvents)
			return err == nil && len(recent) == 0
		}
		waittest.Until(t, "the action has expired", gone)
	})
}

func testOwnership(t *testing.T, open openFunc) {
	t.Run("caller owns the batch again after Add", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		b := NewBatch(product, "s", "ada", f.clicks(1, 2)...)
		f.add(b)
		for i := range b.Actions {
			b.Actions[i] = activity.BatchAction{Action: f.click(9), SessionID: "other", UserID: "bob"}
		}
		require.Equal(t, "1 2", labels(t, f.recent(product, "ada", maxEvents)))
		require.Equal(t, "1-2 2-2", f.spans(product, "ada"))
		require.Empty(t, f.recent(product, "bob", maxEvents))
	})
	t.Run("caller owns the result", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2)...))
		mine := f.recent(product, "ada", maxEvents)
		mine[0], mine[1] = mine[1], activity.Record{}
		require.Equal(t, "1 2", labels(t, f.recent(product, "ada", maxEvents)))
	})
	t.Run("result does not change later", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 2})
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2)...))
		before := f.recent(product, "ada", maxEvents)
		f.add(NewBatch(product, "s", "ada", f.clicks(3, 4, 5)...))
		require.Equal(t, "1-2 2-2", spans(before, f.base))
		require.Equal(t, "1 2", labels(t, before))
	})
	t.Run("empty batch", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada"))
		require.Empty(t, f.recent(product, "ada", maxEvents))
	})
}
