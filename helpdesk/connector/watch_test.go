package connector

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// newWatching returns a service of products whose triggers are asked.
func newWatching(t testing.TB) *service {
	t.Helper()
	core := assistance.NewCore(nil, proactive.PingPong{})
	p := Product{Desks: []Desk{{"zendesk", newDesk()}}, Notes: promptNotes(), Assistance: core}
	return newService(t, musttest.New(memorylog.New(nil)), p, nil)
}

// visits lets a delivery see page views of a session, with URLs of that length.
func (d *delivery) visits(t testing.TB, sessionID string, pages, length int) {
	t.Helper()
	b := activity.Batch{Type: activity.BatchType, SessionID: sessionID, Count: pages}
	for i := range pages {
		url := fmt.Sprint("https://acme.example/", i, "/")
		url += strings.Repeat("a", max(0, length-len(url)))
		b.Actions = append(b.Actions, activity.BatchAction{SessionID: sessionID, Action: activity.Action{
			Type: activity.TypePageview, Title: fmt.Sprint("Page Load: ", i), CanonicalURL: url, Index: i,
			TimestampStart: float64(time.Now().UnixMicro()) / 1e6}})
	}
	data := musttest.New(json.Marshal(b))
	e := eventlog.Entry{ID: eventlog.IDAt(time.Now()), SessionID: sessionID, Data: data}
	require.NoError(t, d.see(eventlog.ID{}, []eventlog.Entry{e}))
}

// watched returns the number of a session's actions that are remembered for triggers.
func (d *delivery) watched(sessionID string) int {
	if known, ok := d.watch.sessions.Get("", sessionID); ok {
		return len(known.window.Actions)
	}
	return 0
}

// A product may have another desk that makes offers.
func TestWatch_keepsNoMatchForADeskWithoutOffers(t *testing.T) {
	d := newWatching(t).newDelivery("acme")
	d.mu.Lock()
	l := d.lane(linkOf("zendesk/7"), time.Now())
	d.join(l, "linked", 9, eventlog.ID{}, false)
	d.loaded = eventlog.IDAt(time.Now().Add(time.Hour)) // all actions are its conversation's
	d.mu.Unlock()
	d.visits(t, "linked", 2, 0)
	d.visits(t, "linked", 1, 0)
	require.Equal(t, 3, d.watched("linked"))
	assert.Nil(t, l.memo)
}

// Anyone with the capture token can report any number of sessions.
func TestWatch_remembersAProductsSessionsInBoundedMemory(t *testing.T) {
	s := newWatching(t)
	d := s.newDelivery("acme")
	d.mu.Lock()
	d.join(d.lane(linkOf("zendesk/7"), time.Now()), "linked", 9, eventlog.ID{}, false)
	d.loaded = eventlog.IDAt(time.Now().Add(time.Hour)) // all actions are its conversation's
	d.mu.Unlock()
	d.visits(t, "linked", 3, 100)
	d.visits(t, "first", 3, 100)
	grown := heaptest.After(func() {
		for i := range 300 {
			d.visits(t, fmt.Sprint("s", i), 40, 1800)
		}
	})
	t.Logf("%d sessions take %d KiB", d.watch.sessions.Len(), grown>>10)
	assert.LessOrEqual(t, grown, int64(maxWatched*11/10))
	assert.Equal(t, 40, d.watched("s299"), "the session that acted last")
	assert.Zero(t, d.watched("first"))
	assert.Equal(t, 3, d.watched("linked"), "a session with a conversation goes last")
	d.mu.Lock()
	d.join(d.lane(linkOf("zendesk/8"), time.Now()), "linked", 10, eventlog.ID{}, false)
	d.mu.Unlock()
	assert.Zero(t, d.watched("linked"), "they are another person's than the newest link's")
	d.loaded = eventlog.ID{}
	d.visits(t, "linked", 3, 100)
	assert.Zero(t, d.watched("linked"), "actions that do not name its conversation")
	runtime.KeepAlive(d)
}

func TestWatch_takesFromTheProductThatHoldsMost(t *testing.T) {
	const total = 1 << 20
	s := newWatching(t)
	s.watches = fair.NewShares[*delivery](total)
	quiet, loud, next := s.newDelivery("quiet"), s.newDelivery("loud"), s.newDelivery("next")
	for i := range 10 {
		quiet.visits(t, fmt.Sprint("s", i), 10, 100)
	}
	flood := func(d *delivery) {
		for i := range 100 {
			d.visits(t, fmt.Sprint("s", i), 40, 1800)
		}
	}
	flood(loud)
	assert.Equal(t, 10, quiet.watch.sessions.Len())
	assert.Equal(t, 10, quiet.watched("s0"))
	assert.Equal(t, 40, loud.watched("s99"))
	bytes := func(d *delivery) int { return int(d.watch.sessions.Bytes("")) }
	assert.InDelta(t, total, bytes(quiet)+bytes(loud), total/5)

	loud.unwatch()
	flood(next)
	assert.Equal(t, 10, quiet.watch.sessions.Len())
	assert.InDelta(t, total, bytes(quiet)+bytes(next), total/5, "it has what the other gave up")
}

func TestWatch_forgetsSessionsThatDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWatching(t).newDelivery("acme")
		d.visits(t, "gone", 1, 100)
		d.visits(t, "stays", 1, 100)
		time.Sleep(watchSpan / 2)
		d.visits(t, "stays", 1, 100)
		time.Sleep(watchSpan / 2)
		d.visits(t, "new", 1, 100)
		assert.Zero(t, d.watched("gone"))
		assert.Equal(t, 2, d.watched("stays"))
		d.erase(&feed.Erasure{SessionIDs: []string{"stays"}})
		assert.Equal(t, 1, d.watch.sessions.Len())
		s := d.product()
		s.Assistance = nil
		d.seeAll(nil, s, time.Now())
		assert.Zero(t, d.watch.sessions.Len(), "without triggers there is nothing to remember")
	})
}
