package helpdesktest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

// IntercomOptions say what a fake Intercom is like. A zero field means its default.
type IntercomOptions struct {
	InMemory bool // no listener: it is reached by Client

	// NotesByReply takes notes at /conversations/{id}/reply only, as the
	// published API documents them; by default /conversations/{id}/parts takes
	// them, too.
	NotesByReply bool
	// PlainText shows bodies as plain text, as the newer versions of the API
	// do, instead of as HTML.
	PlainText bool
	// NoEmail leaves the contact's e-mail out of webhooks: it has to be looked up.
	NoEmail bool
	// SHA256 signs webhooks in X-Hub-Signature-256; by default they are signed
	// in X-Hub-Signature, by SHA-1, as Intercom does today.
	SHA256 bool
	// RateLimit is how many requests are answered in each span of ten seconds;
	// 1666, which makes 10,000 a minute. Negative means any number.
	RateLimit int
}

// Intercom is a fake of the part of Intercom that a help desk uses: contacts,
// conversations with their notes, replies and quick replies, redaction, deletion
// and webhooks. It checks credentials, versions and bodies as Intercom does, and
// changes the markup of what is written into it.
type Intercom struct {
	*Server
	opts IntercomOptions

	mu            sync.Mutex
	lastID        int
	contacts      map[string]IntercomContact
	conversations map[string]*intercomConversation
	window        int64 // the span of ten seconds that used counts in
	used          int
}

// The credentials of every fake Intercom, and the ids of its teammates: that of
// the access token, and another one.
const (
	intercomToken  = "intercom-access-token"
	intercomSecret = "intercom-client-secret"
	intercomAdmin  = "1001"
	intercomAgent  = "1002"
)

// NewIntercom starts a fake Intercom. The options may be nil.
func NewIntercom(opts *IntercomOptions) *Intercom {
	f := &Intercom{lastID: 1000, contacts: map[string]IntercomContact{}, conversations: map[string]*intercomConversation{}}
	if opts != nil {
		f.opts = *opts
	}
	f.opts.RateLimit = cmp.Or(f.opts.RateLimit, 1666)
	f.Server = newServer("intercom", f.opts.InMemory, f.handler(), func(status int) string { return intercomError(status).Error() })
	return f
}

// Config returns the configuration that this Intercom accepts.
func (f *Intercom) Config() intercom.Config {
	return intercom.Config{BaseURL: f.URL(), AccessToken: intercomToken, AdminID: intercomAdmin, ClientSecret: intercomSecret}
}

// IntercomContact is who a conversation is with.
type IntercomContact struct{ Email, ExternalID string }

// IntercomPart is something in a conversation.
type IntercomPart struct {
	ID       string
	Type     string // "note", "comment", "quick_reply" or "open"
	AuthorID string
	Body     string // as Intercom shows it, which is not as it was sent
	Text     string // what a person sees, line by line
	Labels   []string
	Redacted bool
	At       time.Time
}

type intercomConversation struct {
	id, contactID string
	createdAt     time.Time
	text          string // the contact's first message
	closed        bool
	parts         []IntercomPart
}

// newID returns an id that is larger than all before.
func (f *Intercom) newID() string {
	f.lastID++
	return strconv.Itoa(f.lastID)
}

// NewConversation begins a conversation with a first message of a contact's, and
// returns its id. Created makes the webhook about it.
func (f *Intercom) NewConversation(contact IntercomContact, text string) (conversationID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	contactID := fmt.Sprintf("%024x", f.lastID)
	f.contacts[contactID] = contact
	c := &intercomConversation{id: f.newID(), contactID: contactID, createdAt: time.Now(), text: text}
	f.conversations[c.id] = c
	return c.id
}

// Say adds a message of the contact's. A conversation that was closed is open
// then. Replied makes the webhook about it.
func (f *Intercom) Say(conversationID, text string) {
	f.change(conversationID, func(c *intercomConversation) {
		partType := "comment"
		if c.closed {
			partType, c.closed = "open", false
		}
		f.add(c, partType, c.contactID, intercomHTML(text), nil)
	})
}

// Answer adds a message of another teammate than the one of the access token.
func (f *Intercom) Answer(conversationID, text string) {
	f.change(conversationID, func(c *intercomConversation) { f.add(c, "comment", intercomAgent, intercomHTML(text), nil) })
}

// CloseConversation closes a conversation.
func (f *Intercom) CloseConversation(conversationID string) {
	f.change(conversationID, func(c *intercomConversation) { c.closed = true })
}

// Delete deletes a conversation.
func (f *Intercom) Delete(conversationID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conversations, conversationID)
}

// Exists reports whether there is a conversation with this id.
func (f *Intercom) Exists(conversationID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conversations[conversationID] != nil
}

// Parts returns what was written into a conversation after the first message, in
// the order in which it was.
func (f *Intercom) Parts(conversationID string) (parts []IntercomPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.conversations[conversationID]; c != nil {
		parts = slices.Clone(c.parts)
	}
	return parts
}

// Notes returns what an agent sees of the notes of a conversation, in the order in
// which they were written, without those that were redacted.
func (f *Intercom) Notes(conversationID string) (texts []string) {
	for _, p := range f.Parts(conversationID) {
		if p.Type == "note" && !p.Redacted {
			texts = append(texts, p.Text)
		}
	}
	return texts
}

// change changes a conversation, if there is one with this id.
func (f *Intercom) change(conversationID string, change func(*intercomConversation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.conversations[conversationID]; c != nil {
		change(c)
	}
}

func (f *Intercom) add(c *intercomConversation, partType, authorID, body string, labels []string) IntercomPart {
	p := IntercomPart{ID: f.newID(), Type: partType, AuthorID: authorID, Labels: labels, At: time.Now()}
	f.setBody(&p, body)
	c.parts = append(c.parts, p)
	return p
}

// setBody sets the body of a part to HTML, or what that shows.
func (f *Intercom) setBody(p *IntercomPart, html string) {
	p.Body, p.Text = html, intercomText(html)
	if f.opts.PlainText {
		p.Body = p.Text
	}
}

// Created returns the webhook about the beginning of a conversation, ready to be
// sent to the URL. Each call makes a delivery of its own; Intercom may repeat one.
func (f *Intercom) Created(url, conversationID string) *http.Request {
	return f.notify(url, "conversation.user.created", conversationID)
}

// Replied returns the webhook about the contact's latest message.
func (f *Intercom) Replied(url, conversationID string) *http.Request {
	return f.notify(url, "conversation.user.replied", conversationID)
}

// Ping returns the webhook that tests the URL.
func (f *Intercom) Ping(url string) *http.Request { return f.notify(url, "ping", "") }

// notify returns a webhook of a topic.
func (f *Intercom) notify(url, topic, conversationID string) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var item any = object{"type": "ping", "message": "something something interzen"}
	if c := f.conversations[conversationID]; c != nil {
		latest := slices.DeleteFunc(slices.Clone(c.parts), func(p IntercomPart) bool { return p.AuthorID != c.contactID })
		if n := len(latest); n > 0 {
			latest = latest[n-1:]
		}
		if topic == "conversation.user.created" {
			latest = nil
		}
		item = f.show(c, latest, !f.opts.NoEmail)
	}
	body, _ := json.Marshal(object{"type": "notification_event", "app_id": "fake", "id": "notif_" + uuid.NewString(), "topic": topic,
		"created_at": time.Now().Unix(), "first_sent_at": time.Now().Unix(), "delivery_attempts": 1, "delivery_status": "pending",
		"data": object{"type": "notification_event_data", "item": item}})
	return f.Signed(url, body)
}

// Signed returns a webhook with this body, signed.
func (f *Intercom) Signed(url string, body []byte) *http.Request {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		panic("helpdesktest: " + err.Error())
	}
	r.Header.Set("Content-Type", "application/json")
	if f.opts.SHA256 {
		r.Header.Set(intercom.SignatureHeader, intercom.Sign(body, intercomSecret))
	} else {
		r.Header.Set(intercom.SignatureHeaderSHA1, intercom.SignSHA1(body, intercomSecret))
	}
	return r
}

// object is a JSON object.
type object map[string]any

// show returns a conversation, with these of its parts, as the API shows it.
func (f *Intercom) show(c *intercomConversation, parts []IntercomPart, email bool) object {
	shown := []object{}
	for _, p := range parts {
		shown = append(shown, object{"type": "conversation_part", "id": p.ID, "part_type": p.Type, "body": p.Body, "created_at": p.At.Unix(),
			"updated_at": p.At.Unix(), "notified_at": p.At.Unix(), "author": f.author(p.AuthorID, email), "attachments": []any{}, "redacted": p.Redacted})
	}
	state := "open"
	if c.closed {
		state = "closed"
	}
	body := intercomHTML(c.text)
	if f.opts.PlainText {
		body = c.text
	}
	return object{"type": "conversation", "id": c.id, "created_at": c.createdAt.Unix(), "updated_at": time.Now().Unix(), "open": !c.closed, "state": state,
		"source": object{"type": "conversation", "id": "s" + c.id, "delivered_as": "customer_initiated", "body": body, "author": f.author(c.contactID, email), "redacted": false},
		"contacts": object{"type": "contact.list", "contacts": []object{
			{"type": "contact", "id": c.contactID, "external_id": orNull(f.contacts[c.contactID].ExternalID)}}},
		"conversation_parts": object{"type": "conversation_part.list", "conversation_parts": shown, "total_count": len(shown)}}
}

func (f *Intercom) author(id string, email bool) object {
	contact, ok := f.contacts[id]
	switch {
	case !ok:
		return object{"type": "admin", "id": id, "name": "Teammate " + id, "email": "teammate" + id + "@desk.example"}
	case !email:
		return object{"type": "user", "id": id, "name": nil, "email": nil}
	}
	return object{"type": "user", "id": id, "name": nil, "email": orNull(contact.Email)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// apiError is an error as Intercom answers it.
type apiError struct {
	status        int
	code, message string
}

// Error returns the body of the answer.
func (e *apiError) Error() string {
	body, _ := json.Marshal(object{"type": "error.list", "request_id": uuid.NewString(), "errors": []object{{"code": e.code, "message": e.message}}})
	return string(body)
}

// intercomError returns what Intercom says with a status.
func intercomError(status int) *apiError {
	e, ok := map[int]apiError{
		http.StatusUnauthorized:    {code: "unauthorized", message: "Access Token Invalid"},
		http.StatusForbidden:       {code: "api_plan_restricted", message: "Active subscription needed."},
		http.StatusNotFound:        {code: "not_found", message: "Resource Not Found"},
		http.StatusConflict:        {code: "conflict", message: "The resource is being changed by another request"},
		http.StatusTooManyRequests: {code: "rate_limit_exceeded", message: "The rate limit for the App has been exceeded"},
	}[status]
	switch {
	case ok:
	case status >= 500:
		e = apiError{code: "server_error", message: "Server Error"}
	default:
		e = apiError{code: "parameter_invalid", message: http.StatusText(status)}
	}
	e.status = status
	return &e
}

// handler answers the API's requests.
func (f *Intercom) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { f.serveAPI(w, r, answer) })
	}
	handle("GET /me", f.me)
	handle("GET /admins/{id}", f.showAdmin)
	handle("GET /contacts", f.listContacts)
	handle("GET /contacts/{id}", f.showContact)
	handle("GET /conversations", f.listConversations)
	handle("GET /conversations/{id}", f.showConversation)
	handle("DELETE /conversations/{id}", f.deleteConversation)
	handle("POST /conversations/{id}/parts", f.postPart)
	handle("POST /conversations/{id}/reply", f.postReply)
	handle("POST /conversations/redact", f.redact)
	handle("/", func(*http.Request) (any, error) { return nil, intercomError(http.StatusNotFound) })
	return mux
}

// serveAPI answers a request, once it has passed what is the same for all.
func (f *Intercom) serveAPI(w http.ResponseWriter, r *http.Request, answer func(r *http.Request) (any, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var body any
	err := f.admit(w.Header(), r)
	if err == nil {
		body, err = answer(r)
	}
	var failed *apiError
	if errors.As(err, &failed) {
		w.WriteHeader(failed.status)
		_, _ = w.Write([]byte(failed.Error()))
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

// rateWindow is what a rate limit counts in, in seconds.
const rateWindow = 10

// admit checks a request's credentials, version and rate.
func (f *Intercom) admit(answer http.Header, r *http.Request) error {
	if r.Header.Get("Authorization") != "Bearer "+intercomToken {
		return intercomError(http.StatusUnauthorized)
	}
	if window := time.Now().Unix() / rateWindow; window != f.window {
		f.window, f.used = window, 0
	}
	if limit := f.opts.RateLimit; limit > 0 {
		f.used++
		answer.Set("X-RateLimit-Limit", strconv.Itoa(limit))
		answer.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, limit-f.used)))
		answer.Set("X-RateLimit-Reset", strconv.FormatInt((f.window+1)*rateWindow, 10))
		if f.used > limit {
			return intercomError(http.StatusTooManyRequests)
		}
	}
	switch {
	case r.Header.Get("Accept") != "application/json":
		return &apiError{http.StatusNotAcceptable, "media_type_not_acceptable", "The Accept header should send a media type of application/json"}
	case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
		return &apiError{http.StatusUnsupportedMediaType, "content_type_not_supported", "The Content-Type header should send a media type of application/json"}
	case intercomVersion(r) < 0:
		return &apiError{http.StatusBadRequest, "intercom_version_invalid", "The requested version could not be found"}
	}
	return nil
}

// intercomVersions are those of the API, in their order.
var intercomVersions = []string{"2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15", "2.16", "Unstable"}

// intercomVersion returns the place of a request's version in their order, -1
// without a known one.
func intercomVersion(r *http.Request) int {
	return slices.Index(intercomVersions, r.Header.Get("Intercom-Version"))
}

// The functions below answer one kind of request each, with f.mu held.

func (f *Intercom) me(*http.Request) (any, error) {
	return object{"type": "admin", "id": intercomAdmin, "name": "Teammate " + intercomAdmin, "email_verified": true, "has_inbox_seat": true,
		"app": object{"type": "app", "id_code": "fake", "name": "Fake workspace", "region": "US"}}, nil
}

func (f *Intercom) showAdmin(r *http.Request) (any, error) {
	if id := r.PathValue("id"); isIntercomAdmin(id) {
		return object{"type": "admin", "id": id, "name": "Teammate " + id, "has_inbox_seat": true}, nil
	}
	return nil, errNoAdmin
}

func isIntercomAdmin(id string) bool { return id == intercomAdmin || id == intercomAgent }

var errNoAdmin = &apiError{http.StatusNotFound, "admin_not_found", "Admin for admin_id not found"}

func (f *Intercom) listContacts(*http.Request) (any, error) {
	return object{"type": "list", "data": []any{}, "total_count": len(f.contacts)}, nil
}

func (f *Intercom) showContact(r *http.Request) (any, error) {
	id := r.PathValue("id")
	contact, ok := f.contacts[id]
	if !ok {
		return nil, intercomError(http.StatusNotFound)
	}
	return object{"type": "contact", "id": id, "role": "user", "email": orNull(contact.Email), "external_id": orNull(contact.ExternalID)}, nil
}

func (f *Intercom) listConversations(*http.Request) (any, error) {
	return object{"type": "conversation.list", "conversations": []any{}, "total_count": len(f.conversations)}, nil
}

// find returns the conversation that a request is about.
func (f *Intercom) find(r *http.Request) (*intercomConversation, error) {
	if c := f.conversations[r.PathValue("id")]; c != nil {
		return c, nil
	}
	return nil, intercomError(http.StatusNotFound)
}

// maxIntercomParts is how many parts of a conversation are shown.
const maxIntercomParts = 500

func (f *Intercom) showConversation(r *http.Request) (any, error) {
	c, err := f.find(r)
	if err != nil {
		return nil, err
	}
	return f.show(c, c.parts[max(0, len(c.parts)-maxIntercomParts):], true), nil
}

func (f *Intercom) deleteConversation(r *http.Request) (any, error) {
	if retain := r.URL.Query().Get("retain_metrics"); retain != "" && retain != "true" && retain != "false" {
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "retain_metrics must be a boolean"}
	}
	c, err := f.find(r)
	if err != nil || intercomVersion(r) < slices.Index(intercomVersions, "2.15") {
		return nil, intercomError(http.StatusNotFound)
	}
	delete(f.conversations, c.id)
	return object{"id": c.id, "object": "conversation", "deleted": true}, nil
}

// intercomMessage is the body of a request that writes.
type intercomMessage struct {
	Type         string  `json:"type"`
	AdminID      string  `json:"admin_id"`
	MessageType  string  `json:"message_type"`
	Body         *string `json:"body"`
	ReplyOptions []struct {
		Text string    `json:"text"`
		UUID uuid.UUID `json:"uuid"`
	} `json:"reply_options"`
}

func (f *Intercom) postPart(r *http.Request) (any, error) {
	return f.write(r, func(m intercomMessage) bool { return m.MessageType == "note" && !f.opts.NotesByReply })
}

func (f *Intercom) postReply(r *http.Request) (any, error) {
	return f.write(r, func(m intercomMessage) bool {
		return m.MessageType == "note" || m.MessageType == "comment" || m.MessageType == "quick_reply" && r.Header.Get("Intercom-Version") == "Unstable"
	})
}

// write adds a part, unless it is of a type that is not taken.
func (f *Intercom) write(r *http.Request, takes func(intercomMessage) bool) (any, error) {
	var m intercomMessage
	if err := decodeStrictly(r, &m); err != nil {
		return nil, err
	}
	c, err := f.find(r)
	var labels []string
	for _, option := range m.ReplyOptions {
		labels = append(labels, option.Text)
	}
	switch {
	case err != nil:
		return nil, err
	case !takes(m):
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "message_type is invalid"}
	case m.Type != "admin":
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "type must be admin"}
	case m.Body == nil || m.MessageType != "quick_reply" && *m.Body == "":
		return nil, &apiError{http.StatusBadRequest, "parameter_not_found", "body is required"}
	case (m.MessageType == "quick_reply") != (m.ReplyOptions != nil) || len(labels) > helpdesk.MaxLabels || slices.Contains(labels, ""):
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "reply_options is invalid"}
	case !isIntercomAdmin(m.AdminID):
		return nil, errNoAdmin
	}
	part := f.add(c, m.MessageType, m.AdminID, sanitize(*m.Body), labels)
	return f.show(c, []IntercomPart{part}, true), nil
}

func (f *Intercom) redact(r *http.Request) (any, error) {
	var b struct {
		Type   string `json:"type"`
		ID     string `json:"conversation_id"`
		PartID string `json:"conversation_part_id"`
	}
	if err := decodeStrictly(r, &b); err != nil {
		return nil, err
	}
	if b.Type != "conversation_part" {
		return nil, &apiError{http.StatusBadRequest, "parameter_invalid", "type is invalid"}
	}
	if c := f.conversations[b.ID]; c != nil {
		for i := range c.parts {
			if p := &c.parts[i]; p.ID == b.PartID {
				p.Redacted = true
				f.setBody(p, "<p><i>This message was deleted</i></p>")
				return f.show(c, c.parts[i:i+1], true), nil
			}
		}
	}
	return nil, &apiError{http.StatusNotFound, "conversation_part_or_message_not_found", "Conversation part or message not found"}
}

// decodeStrictly decodes a request's body, which must have no other fields and no
// other types.
func decodeStrictly(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &apiError{http.StatusBadRequest, "parameter_invalid", err.Error()}
	}
	return nil
}
