package eventlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// openBolt opens a log that lasts.
func openBolt(t testing.TB, dir string, maxEvents int) *boltlog.Log {
	t.Helper()
	log, err := boltlog.Open(dir, &boltlog.Options{TailBytes: 64 << 10, MaxEvents: maxEvents})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Release()) })
	return log
}

// lookups returns the store's answers about users.
func lookups(t testing.TB, store recent.Store, users []string) map[string]recent.Records {
	t.Helper()
	all := map[string]recent.Records{}
	for _, user := range users {
		found, err := store.Recent(t.Context(), product, recent.Subject{UserID: user}, 1000)
		require.NoError(t, err)
		all[user] = found.Records
	}
	return all
}

// visited is the n-th event of a product whose sessions change hands. Some events come late, some
// have no session or no user, and some only say who somebody is.
func visited(n int) activity.Event {
	random := rand.New(rand.NewPCG(uint64(n), 0))
	session := random.IntN(20)
	e := does(fmt.Sprint("session ", session), fmt.Sprint("user ", (session+random.IntN(2)*random.IntN(5))%12),
		fmt.Sprint("event ", n), float64(n/2-random.IntN(2)*random.IntN(600)))
	switch random.IntN(12) {
	case 0:
		e.SessionID = ""
	case 1:
		e.UserID = ""
	case 2:
		e.Action, e.Email = nil, "somebody@example.com"
	}
	return e
}

// Lookups answer the same after a restart as before it, also for users with more actions than are
// kept. Recording goes on as if it had never stopped.
func TestRestart_bringsBackEveryLookup(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dir, maxEvents, random := t.TempDir(), 10<<(seed%3), rand.New(rand.NewPCG(seed, 0))
			var users []string
			for n := range 12 {
				users = append(users, fmt.Sprint("user ", n))
			}
			var want map[string]recent.Records
			var request []activity.Event
			t.Run("before", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				recorder := musttest.New(eventlog.NewRecorder(log, nil))
				for known := range 100 {
					request = nil
					for range 1 + random.IntN(12) { // some come again
						request = append(request, visited(random.IntN(10*known+10)))
					}
					_, err := recorder.Record(t.Context(), product, request)
					require.NoError(t, err)
				}
				want = lookups(t, log.Activity(), users)
			})
			t.Run("after", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				require.Equal(t, want, lookups(t, log.Activity(), users))
				_, err := musttest.New(eventlog.NewRecorder(log, nil)).Record(t.Context(), product, request)
				require.NoError(t, err)
				require.Equal(t, want, lookups(t, log.Activity(), users), "events that are sent again change nothing")
			})
		})
	}
}
