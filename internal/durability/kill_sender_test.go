package durability_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// sender is a client. Like PostHog, it repeats a request unchanged until it is acknowledged.
type sender struct {
	storm    *storm
	rng      *rand.Rand
	client   int
	sessions []session
	pages    int
	requests int
	sent     []*request // acknowledged, to be repeated
}

// session is one of a user's.
type session struct{ id, user string }

const (
	users       = 12
	ownSessions = 4
	maxPages    = 20 // of a request
)

func user(n int) string { return fmt.Sprintf("user_%d", n%users) }

func emailOf(user string) string { return user + "@acme.example" }

// sharedSession is the one session of all the clients.
var sharedSession = session{"shared", "everybody"}

func (s *storm) newSender(client int) *sender {
	c := &sender{storm: s, rng: s.dice.generator(), client: client}
	for i := range ownSessions {
		c.sessions = append(c.sessions, session{fmt.Sprintf("s-%d-%d", client, i), user(client + 5*i)})
	}
	c.sessions = append(c.sessions, sharedSession)
	return c
}

// send starts n clients, which send until the storm is over.
func (s *storm) send(n int) {
	for i := range n {
		c := s.newSender(i)
		s.senders.Go(c.run)
	}
}

func (c *sender) run() {
	for !c.storm.isOver() {
		c.once()
		if c.storm.balancer == nil {
			c.storm.pause(upTo(c.rng, 10*time.Millisecond))
		}
	}
}

func (c *sender) once() {
	c.storm.calm.RLock()
	defer c.storm.calm.RUnlock()
	switch p := c.rng.IntN(100); {
	case p < 5 && len(c.sent) > 0:
		c.insist(c.again())
	case p < 10 && c.storm.balancer == nil:
		c.tryOnce(c.fickle())
	default:
		c.insist(c.request(c.sessions))
	}
}

// request returns a new request about some of the sessions. Some of its pages were sent before, as happens with SDKs.
func (c *sender) request(sessions []session) *request {
	r := &request{client: c.client, number: c.requests, fresh: 1 + c.rng.IntN(maxPages)}
	if c.rng.IntN(2) == 0 {
		r.fresh = 1 + c.rng.IntN(3)
	}
	c.requests++
	for range r.fresh {
		r.pages = append(r.pages, c.page(r, sessions[c.rng.IntN(len(sessions))]))
	}
	c.storm.truth.announce(r.pages...)
	if len(c.sent) > 0 && c.rng.IntN(6) == 0 {
		for range 1 + c.rng.IntN(3) {
			r.insert(c.rng, c.old())
		}
	}
	r.encode(c.rng)
	return r
}

// page returns a new page view without a time.
func (c *sender) page(r *request, in session) *page {
	p := &page{uuid: c.uuid(), session: in.id, user: in.user, client: c.client, order: c.pages, request: r}
	if c.rng.IntN(4) == 0 {
		p.email = emailOf(in.user)
	}
	c.pages++
	return p
}

func (c *sender) uuid() string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(c.rng.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

func (c *sender) old() *page {
	pages := c.sent[c.rng.IntN(len(c.sent))].pages
	return pages[c.rng.IntN(len(pages))]
}

// insert puts a page somewhere between the others.
func (r *request) insert(rng *rand.Rand, p *page) {
	r.pages = slices.Insert(r.pages, rng.IntN(len(r.pages)+1), p)
}

// again returns an acknowledged request as a new one.
func (c *sender) again() *request {
	old := c.sent[c.rng.IntN(len(c.sent))]
	c.requests++
	return &request{client: c.client, number: c.requests - 1, pages: old.pages, body: old.body}
}

// fickle returns a request in a session of its own. It may come late or never without disturbing
// the order of other sessions.
func (c *sender) fickle() *request {
	return c.request([]session{{fmt.Sprintf("fickle-%d-%d", c.client, c.requests), user(c.rng.IntN(users))}})
}

// encode writes the body in one of the accepted forms.
func (r *request) encode(rng *rand.Rand) {
	events := make([]string, len(r.pages))
	for i, p := range r.pages {
		events[i] = p.encode()
	}
	r.body = strings.Join(events, ",")
	switch {
	case len(events) == 1 && rng.IntN(2) == 0:
	case rng.IntN(2) == 0:
		r.body = "[" + r.body + "]"
	default:
		r.body = `{"batch":[` + r.body + `]}`
	}
}

func (p *page) encode() string {
	email := ""
	if p.email != "" {
		email = fmt.Sprintf(`,"$set":{"email":%q}`, p.email)
	}
	return fmt.Sprintf(`{"event":"$pageview","uuid":%q,"distinct_id":%q,"timestamp":%q,"properties":{"$session_id":%q,`+
		`"$current_url":%q}%s}`,
		p.uuid, p.user, p.time(), p.session, p.url(), email)
}

// insist sends a request until it is acknowledged.
func (c *sender) insist(r *request) {
	for first := true; !c.attempt(r, c.timeout(), first); first = false {
		if !c.storm.pause(backoff(c.rng)) {
			return
		}
	}
	c.sent = append(c.sent, r)
}

// timeout returns how long to wait for an answer. An impatient sender may have its next attempt in
// flight together with this one.
func (c *sender) timeout() time.Duration {
	if c.storm.impatience > 0 && c.rng.IntN(6) == 0 {
		return time.Millisecond + upTo(c.rng, c.storm.impatience)
	}
	return c.storm.timeout
}

// tryOnce sends a request and does not wait long for its answer.
func (c *sender) tryOnce(r *request) {
	c.attempt(r, time.Millisecond+upTo(c.rng, 20*time.Millisecond), true)
}

// attempt sends a request to one of the servers and reports whether it was acknowledged. A
// forbidden answer fails the storm.
func (c *sender) attempt(r *request, timeout time.Duration, first bool) bool {
	s := c.storm
	a, where, err := s.call(c.rng, timeout, http.MethodPost, "/webhook/"+product, r.body,
		"X-PostHog-Secret: "+webhookSecret)
	if err != nil {
		s.truth.attempted(r, where, err.Error())
		return false
	}
	s.truth.attempted(r, where, a.String())
	switch {
	case a.status == http.StatusOK:
		if problem := r.judge(a.body, first); problem != "" {
			s.fail(fmt.Errorf("%s: %s; %s", where, problem, s.truth.describe(r.pages[0])))
			return false
		}
		s.truth.acknowledge(r)
		return true
	case !a.isAway():
		s.fail(fmt.Errorf("%s: request %d of client %d: %s", where, r.number, r.client, a))
	}
	return false
}

// judge returns the mistake in an acknowledgement. The first attempt must have every new event
// accepted, and a later one no more than those.
func (r *request) judge(body []byte, first bool) string {
	var counts struct{ Accepted, Ignored int }
	if err := json.Unmarshal(body, &counts); err != nil {
		return err.Error()
	}
	if counts.Accepted+counts.Ignored != len(r.pages) || counts.Accepted > r.fresh || first && counts.Accepted != r.fresh {
		return fmt.Sprintf("of %d events %d are new, but the answer is %s", len(r.pages), r.fresh, body)
	}
	return ""
}
