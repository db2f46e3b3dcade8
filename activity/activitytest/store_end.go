package activitytest

import "github.com/stretchr/testify/require"

// scenario is a sequence of actions and identities, and the activity of users after it.
type scenario struct {
	name string
	came []any             // did or said, in the order of arrival
	want map[string]string // spans by user
}

// asTests returns a test of each scenario, and others.
func asTests(scenarios []scenario, others ...test) []test {
	for _, s := range scenarios {
		others = append(others, test{name: s.name, run: func(f fixture) {
			f.happen(s.came...)
			for user, want := range s.want {
				require.Equal(f, want, f.spans(product, user), "user %q", user)
			}
		}})
	}
	return others
}

// endScenarios show that an action ends where its session's next one starts, if that is the same
// user's. The model shows that it does so in any order of arrival.
var endScenarios = []scenario{
	{"user signs in, out and in again",
		[]any{did{"anon", "s", 1}, did{"ada", "s", 2}, did{"anon", "s", 3}, did{"ada", "s", 4}},
		map[string]string{"anon": "1-1 3-3", "ada": "2-2 4-4"}},
	{"outside any session is not in a session",
		[]any{did{"ada", "", 1}, did{"ada", "s", 2}, did{"ada", "", 3}, did{"ada", "s", 4}},
		map[string]string{"ada": "1-3 2-4 3-3 4-4"}},
	{"outside any session is the user's alone",
		[]any{did{"ada", "", 1}, did{"bob", "", 2}, did{"", "", 3}},
		map[string]string{"ada": "1-1", "bob": "2-2"}},
	{"session named like a user",
		[]any{did{"ada", "", 1}, did{"bob", "ada", 2}, did{"bob", "u:ada", 3}, did{"bob", "s:", 4}},
		map[string]string{"ada": "1-1"}},
	{"the first of two simultaneous actions ends at the second, which ends at the next",
		[]any{did{"ada", "s", 1}, did{"ada", "s", 1}, did{"ada", "s", 2}},
		map[string]string{"ada": "1-1 1-2 2-2"}},
}

var endTests = asTests(endScenarios,
	test{name: "the end that the batch states does not count", run: func(f fixture) {
		b := NewBatch(product, "s", "ada", f.clicks(1, 3)...)
		b.Actions[1].TimestampEnd += 1000
		f.add(b, NewBatch(product, "s", "ada", f.click(2)))
		require.Equal(f, "1-2 2-3 3-3", f.spans(product, "ada"))
	}},
	test{name: "limit hides the next action but not the end", run: func(f fixture) {
		f.add(NewBatch(product, "s", "ada", f.clicks(1, 2, 3)...))
		require.Equal(f, "2-3 3-3", spans(f.recent(product, "ada", 2), f.base))
	}},
	test{name: "long after the session changed hands", max: 3, run: func(f fixture) {
		for session, next := range map[string]string{"s1": "ada", "s2": ""} {
			f.add(NewBatch(product, session, "anon"+session, f.click(1)))
			for second := range 120 {
				f.add(NewBatch(product, session, next, f.click(float64(second+2))))
			}
			require.Equal(f, "1-1", f.spans(product, "anon"+session), "later actions of %q take no room from it", next)
		}
		require.Equal(f, "119-120 120-121 121-121", f.spans(product, "ada"), "however often it was trimmed")
	}},
)
