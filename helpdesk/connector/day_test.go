package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// day is a simulated day of a product with two servers.
type day struct {
	*service // takes events and webhooks; it does not follow
	t        *testing.T
	rng      *rand.Rand
	product  Product
	opts     Options
	desk     *desk

	servers []func() // kill, of those that run
	running sync.WaitGroup

	sessions []*visitor
	weather  atomic.Pointer[weather]
}

// visitor is a session of the day.
type visitor struct {
	id, email, userID string
	conversation      string
	linked            time.Time // the moment of its link; zero before
	visits            []visit
}

type visit struct {
	page string
	at   time.Time
}

// weather is how a desk behaves for a while. Rates are per request.
type weather struct {
	away                    *helpdesk.APIError // what everything fails with
	lost, conflict, limited float64            // rates
	broken                  float64            // rate of 500 answers, after the effect or before
	slow                    time.Duration
}

func fine() *weather { return &weather{} }

// newWeather returns weather of any kind.
func newWeather(rng *rand.Rand) *weather {
	status := func(e helpdesk.APIError) *weather { return &weather{away: &e} }
	switch rng.IntN(16) {
	case 0:
		return status(helpdesk.APIError{Status: 429, Wait: time.Duration(1+rng.IntN(120)) * time.Second})
	case 1:
		return status(helpdesk.APIError{Status: 429})
	case 2:
		return status(helpdesk.APIError{Status: 500 + rng.IntN(5), Ambiguous: true})
	case 3:
		return status(helpdesk.APIError{Err: errors.New("no connection")})
	case 4:
		return status(helpdesk.APIError{Status: 401 + 2*rng.IntN(2)})
	case 5:
		return &weather{lost: 0.5, slow: 8 * time.Second}
	case 6:
		return &weather{conflict: 0.5, limited: 0.3, slow: time.Second}
	case 7:
		return &weather{broken: 0.5, lost: 0.1, conflict: 0.1}
	}
	return fine()
}

// newDay prepares a day.
func newDay(t *testing.T, seed uint64) *day {
	d := &day{t: t, rng: rand.New(rand.NewPCG(seed, 11)), desk: newDesk()}
	d.weather.Store(fine())
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: 20 * time.Hour}}))
	notes := promptNotes()
	notes.PreLinkWindow = 2 * time.Minute
	notes.Debounce = []time.Duration{0, time.Second, 5 * time.Second}[d.rng.IntN(3)]
	notes.SummaryThreshold = []int{0, 5, 20}[d.rng.IntN(3)]
	d.desk.size = []int{0, 150, 1000}[d.rng.IntN(3)]
	d.product = Product{Desks: []Desk{{"zendesk", d.desk}}, Notes: notes}
	d.opts = Options{Logger: slog.New(slog.DiscardHandler)}
	d.service = newService(t, log, d.product, &d.opts)
	d.behave(rand.New(rand.NewPCG(seed, 12)))
	return d
}

// behave lets the desk behave as the weather is.
func (d *day) behave(rng *rand.Rand) {
	var mu sync.Mutex
	chance := func(p float64) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64() < p
	}
	d.desk.refuse = func(string, string) *helpdesk.APIError {
		w := d.weather.Load()
		switch {
		case w.away != nil:
			e := *w.away
			return &e
		case chance(w.conflict):
			return &helpdesk.APIError{Status: 409}
		case chance(w.limited):
			return &helpdesk.APIError{Status: 429, Wait: 30 * time.Second, OneConversation: true}
		case chance(w.broken / 2):
			return &helpdesk.APIError{Status: 502, Ambiguous: true}
		}
		return nil
	}
	d.desk.lose = func(string, string) *helpdesk.APIError {
		switch w := d.weather.Load(); {
		case chance(w.lost):
			return &helpdesk.APIError{Err: errors.New("lost")}
		case chance(w.broken / 2):
			return &helpdesk.APIError{Status: 500}
		}
		return nil
	}
	d.desk.takes = func() time.Duration {
		slow := d.weather.Load().slow
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.Int64N(int64(slow) + 1))
	}
}

// startServer lets another server follow the log.
func (d *day) startServer() {
	log, dead := mortal(d.store.log)
	c, err := New(log, always(d.product), &d.opts)
	require.NoError(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	d.running.Go(func() { _ = c.Follow(ctx, "acme", musttest.New(eventlog.NewSource(log, "acme"))) })
	d.servers = append(d.servers, func() {
		dead.Store(true)
		cancel()
	})
}

// kill ends a server at once: it does not give up its leases.
func (d *day) kill(i int) {
	d.servers[i]()
	d.servers = slices.Delete(d.servers, i, i+1)
}

// event is an event of the day.
type event struct {
	at time.Time
	do func()
}

// plan returns the events of the day.
func (d *day) plan(visitors, visitsEach int) (events []event) {
	begin := time.Now()
	within := func(from, to time.Duration) time.Time {
		return begin.Add(from + time.Duration(d.rng.Int64N(int64(to-from))))
	}
	add := func(at time.Time, do func()) { events = append(events, event{at, do}) }
	const calm = 21 * time.Hour
	for i := range visitors {
		v := &visitor{id: fmt.Sprintf("s%d", i), email: fmt.Sprintf("u%d@x.example", i),
			conversation: fmt.Sprint(d.rng.IntN(1 + visitors*2/3))}
		d.sessions = append(d.sessions, v)
		first := within(0, calm-time.Hour)
		at := first
		for n := range visitsEach {
			add(at, func() { d.visits(v, fmt.Sprintf("%s-%d", v.id, n)) })
			at = at.Add(time.Duration(d.rng.ExpFloat64() * float64(time.Minute)))
		}
		link := first.Add(time.Duration(d.rng.Int64N(int64(30*time.Minute))) - 10*time.Minute)
		add(link, func() { d.links(v) })
		for range d.rng.IntN(3) {
			add(link.Add(time.Duration(d.rng.Int64N(int64(time.Hour)))), func() { d.linksAgain(v) })
		}
	}
	for at := begin; at.Before(begin.Add(calm)); at = at.Add(time.Duration(d.rng.ExpFloat64() * float64(40*time.Minute))) {
		w := newWeather(d.rng)
		add(at, func() { d.weather.Store(w) })
	}
	for range d.rng.IntN(20) {
		add(within(0, calm), func() { d.kill(d.rng.IntN(len(d.servers))); d.startServer() })
	}
	add(begin.Add(calm), func() { d.weather.Store(fine()) })
	add(begin.Add(24*time.Hour), func() {})
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events
}

// visits records a page view, now and then of several pages at once.
func (d *day) visits(v *visitor, page string) {
	var pages []string
	for i := range 1 + d.rng.IntN(3) {
		pages = append(pages, fmt.Sprintf("%s.%d", page, i))
		v.visits = append(v.visits, visit{pages[i], time.Now()})
	}
	require.NoError(d.t, d.record(context.Background(), v.id, v.userID, v.email, time.Now(), pages...))
}

// links links the visitor's session by a webhook, which may come before it.
func (d *day) links(v *visitor) {
	v.linked = time.Now()
	_, err := d.linkContact(context.Background(), v.conversation, helpdesk.Contact{Email: strings.ToUpper(v.email)})
	require.NoError(d.t, err)
}

// linksAgain repeats a webhook, and tries to link the session elsewhere.
func (d *day) linksAgain(v *visitor) {
	if len(v.visits) == 0 {
		return
	}
	_, err := d.link(context.Background(), "zendesk", v.conversation, v.id, byStranger, time.Now())
	require.NoError(d.t, err)
	_, err = d.link(context.Background(), "zendesk", "elsewhere", v.id, byStranger, time.Now())
	require.ErrorIs(d.t, err, errLinked)
}

// live lets the day pass.
func (d *day) live(visitors, visitsEach int) {
	events := d.plan(visitors, visitsEach)
	d.startServer()
	d.startServer()
	for _, e := range events {
		time.Sleep(time.Until(e.at))
		e.do()
	}
}

// end ends the servers.
func (d *day) end() {
	for len(d.servers) > 0 {
		d.kill(0)
	}
	d.running.Wait()
}

// wanted returns the pages that belong in notes, by conversation and session: each view of a linked
// session that is not older than the pre-link window.
func (d *day) wanted() map[string][]string {
	want := map[string][]string{}
	for _, v := range d.sessions {
		key := v.conversation + " " + v.id
		for _, visit := range v.visits {
			if since := v.linked.Add(-d.product.Notes.PreLinkWindow); !visit.at.Before(since) {
				want[key] = append(want[key], visit.page)
			}
		}
	}
	return want
}

// got returns the pages in the notes, by conversation and session.
func (d *day) got() map[string][]string {
	d.desk.mu.Lock()
	defer d.desk.mu.Unlock()
	got := map[string][]string{}
	for conversation, notes := range d.desk.notes {
		for _, n := range notes {
			header, body, _ := strings.Cut(n.text, "\n\n")
			first, _, _ := strings.Cut(header, "\n")
			key := conversation + " " + strings.TrimPrefix(first, "session_id: ")
			for line := range strings.Lines(body) {
				if _, page, ok := strings.Cut(line, "] User visited "); ok {
					got[key] = append(got[key], strings.TrimSpace(page))
				}
			}
		}
	}
	return got
}

// check compares the desk's notes with the wanted pages: each once, in its conversation and in
// order.
func (d *day) check() {
	want, got := d.wanted(), d.got()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		assert.Equal(d.t, want[key], got[key], "conversation and session %s", key)
		delete(got, key)
	}
	assert.Empty(d.t, got, "where nothing belongs")
	d.checkRedactions()
}

// checkRedactions checks that a later summary of the same session replaced each redacted note.
func (d *day) checkRedactions() {
	d.desk.mu.Lock() // a write whose answer was lost may still come to be
	defer d.desk.mu.Unlock()
	for _, notes := range d.desk.notes {
		for i, n := range notes {
			session, _, _ := strings.Cut(n.text, "\n")
			replaced := slices.ContainsFunc(notes[i+1:], func(later *written) bool {
				return strings.HasPrefix(later.text, session+"\n") && !strings.Contains(later.text, "\n[1] ")
			})
			assert.True(d.t, !n.redacted || replaced && strings.Contains(n.text, "\n[1] "), "redacted: %s", n.text)
		}
	}
}

// The extent of the simulations. It is smaller with the race detector, which takes ten times as
// long.
var (
	days  = uint64(100)
	crowd = 2000 // sessions of one day
)

// A simulated day has everything that can happen. A failed day is named by its seed, which repeats
// it: -run TestFollow_keepsItsPromisesAllDay/seed=7$.
func TestFollow_keepsItsPromisesAllDay(t *testing.T) {
	for seed := range days {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDay(t, seed)
				d.live(8, 12)
				d.end()
				d.check()
			})
		})
	}
}

// The day has many sessions.
func TestFollow_keepsItsPromisesInACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, 1)
		d.live(crowd, 6)
		d.end()
		d.check()
	})
}
