package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// openBolt opens a log that lasts, and runs it.
func openBolt(t testing.TB, dir string, maxEvents int) *boltlog.Log {
	t.Helper()
	log, err := boltlog.Open(dir, &boltlog.Options{TailBytes: 64 << 10, MaxEvents: maxEvents})
	require.NoError(t, err)
	stop := waittest.Run(t, func(ctx context.Context) error { return log.Run(ctx, nil) })
	t.Cleanup(func() {
		require.NoError(t, stop())
		require.NoError(t, log.Release())
	})
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

// traffic makes up requests: sessions that change hands, events that come
// late, more than once or without a session, and users of many sessions.
type traffic struct {
	random *rand.Rand
	clock  time.Time
	past   []activity.Event
	users  []string
}

func newTraffic(seed uint64) *traffic {
	tr := &traffic{random: rand.New(rand.NewPCG(seed, 0)), clock: noon}
	for n := range 12 {
		tr.users = append(tr.users, fmt.Sprint("user ", n))
	}
	return tr
}

func (tr *traffic) request() []activity.Event {
	events := make([]activity.Event, 1+tr.random.IntN(12))
	for i := range events {
		if len(tr.past) > 0 && tr.random.IntN(10) == 0 {
			events[i] = tr.past[tr.random.IntN(len(tr.past))]
			continue
		}
		events[i] = tr.event()
		tr.past = append(tr.past, events[i])
	}
	return events
}

// event returns a new event, of which some are of the same time.
func (tr *traffic) event() activity.Event {
	tr.clock = tr.clock.Add(time.Duration(tr.random.IntN(3)) * time.Second)
	at := tr.clock
	if tr.random.IntN(4) == 0 {
		at = at.Add(-time.Duration(tr.random.IntN(600)) * time.Second)
	}
	n := tr.random.IntN(20)
	e := does(fmt.Sprint("session ", n), tr.users[(n+tr.random.IntN(2)*tr.random.IntN(5))%len(tr.users)],
		fmt.Sprint("event ", len(tr.past)), 0)
	e.Time = at
	switch tr.random.IntN(12) {
	case 0:
		e.SessionID = ""
	case 1:
		e.UserID = ""
	case 2:
		e.Action, e.Email = nil, "somebody@example.com"
	}
	if tr.random.IntN(2) == 0 {
		e.ID = uuid.NewSHA1(uuid.Nil, []byte(e.ID)).String()
	}
	return e
}

// Lookups answer the same after a restart as before it, also for users with more actions than are
// kept. Recording goes on as if it had never stopped.
func TestRestart_bringsBackEveryLookup(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dir, maxEvents := t.TempDir(), 10<<(seed%3)
			tr := newTraffic(seed)
			var want map[string]recent.Records
			t.Run("before", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				recorder := musttest.New(eventlog.NewRecorder(log, nil))
				for range 100 {
					_, err := recorder.Record(t.Context(), product, tr.request())
					require.NoError(t, err)
				}
				want = lookups(t, log.Activity(), tr.users)
			})
			t.Run("after", func(t *testing.T) {
				log := openBolt(t, dir, maxEvents)
				require.Equal(t, want, lookups(t, log.Activity(), tr.users))
				_, err := musttest.New(eventlog.NewRecorder(log, nil)).Record(t.Context(), product,
					tr.past[max(0, len(tr.past)-50):])
				require.NoError(t, err)
				require.Equal(t, want, lookups(t, log.Activity(), tr.users), "events that are sent again change nothing")
			})
		})
	}
}
