package activitytest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// endCases are sequences of actions and where each action must end.
var endCases = []struct {
	name string
	did  []did             // in the order of arrival, one batch each
	want map[string]string // spans by user
}{
	{"last action ends where it starts",
		[]did{{"ada", "s", 1}},
		map[string]string{"ada": "1-1"}},
	{"action ends at the session's next",
		[]did{{"ada", "s", 1}, {"ada", "s", 2}, {"ada", "s", 4}},
		map[string]string{"ada": "1-2 2-4 4-4"}},
	{"next action comes late",
		[]did{{"ada", "s", 1}, {"ada", "s", 4}, {"ada", "s", 2}},
		map[string]string{"ada": "1-2 2-4 4-4"}},
	{"everything comes in reverse",
		[]did{{"ada", "s", 4}, {"ada", "s", 2}, {"ada", "s", 1}},
		map[string]string{"ada": "1-2 2-4 4-4"}},
	{"visitor identifies",
		[]did{{"anon", "s", 1}, {"anon", "s", 2}, {"ada", "s", 3}, {"ada", "s", 4}},
		map[string]string{"anon": "1-2 2-2", "ada": "3-4 4-4"}},
	{"visitor identifies and the first action under the new id comes late",
		[]did{{"anon", "s", 1}, {"ada", "s", 3}, {"ada", "s", 2}},
		map[string]string{"anon": "1-1", "ada": "2-3 3-3"}},
	{"visitor identifies and the last action under the old id comes late",
		[]did{{"anon", "s", 1}, {"ada", "s", 3}, {"anon", "s", 2}},
		map[string]string{"anon": "1-2 2-2", "ada": "3-3"}},
	{"everything before the identify comes late",
		[]did{{"ada", "s", 2}, {"anon", "s", 1}},
		map[string]string{"anon": "1-1", "ada": "2-2"}},
	{"user signs in, out and in again",
		[]did{{"anon", "s", 1}, {"ada", "s", 2}, {"anon", "s", 3}, {"ada", "s", 4}},
		map[string]string{"anon": "1-1 3-3", "ada": "2-2 4-4"}},
	{"next action has no user id",
		[]did{{"ada", "s", 1}, {"", "s", 2}},
		map[string]string{"ada": "1-1", "": ""}},
	{"next action has no user id, then the user goes on",
		[]did{{"ada", "s", 1}, {"", "s", 2}, {"ada", "s", 3}},
		map[string]string{"ada": "1-1 3-3"}},
	{"next action has no user id and comes late",
		[]did{{"ada", "s", 1}, {"ada", "s", 3}, {"", "s", 2}},
		map[string]string{"ada": "1-1 3-3"}},
	{"earlier action has no user id",
		[]did{{"", "s", 1}, {"ada", "s", 2}},
		map[string]string{"ada": "2-2"}},
	{"two sessions of a user at once",
		[]did{{"ada", "s1", 1}, {"ada", "s2", 2}, {"ada", "s1", 3}, {"ada", "s2", 4}},
		map[string]string{"ada": "1-3 2-4 3-3 4-4"}},
	{"two sessions of a user at once, out of order",
		[]did{{"ada", "s2", 4}, {"ada", "s1", 3}, {"ada", "s1", 1}, {"ada", "s2", 2}},
		map[string]string{"ada": "1-3 2-4 3-3 4-4"}},
	{"two sessions at once, one changes hands",
		[]did{{"ada", "s1", 1}, {"ada", "s2", 2}, {"bob", "s1", 3}, {"ada", "s2", 4}},
		map[string]string{"ada": "1-1 2-4 4-4", "bob": "3-3"}},
	{"another user's session is another session",
		[]did{{"ada", "s1", 1}, {"bob", "s2", 2}},
		map[string]string{"ada": "1-1", "bob": "2-2"}},
	{"outside any session ends at the user's next outside any",
		[]did{{"ada", "", 1}, {"ada", "", 2}},
		map[string]string{"ada": "1-2 2-2"}},
	{"outside any session is not in a session",
		[]did{{"ada", "", 1}, {"ada", "s", 2}, {"ada", "", 3}, {"ada", "s", 4}},
		map[string]string{"ada": "1-3 2-4 3-3 4-4"}},
	{"outside any session is the user's alone",
		[]did{{"ada", "", 1}, {"bob", "", 2}, {"", "", 3}},
		map[string]string{"ada": "1-1", "bob": "2-2"}},
	{"session named like a user",
		[]did{{"ada", "", 1}, {"bob", "ada", 2}, {"bob", "u:ada", 3}, {"bob", "s:", 4}},
		map[string]string{"ada": "1-1"}},
	{"two simultaneous actions",
		[]did{{"ada", "s", 1}, {"ada", "s", 1}, {"ada", "s", 2}},
		map[string]string{"ada": "1-1 1-2 2-2"}},
}

// testEnd checks that an action ends where its session's next one starts, if that is
// the same user's.
func testEnd(t *testing.T, open openFunc) {
	for _, c := range endCases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
			f.addEach(c.did)
			for user, want := range c.want {
				require.Equal(t, want, f.spans(product, user), "user %q", user)
			}
		})
	}
	t.Run("another product's session is another session", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", f.click(1)), NewBatch("other", "s", "ada", f.click(2)))
		require.Equal(t, "1-1", f.spans(product, "ada"))
	})
	t.Run("whatever end the batch states", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		b := NewBatch(product, "s", "ada", f.clicks(1, 3)...)
		b.Actions[1].TimestampEnd += 1000
		f.add(b, NewBatch(product, "s", "ada", f.click(2)))
		require.Equal(t, "1-2 2-3 3-3", f.spans(product, "ada"))
	})
	testEndAtLimits(t, open)
}

// testEndAtLimits checks ends where the next action has been trimmed or is not
// returned.
func testEndAtLimits(t *testing.T, open openFunc) {
	t.Run("limit hides the next action but not the end", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2, 3)...))
		require.Equal(t, "2-3 3-3", spans(f.recent(product, "ada", 2), f.base))
	})
	t.Run("session trimmed many times over", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		for second := range 40 {
			f.add(NewBatch(product, "s", "ada", f.click(float64(second))))
		}
		require.Equal(t, "37-38 38-39 39-39", f.spans(product, "ada"))
	})
	t.Run("long after the session changed hands", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		f.add(NewBatch(product, "s", "anon", f.click(1)))
		for second := range 120 {
			f.add(NewBatch(product, "s", "ada", f.click(float64(second+2))))
		}
		require.Equal(t, "1-1", f.spans(product, "anon"), "what another user does later takes no room from it")
	})
	t.Run("long after an action without a user id", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: 3})
		f.add(NewBatch(product, "s", "ada", f.click(1)))
		for second := range 120 {
			f.add(NewBatch(product, "s", "", f.click(float64(second+2))))
		}
		require.Equal(t, "1-1", f.spans(product, "ada"))
	})
}
