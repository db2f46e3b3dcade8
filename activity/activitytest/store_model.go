package activitytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the simplest possible store: it keeps everything.
type model struct {
	maxEvents int
	users     map[string][]did // each user's actions, in order
	filed     []did            // all actions that were not duplicates
}

// add files an action, unless it is a duplicate or older than everything a
// full user has.
func (m *model) add(d did) {
	if d.user != "" {
		have := m.users[d.user]
		full := len(have) == m.maxEvents
		if slices.Contains(have, d) || full && d.at < have[0].at {
			return
		}
		have = append(have, d)
		slices.SortFunc(have, func(a, b did) int { return int(a.at - b.at) })
		m.users[d.user] = have[max(0, len(have)-m.maxEvents):]
	}
	m.filed = append(m.filed, d)
}

// spans formats the user's actions as [fixture.spans] does.
func (m *model) spans(user string) string {
	var words []string
	for _, d := range m.users[user] {
		end := d.at
		for _, next := range m.filed {
			if next.session == d.session && next.at > d.at && (end == d.at || next.at < end) {
				end = next.at
			}
		}
		words = append(words, fmt.Sprintf("%g-%g", d.at, end))
	}
	return strings.Join(words, " ")
}

// testModel adds random actions, some of them duplicates, and requires that
// the store and the model agree after each.
func testModel(t *testing.T, open openFunc) {
	const kept, count = 6, 40
	users := []string{"ada", "bob", ""}
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			f := newFixture(t, open, Options{TTL: ttl, MaxEvents: kept})
			m := model{maxEvents: kept, users: map[string][]did{}}
			var past []did
			for _, second := range random.Perm(count) {
				d := did{users[random.IntN(len(users))], fmt.Sprint("s", random.IntN(5)), float64(second)}
				if len(past) > 0 && random.IntN(4) == 0 {
					d = past[random.IntN(len(past))]
				}
				past = append(past, d)
				f.addAs(fmt.Sprint("event ", d.at), d)
				m.add(d)
				for _, user := range users {
					require.Equal(t, m.spans(user), f.spans(product, user), "user %q after %v", user, past)
				}
			}
		})
	}
}

// addAs adds an action with that ID.
func (f fixture) addAs(id string, d did) {
	f.Helper()
	a := f.click(d.at)
	a.ID = id
	f.add(NewBatch(product, d.session, d.user, a))
}
