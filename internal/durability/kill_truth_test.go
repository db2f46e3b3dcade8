package durability_test

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/recent"
)

// page is a page view that a client sends. Fields that stay the same after it is announced need no lock.
type page struct {
	uuid, session, user string
	email               string // empty if the event has none
	client, order       int    // its number among the client's pages
	at                  int64  // microseconds since the epoch; no other page has the same

	request *request // that carried it first

	acknowledged bool // guarded by truth
}

// url is the page's URL, which contains the page's uuid.
func (p *page) url() string {
	return "https://app.acme.example/step-" + letters(p.client) + "-" + letters(p.order) + pageQuery + p.uuid
}

const pageQuery = "?view="

// letters writes a number with the letters from a to j, so that it is taken for a word and not for an identifier.
func letters(n int) string {
	return strings.Map(func(digit rune) rune { return digit - '0' + 'a' }, strconv.Itoa(n))
}

// time is the page's time as it is sent.
func (p *page) time() string {
	return time.UnixMicro(p.at).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// request is one request of a client, which sends it until it is acknowledged.
type request struct {
	client, number int
	pages          []*page // some may have been sent before
	fresh          int     // the number of new pages
	body           string

	attempts []string // guarded by truth
}

// truth is the clients' knowledge: the pages sent, and those acknowledged. It is safe for concurrent use.
type truth struct {
	mu       sync.Mutex
	clock    int64 // the newest page's time
	pages    map[string]*page
	newest   map[string][]*page // by user, acknowledged, in time order, no more than a lookup returns
	requests int                // acknowledged
	retries  int
	total    int // acknowledged pages
}

func newTruth() *truth {
	return &truth{pages: map[string]*page{}, newest: map[string][]*page{}}
}

// clockDelay is the lag of the pages' clock, which must never run ahead of the servers' clock.
const clockDelay = 2 * time.Second

// announce records pages that are about to be sent, and gives each its time.
func (t *truth) announce(pages ...*page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range pages {
		t.clock = max(t.clock+1, time.Now().Add(-clockDelay).UnixMicro())
		p.at = t.clock
		t.pages[p.uuid] = p
	}
}

// attempted records the outcome of an attempt to send a request.
func (t *truth) attempted(r *request, where, result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(r.attempts) > 0 {
		t.retries++
	}
	r.attempts = append(r.attempts, where+": "+result)
}

// acknowledge records that a request was acknowledged.
func (t *truth) acknowledge(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	for _, p := range r.pages {
		if p.acknowledged {
			continue
		}
		p.acknowledged = true
		t.total++
		newest := t.newest[p.user]
		at := sort.Search(len(newest), func(i int) bool { return newest[i].at > p.at })
		newest = slices.Insert(newest, at, p)
		t.newest[p.user] = newest[max(0, len(newest)-recent.DefaultMaxEvents):]
	}
}

// counts returns the numbers of acknowledged pages and requests, and of attempts after the first.
func (t *truth) counts() (pages, requests, retries int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total, t.requests, t.retries
}

// find returns the page of a URL, nil if it was not sent.
func (t *truth) find(url string) *page {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, uuid, _ := strings.Cut(url, pageQuery)
	return t.pages[uuid]
}

// of returns the user's newest acknowledged pages, in time order.
func (t *truth) of(user string) []*page {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.newest[user])
}

// users returns the users with acknowledged pages, sorted.
func (t *truth) users() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	users := make([]string, 0, len(t.newest))
	for user := range t.newest {
		users = append(users, user)
	}
	slices.Sort(users)
	return users
}

// missing returns the acknowledged pages that are not among those seen.
func (t *truth) missing(seen map[string]string) []*page {
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing []*page
	for uuid, p := range t.pages {
		if _, ok := seen[uuid]; !ok && p.acknowledged {
			missing = append(missing, p)
		}
	}
	slices.SortFunc(missing, func(a, b *page) int { return int(a.at - b.at) })
	return missing
}

// describe says everything about a page.
func (t *truth) describe(p *page) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := "not acknowledged"
	if p.acknowledged {
		state = "acknowledged"
	}
	text := fmt.Sprintf("event %s (%s) of session %s, user %s, number %d of client %d, at %s", p.uuid, state, p.session,
		p.user, p.order, p.client, p.time())
	if r := p.request; r != nil {
		text += fmt.Sprintf("; its request is number %d with %d events; attempts: %s", r.number, len(r.pages),
			strings.Join(r.attempts, " | "))
	}
	return text
}

// describeAll says everything about the first few pages.
func (t *truth) describeAll(pages []*page) string {
	var all []string
	for _, p := range pages[:min(len(pages), 5)] {
		all = append(all, "\n  "+t.describe(p))
	}
	return strings.Join(all, "")
}
