package helpdesktest

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The credentials that a [Zendesk] accepts.
const (
	ZendeskEmail         = "bot@acme.example"
	ZendeskAPIToken      = "zendesk-api-token"
	ZendeskOAuthToken    = "zendesk-oauth-token" // never expires
	ZendeskClientID      = "zendesk-client"
	ZendeskClientSecret  = "zendesk-client-secret"
	ZendeskSigningSecret = "zendesk-signing-secret" // for webhooks not created through the API
)

// The default limits of a [Zendesk], the same as for most accounts.
const (
	DefaultRequestsPerMinute = 700
	DefaultUpdatesPerMinute  = 100 // over all tickets
	DefaultUpdatesPerTicket  = 30  // per ten minutes
	DefaultTokenLifetime     = 2 * time.Hour
)

// ZendeskOptions configures a [Zendesk]. A zero field means its default, and a
// negative limit means none.
type ZendeskOptions struct {
	InMemory bool // reachable only through Client; see the package comment

	RequestsPerMinute int           // DefaultRequestsPerMinute
	UpdatesPerMinute  int           // DefaultUpdatesPerMinute
	UpdatesPerTicket  int           // DefaultUpdatesPerTicket
	TokenLifetime     time.Duration // of the OAuth client's tokens; DefaultTokenLifetime

	// Agent makes the credentials belong to an agent instead of an administrator:
	// they may neither set up webhooks nor delete tickets and users.
	Agent bool
	// MayRedact grants the right to redact comments.
	MayRedact bool
	// Messaging makes all tickets come from messaging: their public comments are
	// not listed.
	Messaging bool
	// RawMessages puts messages into webhooks without escaping them as JSON.
	RawMessages bool
}

// Zendesk is a fake Zendesk account. It checks credentials and requests, limits rates, cleans HTML
// and expands placeholders in comments, as the real one is known to do. Its methods are safe for
// concurrent use.
type Zendesk struct {
	*Server
	opts ZendeskOptions

	mu       sync.Mutex
	lastID   int64
	users    map[int64]*zendeskUser
	tickets  map[int64]*zendeskTicket
	webhooks []*zendeskWebhook
	triggers []*zendeskTrigger
	tokens   map[string]time.Time // issued tokens and their expiry
	minted   int
	requests window
	updates  window
	header   http.Header // of the answer being made
}

type zendeskUser struct {
	id          int64
	email, role string
}

type zendeskTicket struct {
	id        int64
	requester *zendeskUser
	status    string
	comments  []Comment
	updates   window
}

type zendeskWebhook struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Endpoint      string   `json:"endpoint"`
	HTTPMethod    string   `json:"http_method"`
	RequestFormat string   `json:"request_format"`
	Status        string   `json:"status"`
	Subscriptions []string `json:"subscriptions"`
	secret        string
}

type zendeskTrigger struct {
	ID         int64  `json:"id"`
	Title      string `json:"title"`
	Active     bool   `json:"active"`
	Conditions struct {
		All []map[string]string `json:"all"`
		Any []any               `json:"any"`
	} `json:"conditions"`
	Actions []struct {
		Field string   `json:"field"`
		Value []string `json:"value"`
	} `json:"actions"`
}

// firstID is near the IDs of real accounts, which do not fit into 32 bits.
const firstID = 23_000_000_000_000

// NewZendesk returns an account without tickets. Close it, unless it is in memory.
func NewZendesk(opts *ZendeskOptions) *Zendesk {
	z := &Zendesk{lastID: firstID, users: map[int64]*zendeskUser{}, tickets: map[int64]*zendeskTicket{},
		tokens: map[string]time.Time{}}
	z.opts = *cmp.Or(opts, &ZendeskOptions{})
	z.opts.TokenLifetime = cmp.Or(z.opts.TokenLifetime, DefaultTokenLifetime)
	z.requests = window{limit: cmp.Or(z.opts.RequestsPerMinute, DefaultRequestsPerMinute), length: time.Minute}
	z.updates = window{limit: cmp.Or(z.opts.UpdatesPerMinute, DefaultUpdatesPerMinute), length: time.Minute}
	role := "admin"
	if z.opts.Agent {
		role = "agent"
	}
	z.userOf(ZendeskEmail, role)
	z.Server = NewServer(z.handler(), &ServerOptions{InMemory: z.opts.InMemory, Name: "zendesk",
		ErrorBody: zendeskError})
	return z
}

// Config returns an integration_config with the API token of the account.
func (z *Zendesk) Config() json.RawMessage {
	return mustMarshal(map[string]string{
		"base_url": z.URL(), "email": ZendeskEmail, "api_token": ZendeskAPIToken, "signing_secret": ZendeskSigningSecret,
	})
}

// Comment is a comment of a ticket.
type Comment struct {
	ID     string
	Author string // an email address
	Public bool
	HTML   string // as stored
	Text   string // as an agent sees it, with line breaks
	At     time.Time

	authorID int64
}

// Comments returns a ticket's comments in the order in which they were written. The first is the
// requester's message. A missing ticket has none.
func (z *Zendesk) Comments(ticketID string) []Comment {
	z.mu.Lock()
	defer z.mu.Unlock()
	if ticket := z.ticket(ticketID); ticket != nil {
		return slices.Clone(ticket.comments)
	}
	return nil
}

// Notes returns the texts of a ticket's internal notes that were written
// through the API, in order.
func (z *Zendesk) Notes(ticketID string) []string {
	var all []string
	for _, c := range z.Comments(ticketID) {
		if !c.Public && c.Author == ZendeskEmail {
			all = append(all, c.Text)
		}
	}
	return all
}

// NewTicket makes a ticket with a message from the requester. It returns the ticket's ID and
// the signed request with which a trigger reports it to the target, such as
// "https://hooks.example/chatbot-webhook/acme".
func (z *Zendesk) NewTicket(target, email, message string) (ticketID string, webhook *http.Request) {
	z.mu.Lock()
	defer z.mu.Unlock()
	ticket := z.open(email, asHTML(message))
	id := strconv.FormatInt(ticket.id, 10)
	body := fmt.Sprintf(`{"ticket_id": "%s", "requester_email": %s, "trigger_type": "new_ticket"}`, id, quoted(email))
	return id, z.sign(target, []byte(body))
}

func (z *Zendesk) open(email, html string) *zendeskTicket {
	ticket := &zendeskTicket{id: z.nextID(), requester: z.userOf(email, "end-user"), status: "new"}
	ticket.updates = window{limit: cmp.Or(z.opts.UpdatesPerTicket, DefaultUpdatesPerTicket), length: 10 * time.Minute}
	z.tickets[ticket.id] = ticket
	z.write(ticket, ticket.requester, html, true)
	return ticket
}

// Left returns the numbers of the tickets that are neither solved nor deleted, and of the end users.
func (z *Zendesk) Left() (tickets, users int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, ticket := range z.tickets {
		if ticket.status != "solved" {
			tickets++
		}
	}
	for _, u := range z.users {
		if u.role == "end-user" {
			users++
		}
	}
	return tickets, users
}

// UserReply writes a public comment by the requester, and returns the signed request with which a
// trigger reports it to the target. It panics if the ticket does not exist.
func (z *Zendesk) UserReply(target, ticketID, message string) *http.Request {
	return z.reply(target, ticketID, message, false)
}

// AgentReply writes a public comment by an agent and returns the request that a trigger with no
// condition on roles would make. It panics if the ticket does not exist.
func (z *Zendesk) AgentReply(target, ticketID, message string) *http.Request {
	return z.reply(target, ticketID, message, true)
}

// Webhook returns a signed request with the given body.
func (z *Zendesk) Webhook(target string, body []byte) *http.Request {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.sign(target, body)
}

// SetStatus changes the status of a ticket, such as to "solved" or "closed". It panics if the
// ticket does not exist.
func (z *Zendesk) SetStatus(ticketID, status string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	must(z.ticket, ticketID).status = status
}

// DeleteTicket removes a ticket.
func (z *Zendesk) DeleteTicket(ticketID string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.tickets, must(z.ticket, ticketID).id)
}

// ExpireTokens expires the OAuth client's tokens.
func (z *Zendesk) ExpireTokens() {
	z.mu.Lock()
	defer z.mu.Unlock()
	clear(z.tokens)
}

// Minted returns how many tokens the OAuth client has received.
func (z *Zendesk) Minted() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.minted
}

func (z *Zendesk) reply(target, ticketID, message string, byAgent bool) *http.Request {
	z.mu.Lock()
	defer z.mu.Unlock()
	ticket := must(z.ticket, ticketID)
	author := ticket.requester
	if byAgent {
		author = z.userOf("agent@acme.example", "agent")
	}
	z.write(ticket, author, asHTML(message), true)
	value := quoted(message)
	if z.opts.RawMessages {
		value = `"` + message + `"`
	}
	return z.sign(target, fmt.Appendf(nil,
		`{"ticket_id": "%d", "requester_email": %s, "trigger_type": "user_reply", "user_message": %s}`,
		ticket.id, quoted(ticket.requester.email), value))
}

// sign returns a webhook signed as Zendesk signs it.
func (z *Zendesk) sign(target string, body []byte) *http.Request {
	r, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		panic(err) // the target is not a URL
	}
	secret, webhookID := ZendeskSigningSecret, "01HWEBHOOK"
	if hook := first(z.webhooks, func(w *zendeskWebhook) bool { return w.Endpoint == target }); hook != nil {
		secret, webhookID = hook.secret, hook.ID
	}
	stamp := time.Now().UTC().Format(time.RFC3339)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp))
	_, _ = mac.Write(body)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("User-Agent", "Zendesk Webhook")
	r.Header.Set("X-Zendesk-Account-Id", "20000001")
	r.Header.Set("X-Zendesk-Webhook-Id", webhookID)
	r.Header.Set("X-Zendesk-Webhook-Invocation-Id", fmt.Sprintf("01H%d", z.nextID()))
	r.Header.Set("X-Zendesk-Webhook-Signature-Timestamp", stamp)
	r.Header.Set("X-Zendesk-Webhook-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return r
}

func quoted(s string) string { return string(mustMarshal(s)) }

func (z *Zendesk) nextID() int64 {
	z.lastID++
	return z.lastID
}

func (z *Zendesk) userOf(email, role string) *zendeskUser {
	for _, u := range z.users {
		if strings.EqualFold(u.email, email) {
			return u
		}
	}
	u := &zendeskUser{z.nextID(), email, role}
	z.users[u.id] = u
	return u
}

// number returns a numeric ID, or zero, which is none.
func number(id string) int64 {
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}

// ticket returns the ticket with this ID, or nil. So do user, webhook and trigger.
func (z *Zendesk) ticket(id string) *zendeskTicket { return z.tickets[number(id)] }

func (z *Zendesk) user(id string) *zendeskUser { return z.users[number(id)] }

func (z *Zendesk) webhook(id string) *zendeskWebhook {
	return first(z.webhooks, func(w *zendeskWebhook) bool { return w.ID == id })
}

func (z *Zendesk) trigger(id string) *zendeskTrigger {
	return first(z.triggers, func(t *zendeskTrigger) bool { return t.ID == number(id) })
}

// first returns the first element that satisfies is, or nil.
func first[T any](all []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return nil
}

func (z *Zendesk) write(ticket *zendeskTicket, author *zendeskUser, html string, public bool) Comment {
	c := Comment{ID: strconv.FormatInt(z.nextID(), 10), Author: author.email, authorID: author.id, Public: public,
		At: time.Now()}
	c.setHTML(cutBytes(html, maxZendeskBody))
	ticket.comments = append(ticket.comments, c)
	return c
}

func (c *Comment) setHTML(html string) { c.HTML, c.Text = html, plainText(html) }

// window is a rate limit per time window.
type window struct {
	limit  int // negative for no limit
	length time.Duration
	ends   time.Time
	used   int
}

// take counts one use, and reports whether it is within the limit.
func (w *window) take() bool {
	if now := time.Now(); !now.Before(w.ends) {
		w.ends, w.used = now.Truncate(w.length).Add(w.length), 0
	}
	if w.limit >= 0 && w.used >= w.limit {
		return false
	}
	w.used++
	return true
}

// resets returns the seconds until the limit resets.
func (w *window) resets() int { return seconds(time.Until(w.ends)) }

func (w *window) remaining() int { return max(0, w.limit-w.used) }
