package activitytest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

// model is the simplest possible store: it keeps everything.
type model struct {
	maxEvents int
	filed     []did // all actions that were not duplicates, in order
	said      []said
}

// add files an action, unless it is a duplicate.
func (m *model) add(d did) {
	if !slices.Contains(m.filed, d) {
		m.filed = append(m.filed, d)
		slices.SortFunc(m.filed, func(a, b did) int { return cmp.Compare(a.at, b.at) })
	}
}

// owner returns the user that an action belongs to.
func (m *model) owner(d did) string {
	owner, first := d.user, said{}
	for _, s := range m.said {
		counts := first == said{} || s.standing > first.standing || s.standing == first.standing && s.at < first.at
		if s.session == d.session && s.anonymous == d.user && s.at >= d.at && counts {
			owner, first = s.user, s
		}
	}
	return owner
}

// spans formats the user's actions as [fixture.spans] does.
func (m *model) spans(user string) string {
	var words []string
	for i, d := range m.filed {
		if user == "" || m.owner(d) != user {
			continue
		}
		end := d.at
		next := slices.IndexFunc(m.filed[i+1:], func(next did) bool {
			return next.session == d.session && (d.session != "" || next.user == user)
		})
		if next >= 0 && m.owner(m.filed[i+1+next]) == user {
			end = m.filed[i+1+next].at
		}
		words = append(words, fmt.Sprintf("%g-%g", d.at, end))
	}
	return strings.Join(words[max(0, len(words)-m.maxEvents):], " ")
}

// modelTests add batches of random actions, some of them again, and identities, and
// require that the store and the model agree after each.
func modelTests() (tests []test) {
	const kept = 12
	for seed := range uint64(10) {
		tests = append(tests, test{name: fmt.Sprint("seed ", seed), max: kept, run: func(f fixture) {
			testModel(f, rand.New(rand.NewPCG(seed, 0)), model{maxEvents: kept})
		}})
	}
	return tests
}

func testModel(f fixture, random *rand.Rand, m model) {
	const count = 40
	users, sessions := []string{"ada", "bob", "anon", ""}, []string{"s0", "s1", "s2", "s3", "s4", ""}
	var past [][]did
	for seconds := range slices.Chunk(random.Perm(count), 1+random.IntN(3)) {
		if random.IntN(8) == 0 {
			s := said{users[2+random.IntN(2)], users[random.IntN(2)], sessions[random.IntN(5)],
				float64(random.IntN(count)) + 0.5, activity.Standing(random.IntN(3))}
			f.identify(s)
			m.said = append(m.said, s)
		}
		user, session := users[random.IntN(len(users))], sessions[random.IntN(len(sessions))]
		var came []did
		for _, second := range slices.Sorted(slices.Values(seconds)) {
			came = append(came, did{user, session, float64(second)})
		}
		if len(past) > 0 && random.IntN(4) == 0 {
			came = past[random.IntN(len(past))]
		}
		past = append(past, came)
		var actions []activity.Action
		for _, d := range came {
			a := f.click(d.at)
			a.ID = fmt.Sprint("event ", d.at)
			actions = append(actions, a)
			m.add(d)
		}
		f.add(NewBatch(product, came[0].session, came[0].user, actions...))
		for _, user := range users {
			require.Equal(f, m.spans(user), f.spans(product, user), "user %q after %v and %v", user, past, m.said)
		}
	}
}
