package zendesk

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Zendesk states its limits in the headers of its answers: the account's per minute, which
// [helpdesk.API] remembers, and one user's updates of a ticket, 30 in ten minutes. See
// https://developer.zendesk.com/documentation/ticketing/using-the-zendesk-api/best-practices-for-avoiding-rate-limiting

// maxPaced is the maximum number of waiting tickets that are remembered. Only
// busy tickets have to wait, and a forgotten one gets a 429 that restores it.
const maxPaced = 4096

// Pause implements [helpdesk.Pacer]. An empty ID means the account.
func (c *Client) Pause(ticketID string) time.Duration {
	until, _ := c.paced.Get(ticketID)
	return max(time.Until(until), c.api.Pause())
}

// maxUpdates is how many updates of tickets most accounts accept in a minute. No answer states it.
const maxUpdates = 100

// Rate implements [helpdesk.Pacer].
func (c *Client) Rate() (requests int, window time.Duration) {
	return min(cmp.Or(c.api.Rate(), maxUpdates), maxUpdates), time.Minute
}

// limits returns the account's limits that an answer states, and records the ticket's.
func (c *Client) limits(r helpdesk.Request, header http.Header) []helpdesk.Limit {
	limits := readLimits(header)
	c.delay(r.ConversationID, limits.ticketPause())
	return limits.account
}

// delay records that a ticket has to wait; the newest wait replaces the previous one. It
// ignores an empty ID or a wait of zero.
func (c *Client) delay(ticketID string, wait time.Duration) {
	if ticketID != "" && wait > 0 {
		c.paced.Add(ticketID, time.Now().Add(wait))
	}
}

// maxAsked bounds the pause that an answer can ask for.
const maxAsked = time.Hour

// limits are the rate limits that an answer states.
type limits struct {
	account   []helpdesk.Limit // for all requests, and for this kind of request
	ticket    helpdesk.Limit   // for writes to this ticket
	hasTicket bool             // false leaves ticket zero
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
		all.account = append(all.account, helpdesk.Limit{Total: total, Remaining: remaining, Resets: asDuration(resets)})
	}
	for name, values := range header {
		rest, ok := strings.CutPrefix(name, "Zendesk-Ratelimit-")
		if !ok || len(values) == 0 {
			continue
		}
		switch l, ok := parseLimit(values[0]); {
		case !ok:
		case strings.HasPrefix(rest, "Per-Ticket-"):
			all.ticket, all.hasTicket = l, true
		default:
			all.account = append(all.account, l)
		}
	}
	return all
}

// parseLimit parses the value of such a header. It skips unknown parts, and reports false for a
// value without remaining.
func parseLimit(value string) (l helpdesk.Limit, ok bool) {
	for part := range strings.SplitSeq(value, ";") {
		name, digits, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			continue
		}
		switch name {
		case "total":
			l.Total = n
		case "remaining":
			l.Remaining, ok = n, true
		case "resets":
			l.Resets = asDuration(n)
		}
	}
	return l, ok
}

// asDuration returns a number of seconds, at most maxAsked.
func asDuration(seconds int) time.Duration {
	return time.Duration(min(seconds, int(maxAsked.Seconds()))) * time.Second
}

// ticketPause spreads the last third of a ticket's writes over the remaining
// time: notes become fewer and longer instead of stopping for minutes.
func (l limits) ticketPause() time.Duration {
	if l.ticket.Remaining > l.ticket.Total/3 {
		return 0
	}
	return l.ticket.Resets / time.Duration(l.ticket.Remaining+1)
}

// isTickets reports whether a 429 concerns the ticket's limit. If Zendesk does
// not state this, the wait decides: the account's limits are per minute.
func (l limits) isTickets(wait time.Duration, body string) bool {
	switch {
	case slices.ContainsFunc(l.account, func(l helpdesk.Limit) bool { return l.Remaining == 0 }):
		return false
	case l.hasTicket && l.ticket.Remaining == 0, strings.Contains(body, "single ticket"):
		return true
	}
	return wait > time.Minute
}

// wait returns how long the limit behind a 429 lasts, or zero if unknown.
func (l limits) wait(tickets bool) time.Duration {
	if tickets {
		return l.ticket.Resets
	}
	var wait time.Duration
	for _, one := range l.account {
		if one.Remaining == 0 {
			wait = max(wait, one.Resets)
		}
	}
	return wait
}
