package activitytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// follower reads the actions of a subject that arrived since it read last.
type follower struct {
	fixture
	of   recent.Subject
	upto recent.Position
}

func (f *follower) news() (found recent.Records) {
	f.Helper()
	s := f.read(product, f.of, maxEvents)
	for _, r := range s.Records {
		since := r.Since
		if f.of.UserID == "" {
			since = r.Arrived
		}
		assert.LessOrEqual(f, since.Compare(s.Upto), 0, "it has arrived")
		if since.Compare(f.upto) > 0 {
			found = append(found, r)
		}
	}
	f.upto = s.Upto
	return found
}

// arrival is a step of a test, and the news after it, as labels, of the users ada and bob and of
// the session s.
type arrival struct {
	happens           any // a did or a said
	ada, bob, session string
}

// requireNews requires the news of each step, once.
func (f fixture) requireNews(steps ...arrival) {
	f.Helper()
	ada := &follower{fixture: f, of: recent.Subject{UserID: "ada"}}
	bob := &follower{fixture: f, of: recent.Subject{UserID: "bob"}}
	session := &follower{fixture: f, of: recent.Subject{SessionID: "s"}}
	for _, step := range steps {
		f.happen(step.happens)
		require.Equal(f, step, arrival{step.happens, labels(f, ada.news()), labels(f, bob.news()), labels(f, session.news())})
		require.Empty(f, slices.Concat(ada.news(), bob.news(), session.news()), "after %v", step.happens)
	}
}

var arrivalTests = []test{
	{name: "late", run: func(f fixture) {
		f.requireNews(
			arrival{did{"ada", "s", 10}, "10", "", "10"},
			arrival{did{"ada", "s", 5}, "5", "", "5"},
			arrival{did{"ada", "s2", 1}, "1", "", ""},
			arrival{did{"bob", "s", 7}, "", "7", "7"},
			arrival{did{"ada", "", 8}, "8", "", ""},
		)
		require.Empty(f, (&follower{fixture: f, of: recent.Subject{UserID: "nobody"}}).news())
		require.Empty(f, (&follower{fixture: f}).news())
	}},
	{name: "named afterwards is news of the user, and none of the session", run: func(f fixture) {
		f.requireNews(
			arrival{did{"anon", "s", 1}, "", "", "1"},
			arrival{did{"ada", "s", 2}, "2", "", "2"},
			arrival{said{"anon", "ada", "s", 3, 0}, "1", "", ""},
			arrival{said{"anon", "ada", "s", 3, 0}, "", "", ""},
		)
	}},
	{name: "named again and again", max: 10, run: func(f fixture) {
		ada := &follower{fixture: f, of: recent.Subject{UserID: "ada"}}
		bob := &follower{fixture: f, of: recent.Subject{UserID: "bob"}}
		f.happen(did{"anon", "s", 1}, said{"anon", "ada", "s", 2, 0}, did{"anon", "s", 3}, said{"anon", "bob", "s", 3.5, 0})
		require.Equal(f, "1", labels(f, ada.news()))
		require.Equal(f, "3", labels(f, bob.news()))
		f.signInOften("bob")
		require.Empty(f, ada.news())
		require.Empty(f, bob.news(), "it is the user's since the first time")
		require.Equal(f, "1-1", f.spans(product, "ada"))
		require.Equal(f, "3-3", f.spans(product, "bob"))
	}},
	{name: "named at a higher standing", run: func(f fixture) {
		f.requireNews(
			arrival{did{"anon", "s", 1}, "", "", "1"},
			arrival{said{"anon", "ada", "s", 3, activity.Claimed}, "1", "", ""},
			arrival{said{"anon", "ada", "s", 4, activity.Reported}, "", "", ""},
			arrival{said{"anon", "ada", "s", 2, activity.Reported}, "", "", ""},
			arrival{signed("anon", "bob", 6), "", "1", ""},
			arrival{signed("anon", "bob", 7), "", "", ""},
			arrival{signed("anon", "ada", 5), "1", "", ""},
			arrival{did{"anon", "s", 1.5}, "1.5", "", "1.5"},
		)
	}},
	{name: "while others write", run: testArrivalWhileWriting},
}

// testArrivalWhileWriting shows that a follower sees every action exactly once, even during writes.
func testArrivalWhileWriting(f fixture) {
	const each = maxEvents / writers
	ada := &follower{fixture: f, of: recent.Subject{UserID: "ada"}}
	written := make(chan struct{})
	go func() {
		defer close(written)
		waittest.Together(writers, func(w int) {
			for i := range each {
				second := float64((each-i)*writers + w) // backwards
				assert.NoError(f, f.store.Add(f.Context(), NewBatch(product, fmt.Sprint("s", w%2), "ada", f.click(second))))
			}
		})
	}()
	seen := map[string]int{}
	for done := false; !done; {
		done = waittest.Fired(written)
		for _, label := range strings.Fields(labels(f, ada.news())) {
			seen[label]++
		}
	}
	require.Len(f, seen, each*writers, "nothing is missed")
	for label, times := range seen {
		require.Equal(f, 1, times, "%s is seen once", label)
	}
}
