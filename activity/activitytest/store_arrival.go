package activitytest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

// follower reads the actions of a subject that arrived since it read last.
type follower struct {
	fixture
	of   activity.Subject
	upto activity.Position
}

func (f *follower) news() (recent activity.Recent) {
	f.Helper()
	s, err := f.store.Snapshot(f.Context(), product, f.of)
	require.NoError(f, err)
	for _, r := range s.Recent {
		since := r.Since
		if f.of.UserID == "" {
			since = r.Arrived
		}
		assert.LessOrEqual(f, since.Compare(s.Upto), 0, "it has arrived")
		if since.Compare(f.upto) > 0 {
			recent = append(recent, r)
		}
	}
	f.upto = s.Upto
	return recent
}

func testArrival(t *testing.T, open openFunc) {
	t.Run("late", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		ada := &follower{fixture: f, of: activity.Subject{UserID: "ada"}}
		session := &follower{fixture: f, of: activity.Subject{SessionID: "s"}}
		for _, step := range []struct {
			add          did
			ada, session string
		}{
			{did{"ada", "s", 10}, "10", "10"},
			{did{"ada", "s", 5}, "5", "5"},
			{did{"ada", "s2", 1}, "1", ""},
			{did{"bob", "s", 7}, "", "7"},
			{did{"ada", "", 8}, "8", ""},
		} {
			f.addEach([]did{step.add})
			require.Equal(t, step.ada, labels(t, ada.news()))
			require.Equal(t, step.session, labels(t, session.news()))
			require.Empty(t, ada.news())
		}
		require.Empty(t, (&follower{fixture: f, of: activity.Subject{UserID: "nobody"}}).news())
		require.Empty(t, (&follower{fixture: f}).news())
	})
	t.Run("named afterwards", func(t *testing.T) {
		f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
		ada := &follower{fixture: f, of: activity.Subject{UserID: "ada"}}
		session := &follower{fixture: f, of: activity.Subject{SessionID: "s"}}
		f.addEach([]did{{"anon", "s", 1}, {"ada", "s", 2}})
		require.Equal(t, "2", labels(t, ada.news()))
		require.Equal(t, "1 2", labels(t, session.news()))
		f.identify(said{"anon", "ada", "s", 3, 0})
		require.Equal(t, "1", labels(t, ada.news()), "it is news of the user, and none of the session")
		require.Empty(t, session.news())
		f.identify(said{"anon", "ada", "s", 3, 0})
		require.Empty(t, ada.news(), "an identity that is repeated")
	})
	t.Run("while others write", func(t *testing.T) { testArrivalWhileWriting(t, open) })
}

// testArrivalWhileWriting shows that a follower sees every action exactly once, whatever
// is written meanwhile.
func testArrivalWhileWriting(t *testing.T, open openFunc) {
	const each = maxEvents / writers
	f := newFixture(t, open, Options{TTL: ttl, MaxEvents: maxEvents})
	ada := &follower{fixture: f, of: activity.Subject{UserID: "ada"}}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				second := float64((each-i)*writers + w) // backwards
				assert.NoError(f, f.store.Add(f.Context(), NewBatch(product, fmt.Sprint("s", w%2), "ada", f.click(second))))
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	seen := map[string]int{}
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		for _, label := range strings.Fields(labels(t, ada.news())) {
			seen[label]++
		}
	}
	require.Len(t, seen, each*writers, "nothing is missed")
	for label, times := range seen {
		require.Equal(t, 1, times, "%s is seen once", label)
	}
}
