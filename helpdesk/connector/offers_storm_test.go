package connector

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// storm is a world of two servers that come and go, where storage and the desk fail.
type storm struct {
	*world
	rng     *rand.Rand
	dead    []*atomic.Bool
	wrote   map[string]time.Time // when someone wrote into a conversation last
	talks   []string
	matches []time.Time
}

func newStorm(t *testing.T, seed uint64) *storm {
	w := newWorld(t, &proactive.Config{Enabled: true, ReplyOptionLabels: []string{"Yes"}})
	st := &storm{world: w, rng: rand.New(rand.NewPCG(seed, 1)), wrote: map[string]time.Time{}}
	var mu sync.Mutex
	chance := rand.New(rand.NewPCG(seed, 2))
	rate := []float64{0, 0.02, 0.1, 0.3}[st.rng.IntN(4)]
	end := time.Now().Add(stormTime)
	w.sees = func(log eventlog.Log) eventlog.Log {
		dead := &atomic.Bool{}
		st.dead = append(st.dead, dead)
		fails := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return dead.Load() || time.Now().Before(end) && chance.Float64() < rate
		}
		return &watchtest.Log{Log: log, Watch: watchtest.Watch{Before: func(_ context.Context, op watchtest.Op) error {
			switch {
			case op.Name != "read" && op.Name != "bounds" && fails():
				return errAway
			case op.Name == "write" && fails():
				return &document.ConflictError{Name: op.Documents[0]}
			}
			return nil
		}, After: func(_ context.Context, op watchtest.Op, err error) error {
			if op.Name == "write" && fails() {
				return errAway
			}
			return err
		}}}
	}
	return st
}

const stormTime = 20 * time.Minute

// any returns a server that lives.
func (st *storm) any() *server {
	for i, s := range st.servers {
		if !st.dead[i].Load() {
			return s
		}
	}
	return st.start(st.options())
}

func (st *storm) options() Options {
	return Options{Logger: slog.New(slog.DiscardHandler)}
}

// send delivers a webhook until it is taken.
func (st *storm) send(webhook *http.Request) {
	for {
		if st.any().take(webhook).Code == http.StatusOK {
			return
		}
		time.Sleep(time.Second)
	}
}

// current returns the conversation that is open, and opens one if none is.
func (st *storm) current() string {
	if n := len(st.talks); n > 0 && st.desk.Exists(st.talks[n-1]) {
		return st.talks[n-1]
	}
	id, webhook := st.desk.Created(hook, helpdesktest.IntercomContact{Email: jane}, "")
	st.send(webhook)
	st.talks = append(st.talks, id)
	return id
}

// happen lets something happen.
func (st *storm) happen() {
	switch st.rng.IntN(12) {
	case 0:
		if st.rng.IntN(2) == 0 { // a server dies: what it was doing stays as it is
			i := st.rng.IntN(len(st.servers))
			st.dead[i].Store(true)
			st.servers[i].stop()
		} else {
			st.start(st.options())
		}
	case 1:
		st.desk.Fail(helpdesktest.Fault{Path: "/reply", Lose: true, Times: 1})
	case 2:
		st.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Lose: st.rng.IntN(2) == 0, Status: 503, Times: 2})
	case 3:
		st.desk.Fail(helpdesktest.Fault{Path: "/reply", Delay: time.Duration(st.rng.IntN(8)) * time.Second, Times: 1})
	case 4:
		st.desk.Fail(helpdesktest.Fault{Path: "/reply", Status: []int{422, 429, 500}[st.rng.IntN(3)], Times: 1})
	case 5, 6:
		st.write()
	default:
		st.current()
		st.pingPong()
		st.matches = append(st.matches, time.Now())
	}
}

// write writes into the open conversation, as the user or a teammate.
func (st *storm) write() {
	id := st.current()
	st.wrote[id] = time.Now()
	if st.rng.IntN(3) == 0 {
		st.desk.AgentReply(id, "I am here")
		return
	}
	text := []string{"yes", "What does it cost?"}[st.rng.IntN(2)]
	st.send(st.desk.Replied(hook, id, text))
}

// storms is the number of simulated storms.
var storms = uint64(12)

// In any weather, with storage that fails between any two steps and servers that die, no match
// leads to two offers, no offer is late, nobody who writes loses the conversation, and a deleted
// conversation is forgotten here, too.
func TestOffers_keepsItsPromisesInAnyStorm(t *testing.T) {
	t.Parallel()
	offers, deletions := 0, 0
	for seed := range storms {
		synctest.Test(t, func(t *testing.T) {
			st := newStorm(t, seed)
			st.start(st.options())
			st.start(st.options())
			st.visit("/home")
			for begin := time.Now(); time.Since(begin) < stormTime; {
				st.happen()
				time.Sleep(time.Duration(st.rng.IntN(40)) * time.Second)
			}
			st.desk.Heal()
			last := st.any()
			time.Sleep(3 * time.Minute)
			for _, id := range st.talks {
				offers += len(st.shown(id))
				if !st.desk.Exists(id) {
					deletions++
				}
				st.check(last, id)
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	t.Logf("%d offers, %d deletions", offers, deletions)
	assert.Greater(t, offers, int(storms))
	assert.Positive(t, deletions)
}

// check holds a conversation to the promises.
func (st *storm) check(s *server, id string) {
	t := st.t
	taken := map[time.Time]bool{}
	for _, offer := range st.shown(id) {
		var match time.Time
		for _, at := range st.matches {
			if began := at.Add(-time.Second); !began.After(offer) {
				match = at
			}
		}
		assert.LessOrEqual(t, offer.Sub(match), assistance.SendWithin, "an offer in %s is late", id)
		assert.False(t, taken[match], "two offers in %s for one match", id)
		taken[match] = true
	}
	if offers := st.shown(id); len(offers) > 0 && st.wrote[id].After(offers[len(offers)-1]) {
		assert.True(t, st.desk.Exists(id), "%s was deleted although someone wrote after the offer", id)
	}
	docs := musttest.New(st.log.Documents().Get(t.Context(), acme, "conversations/intercom/"+id))
	if !st.desk.Exists(id) {
		assert.Empty(t, s.known(t, "intercom", id), "the link to %s is left", id)
		assert.False(t, docs[0].Exists(), "the machine of %s is left", id)
	}
}
