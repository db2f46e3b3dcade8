package zendesk

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// pace remembers how long to wait before the next write. It is safe for concurrent
// use.
//
// Zendesk states its limits in the headers of its answers: of the account by the minute, and of
// the updates of a ticket by one user, 30 in ten minutes. See
// https://developer.zendesk.com/documentation/ticketing/using-the-zendesk-api/best-practices-for-avoiding-rate-limiting/
type pace struct {
	// mu guards the fields below. Of a time, no request is made before it.
	mu      sync.Mutex
	account time.Time
	total   int // requests of the account in a minute; zero while unknown
	tickets *lru.Cache[string, time.Time]
}

// maxPaced is how many tickets are remembered that have to wait. Only busy ones
// have, and one that was forgotten is reminded by a 429.
const maxPaced = 4096

// newPace returns a pace that has seen no answer: nothing has to wait.
func newPace() *pace {
	tickets, err := lru.New[string, time.Time](maxPaced)
	if err != nil {
		panic(err) // for a size that is not positive
	}
	return &pace{tickets: tickets}
}

// pause returns how long a write into the ticket has to wait, or any request where the ID is
// empty.
func (p *pace) pause(ticketID string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.account
	if own, ok := p.tickets.Get(ticketID); ok && own.After(until) {
		until = own
	}
	return max(0, until.Sub(now))
}

// observe takes the limits from an answer. The ticket is the one written to, or empty. The pause
// of the account only grows; the ticket's newest one counts. Of several limits of the account the
// lowest is its rate: it is the one that is hit first.
func (p *pace) observe(ticketID string, header http.Header, now time.Time) {
	limits := readLimits(header)
	p.limited(ticketID, limits.ticketPause(), now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(limits.accountPause()); until.After(p.account) {
		p.account = until
	}
	for i, one := range limits.account {
		if one.total > 0 && (i == 0 || p.total == 0 || one.total < p.total) {
			p.total = one.total
		}
	}
}

// rate returns the account's limit, which is by the minute.
func (p *pace) rate() (requests int, window time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total, time.Minute
}

// limited takes in that a ticket has to wait. An empty ID or no wait changes nothing.
func (p *pace) limited(ticketID string, wait time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ticketID != "" && wait > 0 {
		p.tickets.Add(ticketID, now.Add(wait))
	}
}

// maxAsked bounds the pause that an answer can ask for.
const maxAsked = time.Hour

// limit is one rate limit, as an answer states it: so many requests in all, so many of them left,
// and how long after the answer it begins anew. The zero limit is not known.
type limit struct {
	known            bool
	total, remaining int
	resets           time.Duration
}

// limits are the rate limits that an answer states.
type limits struct {
	account []limit // all requests, and this kind of request
	ticket  limit   // writes into this ticket
}

// readLimits reads x-rate-limit, ratelimit-* and headers of the form
//
//	zendesk-ratelimit-per-ticket-updates: total=30; remaining=29; resets=468
func readLimits(header http.Header) limits {
	var all limits
	number := func(names ...string) (int, bool) {
		for _, name := range names {
			if n, err := strconv.Atoi(header.Get(name)); err == nil && n >= 0 {
				return n, true
			}
		}
		return 0, false
	}
	if remaining, ok := number("Ratelimit-Remaining", "X-Rate-Limit-Remaining"); ok {
		total, _ := number("Ratelimit-Limit", "X-Rate-Limit")
		resets, _ := number("Ratelimit-Reset", "X-Rate-Limit-Reset")
		all.account = append(all.account, limit{true, total, remaining, asDuration(resets)})
	}
	for name, values := range header {
		rest, ok := strings.CutPrefix(name, "Zendesk-Ratelimit-")
		if !ok || len(values) == 0 {
			continue
		}
		switch l := parseLimit(values[0]); {
		case !l.known:
		case strings.HasPrefix(rest, "Per-Ticket-"):
			all.ticket = l
		default:
			all.account = append(all.account, l)
		}
	}
	return all
}

// parseLimit parses the value of such a header. Parts that it does not know are passed over;
// without remaining the limit is not known.
func parseLimit(value string) limit {
	var l limit
	for part := range strings.SplitSeq(value, ";") {
		name, digits, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			continue
		}
		switch name {
		case "total":
			l.total = n
		case "remaining":
			l.remaining, l.known = n, true
		case "resets":
			l.resets = asDuration(n)
		}
	}
	return l
}

// asDuration returns a number of seconds, at most maxAsked.
func asDuration(seconds int) time.Duration {
	return time.Duration(min(seconds, int(maxAsked.Seconds()))) * time.Second
}

// accountPause leaves a twentieth of the account's limits to others, such as the
// desk's own people and other integrations. It is zero while more is left.
func (l limits) accountPause() time.Duration {
	var pause time.Duration
	for _, one := range l.account {
		if one.remaining <= one.total/20 {
			pause = max(pause, one.resets)
		}
	}
	return pause
}

// ticketPause spreads the last third of a ticket's writes over the rest of the
// time: notes become fewer and longer instead of stopping for minutes.
func (l limits) ticketPause() time.Duration {
	if !l.ticket.known || l.ticket.remaining > l.ticket.total/3 {
		return 0
	}
	return l.ticket.resets / time.Duration(l.ticket.remaining+1)
}

// isTickets reports whether it is the limit of the ticket that a 429 is about.
// Where Zendesk does not say so, the time gives it away: the account's limits are
// by the minute.
func (l limits) isTickets(wait time.Duration, body string) bool {
	spent := func(one limit) bool { return one.known && one.remaining == 0 }
	switch {
	case slices.ContainsFunc(l.account, spent):
		return false
	case spent(l.ticket), strings.Contains(body, "single ticket"):
		return true
	}
	return wait > time.Minute
}

// wait returns how long the limit lasts that a 429 is about, zero if unknown.
func (l limits) wait(tickets bool) time.Duration {
	if tickets {
		return l.ticket.resets
	}
	var wait time.Duration
	for _, one := range l.account {
		if one.remaining == 0 {
			wait = max(wait, one.resets)
		}
	}
	return wait
}
