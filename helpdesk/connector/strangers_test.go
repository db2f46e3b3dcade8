package connector

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// forges links sessions to conversations in one burst, as anybody can, and returns the number of
// links taken.
func (s *service) forges(t *testing.T, links []string) (taken int) {
	var mu sync.Mutex
	var burst sync.WaitGroup
	for _, link := range links {
		burst.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/sessions/link", strings.NewReader(link))
			r.Header.Set("Origin", "https://app.acme.example")
			w := httptest.NewRecorder()
			s.ServeLink(w, r)
			mu.Lock()
			defer mu.Unlock()
			if w.Code == http.StatusOK {
				taken++
				return
			}
			wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
			assert.NoError(t, err)
			assert.Equal(t, []any{http.StatusTooManyRequests, true}, []any{w.Code, 0 < wait && wait <= 60})
		})
	}
	burst.Wait()
	return taken
}

// inOrder returns the conversation of each of the desk's notes.
func (d *desk) inOrder() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}

// shared returns the number of notes in strangers' conversations, and the most by which they exceeded a
// tenth of the notes so far.
func shared(conversations []string) (strangers int, excess float64) {
	for i, id := range conversations {
		if id != "own" {
			strangers++
			excess = max(excess, float64(strangers)-float64(i+1)/strangersShare)
		}
	}
	return strangers, excess
}

// At each of two desks, an owner is busy while twice as many links are forged as are taken.
func TestStrangers_delayNoOwnersNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desks := []Desk{{"zendesk", newDesk()}, {"chat", newDesk()}}
		f := newService(t, musttest.New(memorylog.New(nil)), Product{Notes: summaries(0), Desks: desks,
			AllowedOrigins: []string{"https://app.acme.example"}}, nil).follows(t, nil)
		for _, d := range desks {
			d.Desk.(*desk).takes = func() time.Duration { return 100 * time.Millisecond }
			f.visit(t, d.Name, "home")
			musttest.New(f.link(t.Context(), d.Name, "own", d.Name, byWebhook, time.Now()))
		}
		forged := make([]string, 2*MaxStrangeLinks)
		for i := range forged {
			f.visit(t, fmt.Sprint("s", i), "evil")
			forged[i] = fmt.Sprintf(`{"product_id":"acme","session_id":"s%d","conversation_id":"%d","desk":%q}`, i, i,
				desks[i%2].Name)
		}
		busy := make(chan struct{})
		go func() { // the owners
			defer close(busy)
			for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
				f.visit(t, "zendesk", "pricing")
				f.visit(t, "chat", "pricing")
			}
		}()
		time.Sleep(time.Second)
		assert.Equal(t, MaxStrangeLinks, f.forges(t, forged))
		<-busy
		for _, d := range desks {
			noted := d.Desk.(*desk).inOrder()
			strangers, excess := shared(noted)
			t.Logf("%s: %d notes, %d of them of strangers", d.Name, len(noted), strangers)
			assert.LessOrEqual(t, excess, 1.0)
			assert.Positive(t, strangers, "they do not starve")
			assert.Greater(t, len(noted)-strangers, 150, "the owner's, each of a tenth of a second")
		}
		time.Sleep(2 * time.Minute)
		forgedNotes := 0
		for _, d := range desks {
			strangers, _ := shared(d.Desk.(*desk).inOrder())
			forgedNotes += strangers
		}
		assert.Equal(t, MaxStrangeLinks, forgedNotes, "none is lost")
	})
}

// A desk at rest gives strangers a tenth of its stated rate, and few requests at once.
func TestStrangers_haveATenthOfTheDesksRate(t *testing.T) {
	const links = 40
	for name, tt := range map[string]struct {
		by   linkedBy
		rate int
		want []int // notes by the end of each minute
		most int   // requests at once
	}{
		"strangers":                          {byStranger, 150, []int{15, 30, 40}, maxStrange},
		"strangers, at a desk without limit": {byStranger, 0, []int{40, 40, 40}, maxStrange},
		"signed users":                       {bySigned, 150, []int{40, 40, 40}, maxInside},
		"webhooks":                           {byWebhook, 150, []int{40, 40, 40}, maxInside},
	} {
		t.Run(name, func(t *testing.T) {
			withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
				f.desk.rate, f.desk.takes = tt.rate, func() time.Duration { return time.Second / 2 }
				var notes []int
				for i := range links {
					id := fmt.Sprint("s", i)
					f.visitAs(t, id, "ada", "", time.Now(), "a")
					require.Equal(t, "linked", f.linkAs(t, id, id, tt.by))
				}
				for range tt.want {
					time.Sleep(time.Minute - time.Second)
					notes = append(notes, len(f.desk.inOrder()))
					time.Sleep(time.Second)
				}
				assert.Equal(t, tt.want, notes)
				assert.Equal(t, tt.most, f.desk.mostAtOnce())
			})
		})
	}
}

// An owner waits for strangers neither in the conversation that they share, nor after
// their notes or the owner's had to wait, nor while the service stops.
func TestStrangers_ofAnOwnersConversationComeLast(t *testing.T) {
	notes := DefaultNotes()
	notes.Interval = 0
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		f.desk.rate = 10
		link := func(session string, by linkedBy) {
			f.visit(t, session, "first of "+session)
			f.linkAs(t, "7", session, by)
			synctest.Wait()
		}
		link("eve", byStranger)
		link("mallory", byStranger)
		require.Len(t, f.desk.texts("7"), 1, "one request in a minute")
		link("ada", byWebhook)
		require.Contains(t, f.desk.texts("7")[1], "first of ada")
		for range 5 {
			f.visit(t, "ada", "next")
			time.Sleep(time.Second)
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		require.Len(t, f.desk.texts("7"), 2, "her actions are merged all the same")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, 5, strings.Count(f.desk.texts("7")[2], "next"))
		time.Sleep(time.Minute)
		require.Contains(t, f.desk.texts("7")[3], "first of mallory")
		f.desk.refuses(failing("note", helpdesk.APIError{Status: 503}))
		f.visit(t, "ada", "late")
		time.Sleep(10 * time.Second)
		f.desk.refuses(nil)
		time.Sleep(10 * time.Second)
		require.Contains(t, f.desk.texts("7")[4:], "[1] User visited late", "nor after the desk was away")
		f.visit(t, "eve", "more")
		time.Sleep(30 * time.Second)
		assert.Empty(t, f.Backlog("acme").Desks, "nothing waits for the desk")
		assert.Less(t, f.closes(t), 2*time.Second)
	})
}

// A stranger's link awaits its turn, and displaces no match with its own.
func TestStrangers_areKnownByTheirLinks(t *testing.T) {
	s := newLinks(t)
	d := s.newDelivery("acme")
	for by, want := range map[linkedBy][]int{byStranger: {0, 1}, bySigned: {1, 0}, byWebhook: {1, 0}} {
		key := fmt.Sprint("zendesk/", by)
		s.visitAs(t, key, "ada", "", time.Now(), "a")
		s.linkAs(t, key[len("zendesk/"):], key, by)
		into := make([]eventlog.Entry, 10)
		n := musttest.New(s.store.log.Read(t.Context(), "acme", eventlog.ID{}, into))
		d.accounts = map[string]*account{}
		require.NoError(t, d.see(eventlog.ID{}, into[n-1:n]))
		a := d.accounts["zendesk"]
		assert.Equal(t, want, []int{a.lanes.Len(), a.turns.lanes.Len()}, by)
	}
	d.config = Product{Desks: []Desk{{"zendesk", offeringDesk{newScriptDesk("zendesk")}}}, Assistance: &assistance.Core{}}
	match := func(by linkedBy) {
		d.decide(&watched{id: fmt.Sprint("zendesk/", by)}, time.Now(),
			func(assistance.Machine, assistance.Session) assistance.Decision {
				return assistance.Decision{Reason: assistance.Offered}
			})
	}
	match(byStranger)
	assert.Nil(t, d.lanes["zendesk/0"].memo)
	match(byWebhook)
	assert.NotNil(t, d.lanes["zendesk/2"].memo.match)
}

// A conversation with something to do later asks for its strangers' turn now and then.
func TestStrangers_waitInTheConversationsAgenda(t *testing.T) {
	d := newLinks(t).newDelivery("acme")
	for name, own := range map[string]time.Duration{"nothing of its own": 0, "soon": time.Second, "later": time.Hour} {
		l := d.lane(linkOf("zendesk/"+name), time.Now())
		l.begin()
		now, due := time.Now(), time.Time{}
		if own > 0 {
			due = now.Add(own)
		}
		(&job{d: d, lane: l}).done(time.Time{}, due, true)
		assert.Equal(t, own == 0, l.inTurns, name)
		assert.InDelta(t, min(own, turnPause).Seconds(), l.slot.Due().Sub(now).Seconds(), 0.5, name)
	}
}
