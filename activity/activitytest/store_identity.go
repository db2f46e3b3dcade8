package activitytest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// said is a statement that a session's anonymous visitor is a user.
type said struct {
	anonymous, user, session string
	at                       float64
	standing                 activity.Standing
}

func (f fixture) identify(s said) {
	f.Helper()
	require.NoError(f, f.store.Identify(f.Context(), feed.Identity{Type: feed.IdentityType, ProductID: product,
		SessionID: s.session, AnonymousID: s.anonymous, UserID: s.user, At: f.at(s.at).UnixMicro(), Standing: s.standing}))
}

func signed(anonymous, user string, at float64) said {
	return said{anonymous, user, "s", at, activity.Signed}
}

// identityScenarios show that a session's anonymous actions, and no others, become the actions of
// the user who signs in.
var identityScenarios = []scenario{
	{"the visitor's earlier actions are the user's",
		[]any{did{"anon", "s", 1}, did{"anon", "s", 2}, said{"anon", "ada", "s", 3, 0}, did{"ada", "s", 4}},
		map[string]string{"ada": "1-2 2-4 4-4", "anon": ""}},
	{"an action that comes late",
		[]any{said{"anon", "ada", "s", 3, 0}, did{"anon", "s", 2}, did{"anon", "s", 1}},
		map[string]string{"ada": "1-2 2-2", "anon": ""}},
	{"at the instant of the action",
		[]any{did{"anon", "s", 1}, said{"anon", "ada", "s", 1, 0}},
		map[string]string{"ada": "1-1", "anon": ""}},
	{"another session of the visitor is not the user's",
		[]any{did{"anon", "s1", 1}, did{"anon", "s2", 2}, said{"anon", "ada", "s1", 3, 0}},
		map[string]string{"ada": "1-1", "anon": "2-2"}},
	{"a lower standing takes nothing, however early it is dated",
		[]any{did{"anon", "s", 1}, signed("anon", "ada", 5), said{"anon", "eve", "s", 2, activity.Claimed},
			said{"anon", "eve", "s", 3, activity.Reported}},
		map[string]string{"ada": "1-1", "eve": "", "anon": ""}},
	{"actions without a user, and not those after the sign-in",
		[]any{did{"", "s", 1}, did{"anon", "s", 2}, signed("", "ada", 3), did{"", "s", 4}},
		map[string]string{"ada": "1-1", "anon": "2-2", "": ""}},
}

var identityTests = asTests(identityScenarios,
	test{name: "long after the sign-in", max: 10, run: func(f fixture) {
		f.happen(did{"anon", "s", 1}, did{"anon", "s", 2}, said{"anon", "ada", "s", 3, 0})
		for second := range 150 {
			f.happen(did{"bob", "s", float64(second + 4)})
		}
		require.Equal(f, "1-2 2-2", f.spans(product, "ada"))
	}},
	test{name: "before many claims of a lower standing", max: 10, run: func(f fixture) {
		f.happen(did{"anon", "s", 1}, signed("anon", "ada", 2))
		for i := range 40 {
			f.happen(said{fmt.Sprint("visitor", i), "eve", "s", float64(i + 3), activity.Claimed}, did{"others", "s", 3})
		}
		require.Equal(f, "1-1", f.spans(product, "ada"))
	}},
	test{name: "many people take turns", max: 30, run: testTurns},
)

// signInOften files many sign-ins of one user in the session s, from the fourth second on, and
// others' actions between them.
func (f fixture) signInOften(user string) {
	f.Helper()
	for second := 4.0; second < 40; second++ {
		f.happen(said{"anon", user, "s", second, 0}, did{"others", "s", second + 0.5})
	}
}

// testTurns makes a visitor another user with each sign-in. It checks that an action becomes the
// next user's or stays the visitor's, and that the newest user is known.
func testTurns(f fixture) {
	random := rand.New(rand.NewPCG(1, 0))
	users, visitors := []string{"ada", "bob", "eve"}, []string{"anon", ""}
	m := model{}
	for i := range 150 {
		second := float64(i)
		d := did{visitors[random.IntN(2)], "s", second}
		s := said{visitors[random.IntN(2)], users[random.IntN(3)], "s", second + 0.5, activity.Standing(random.IntN(3))}
		f.happen(d, s)
		m.add(d)
		m.said = append(m.said, s)
	}
	m.said = append(m.said, signed("anon", "zoe", 151))
	f.happen(did{"anon", "s", 150}, signed("anon", "zoe", 151))
	require.Contains(f, f.spans(product, "zoe"), "150-150")
	for _, r := range f.session("s") {
		d := did{r.As, "s", secondsAfter(f.base, r.Start)}
		require.Contains(f, []string{m.owner(d), r.As}, r.User, "%v", d)
	}
}

// testMarks checks that a click which arrives again with marks is there once, with them,
// between its neighbours.
func testMarks(f fixture) {
	f.happen(did{"bob", "s", 1}, did{"ada", "s", 1}, did{"ada", "s", 2}, did{"ada", "other", 1})
	again := f.click(1)
	again.Marks, again.Description = []string{activity.MarkDead}, again.Description+", and nothing happened"
	f.add(NewBatch(product, "s", "ada", again))
	for _, found := range []recent.Records{f.session("s"), f.recent(product, "ada", maxEvents)} {
		actions, err := found.Actions()
		require.NoError(f, err)
		require.Len(f, actions, 3)
		marked := 0
		for i, a := range actions {
			if len(a.Marks) == 0 {
				continue
			}
			marked++
			require.Equal(f, []string{activity.MarkDead}, a.Marks)
			require.Equal(f, again.Description, a.Description)
			require.Equal(f, "ada", found[i].User)
			require.Equal(f, "s", found[i].Session)
		}
		require.Equal(f, 1, marked)
	}
	require.Equal(f, "1-1 1-2 2-2", spans(f.session("s"), f.base))
	require.Len(f, f.recent(product, "bob", maxEvents), 1)
}

var sessionTests = []test{
	{name: "actions in order, with their users and ends", run: func(f fixture) {
		f.fillSession()
		require.Equal(f, "1-1 2-3 3-3 4-4", spans(f.session("s"), f.base))
		users := ""
		for _, r := range f.session("s") {
			require.Equal(f, "s", r.Session)
			users += fmt.Sprintf("%q ", r.User)
		}
		require.Equal(f, `"" "ada" "ada" "bob" `, users)
	}},
	{name: "unknown", run: func(f fixture) {
		f.fillSession()
		for _, session := range []string{"unknown", "", "ada"} {
			require.Empty(f, f.session(session))
		}
		others := f.read("other", recent.Subject{SessionID: "s"}, 1000)
		require.Empty(f, others.Records, "another product's session is another session")
	}},
}

// sessionsOfTests show that all sessions of a user are found, also behind more actions than are kept.
var sessionsOfTests = []test{
	{name: "all of a user, and the actions outside any", max: 3, run: func(f fixture) {
		f.happen(did{"anon", "first", 1}, said{"anon", "ada", "first", 2, 0}, did{"bob", "first", 3}, did{"ada", "", 4})
		for second := range 10 {
			f.happen(did{"ada", "last", float64(second + 5)})
		}
		f.requireSessions("ada", []string{"first", "last"}, "4-4")
		f.requireSessions("bob", []string{"first"}, "")
		f.requireSessions("anon", []string{"first"}, "")
		f.requireSessions("nobody", nil, "")
	}},
	{name: "a user who comes back as the visitor", run: func(f fixture) {
		f.happen(did{"anon", "s", 1}, said{"anon", "ada", "s", 2, 0}, did{"anon", "s", 3})
		f.requireSessions("anon", []string{"s"}, "")
		f.happen(did{"", "t", 1}, signed("", "ada", 2), said{"eve", "cyd", "t", 3, 0})
		f.requireSessions("eve", nil, "")
		f.requireSessions("cyd", []string{"t"}, "")
		f.requireSessions("", nil, "")
	}},
	{name: "the newest of a visitor who signs in often", max: 3, run: func(f fixture) {
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			f.happen(did{"anon", id, float64(i)}, said{"anon", "ada", id, float64(i) + 0.5, 0})
		}
		f.requireSessions("anon", []string{"c", "d", "e"}, "")
	}},
	{name: "sessions of megabytes", run: func(f fixture) {
		var ids []string
		for n := range 20 {
			ids = append(ids, fmt.Sprintf("s%02d", n))
			clicks := make([]activity.Action, maxEvents)
			for i := range clicks {
				clicks[i] = Click(f.at(float64(n)), "Save", longPage)
			}
			f.add(NewBatch(product, ids[n], "ada", clicks...))
		}
		f.requireSessions("ada", ids, "")
	}},
}

// requireSessions requires the user's sessions, in order, and the user's actions outside any.
func (f fixture) requireSessions(user string, want []string, outside string) {
	f.Helper()
	ids, found, err := f.store.Sessions(f.Context(), product, user)
	require.NoError(f, err)
	slices.Sort(ids)
	require.Equal(f, want, ids, user)
	require.Equal(f, outside, spans(found, f.base), user)
}

func (f fixture) fillSession() {
	f.Helper()
	f.happen(did{"anon", "s", 2}, did{"", "s", 1}, said{"anon", "ada", "s", 3, 0}, did{"ada", "s", 3},
		did{"bob", "s", 4}, did{"ada", "other", 5}, did{"ada", "", 6})
}
