package redislog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// Whatever batches come, in whatever order, users did the same as the engine
// in memory says.
func TestActivity_isThatOfMemory(t *testing.T) {
	url := redistest.Start(t).URL()
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			kept := 50 + random.IntN(20) // so that memory forgets no next action
			log := open(t, url, &redislog.Options{MaxEvents: kept, Prefix: t.Name()})
			memory := musttest.New(recent.NewMemory(&recent.MemoryOptions{MaxEvents: kept}))
			h := history{random: random, base: time.Now().Add(-time.Hour)}
			for range 60 {
				b := h.batch()
				require.NoError(t, memory.Add(t.Context(), b))
				require.NoError(t, log.Append(t.Context(), product, []eventlog.Entry{{Data: []byte("{}"), Batch: &b}}))
				for _, user := range h.users() {
					want, err := memory.Recent(t.Context(), product, user, 100)
					require.NoError(t, err)
					got, err := log.Activity().Recent(t.Context(), product, user, 100)
					require.NoError(t, err)
					require.Equal(t, inSeconds(want, h.base), inSeconds(got, h.base), "user %q", user)
				}
			}
		})
	}
}

// history makes batches as they may come: mostly in order, some late, some
// again, some at the same instant, some of several users.
type history struct {
	random *rand.Rand
	base   time.Time
	now    int // in seconds
	past   []activity.Batch
}

// Users share no instant: which of them was first is nobody's to say.
var offsets = map[string]time.Duration{"ada": time.Millisecond, "bob": 2 * time.Millisecond,
	"eve": 3 * time.Millisecond}

func (h *history) users() []string { return []string{"ada", "bob", "eve"} }

func (h *history) user() string {
	if h.random.IntN(6) == 0 {
		return ""
	}
	return h.users()[h.random.IntN(3)]
}

func (h *history) batch() activity.Batch {
	if len(h.past) > 0 && h.random.IntN(5) == 0 {
		return h.past[h.random.IntN(len(h.past))]
	}
	user, session := h.user(), []string{"", "s1", "s2"}[h.random.IntN(3)]
	actions := make([]activity.Action, 1+h.random.IntN(8))
	second := h.now - h.random.IntN(2)*h.random.IntN(10)
	for i := range actions {
		at := h.base.Add(time.Duration(second) * time.Second).Add(offsets[user])
		actions[i] = activitytest.Click(at, fmt.Sprint(second), page)
		second += h.random.IntN(3)
	}
	h.now = max(h.now, second+1)
	b := activitytest.NewBatch(product, session, user, actions...)
	h.past = append(h.past, b)
	return b
}

// inSeconds returns the actions with their times in seconds.
func inSeconds(found recent.Records, base time.Time) (all []string) {
	for _, r := range found {
		start, end := time.UnixMicro(r.Start).Sub(base), time.UnixMicro(r.End).Sub(base)
		all = append(all, fmt.Sprintf("%q %.3f-%.3f", r.Session, start.Seconds(), end.Seconds()))
	}
	return all
}
