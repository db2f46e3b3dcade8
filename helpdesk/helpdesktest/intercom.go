package helpdesktest

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The credentials that an [Intercom] accepts, and the ID of the teammate who owns them.
const (
	IntercomAccessToken  = "intercom-access-token"
	IntercomAdminID      = "1001"
	IntercomClientSecret = "intercom-client-secret"

	intercomAgent = "1002" // another teammate
)

// DefaultRequestsPer10s is the default rate limit of an [Intercom], 10,000 a
// minute.
const DefaultRequestsPer10s = 1666

// IntercomOptions configures an [Intercom]. A zero field means its default.
type IntercomOptions struct {
	InMemory bool // reachable only through Client; see the package comment

	RequestsPer10s int // DefaultRequestsPer10s; negative for no limit

	// NotesByReply accepts notes only at /conversations/{id}/reply, as the
	// published API documents, and not at /conversations/{id}/parts.
	NotesByReply bool
	// PlainText shows bodies as plain text, as the newer versions of the API
	// do, instead of as HTML.
	PlainText bool
	// NoEmail omits the contact's email address from webhooks, so it has to be
	// looked up.
	NoEmail bool
	// SHA256 signs webhooks with SHA-256 in X-Hub-Signature-256; by default
	// they are signed with SHA-1 in X-Hub-Signature, as Intercom does today.
	SHA256 bool
}

// Intercom is a fake Intercom workspace: contacts, and conversations with their notes, replies
// and quick replies. It checks credentials, versions and bodies, limits rates and changes the
// markup of bodies, as the real one is known to do. Its methods are safe for concurrent use.
type Intercom struct {
	*Server
	opts IntercomOptions

	mu            sync.Mutex
	lastID        int
	contacts      map[string]*intercomContact
	conversations map[string]*intercomConversation
	requests      window
	endpoint      string // for the app's webhooks; empty for none
}

// NewIntercom returns a workspace without conversations. Close it, unless it is in
// memory.
func NewIntercom(opts *IntercomOptions) *Intercom {
	f := &Intercom{lastID: 1000, contacts: map[string]*intercomContact{},
		conversations: map[string]*intercomConversation{}}
	f.opts = *cmp.Or(opts, &IntercomOptions{})
	f.requests = window{limit: cmp.Or(f.opts.RequestsPer10s, DefaultRequestsPer10s), length: 10 * time.Second}
	f.Server = NewServer(f.handler(), &ServerOptions{InMemory: f.opts.InMemory, Name: "intercom",
		ErrorBody: func(status int) string {
			_, body := intercomRefusal(status)
			return string(mustMarshal(body))
		}})
	return f
}

// Config returns an integration_config for the workspace.
func (f *Intercom) Config() json.RawMessage {
	return mustMarshal(map[string]string{
		"base_url": f.URL(), "access_token": IntercomAccessToken, "admin_id": IntercomAdminID,
		"client_secret": IntercomClientSecret,
	})
}

// IntercomContact is the contact of a conversation.
type IntercomContact struct {
	Email, ExternalID string
	Role              string // "user" by default, or "lead"
}

type intercomContact struct {
	IntercomContact
	id string
}

// IntercomPart is a message or an action in a conversation.
type IntercomPart struct {
	ID       string
	Type     string // "note", "comment", "quick_reply" or "open"
	AuthorID string
	Body     string // as Intercom returns it, which differs from the text sent
	Text     string // as a person sees it, with line breaks
	Labels   []string
	Redacted bool
	At       time.Time
}

type intercomConversation struct {
	id, contactID string
	createdAt     time.Time
	message       string // the contact's first message
	state         string // "open" or "closed"
	parts         []IntercomPart
}

// newID returns an ID larger than all earlier ones.
func (f *Intercom) newID() string {
	f.lastID++
	return strconv.Itoa(f.lastID)
}

// Created begins a conversation with a contact's message. It returns the conversation's ID and
// the signed request with which Intercom reports it to the target, such as
// "https://hooks.example/chatbot-webhook/acme".
func (f *Intercom) Created(target string, contact IntercomContact,
	message string) (conversationID string, webhook *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.begin(f.addContact(contact).id, message)
	return c.id, f.opened(target, c)
}

// Subscribe makes the app send its webhooks to the target, such as
// "https://hooks.example/chatbot-webhook/acme", like the setting in the Developer Hub. It sends a
// webhook for each conversation that is created through the API.
func (f *Intercom) Subscribe(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoint = target
}

// Left returns the numbers of remaining conversations and contacts.
func (f *Intercom) Left() (conversations, contacts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conversations), len(f.contacts)
}

func (f *Intercom) addContact(contact IntercomContact) *intercomContact {
	f.lastID++
	added := &intercomContact{contact, fmt.Sprintf("%024x", f.lastID)}
	added.Role = cmp.Or(added.Role, "user")
	f.contacts[added.id] = added
	return added
}

func (f *Intercom) begin(contactID, message string) *intercomConversation {
	c := &intercomConversation{id: f.newID(), contactID: contactID, createdAt: time.Now(), message: message,
		state: "open"}
	f.conversations[c.id] = c
	return c
}

// opened returns the webhook for a new conversation.
func (f *Intercom) opened(target string, c *intercomConversation) *http.Request {
	return f.notify(target, "conversation.user.created", f.show(c, nil, !f.opts.NoEmail))
}

// Replied writes a message from the contact, and returns the signed request with which Intercom
// reports it to the target. It reopens a closed conversation. It panics if the conversation does
// not exist.
func (f *Intercom) Replied(target, conversationID, message string) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := must(f.conversation, conversationID)
	partType := "comment"
	if c.state == "closed" {
		partType, c.state = "open", "open"
	}
	part := f.add(c, partType, c.contactID, escaped(message), nil)
	return f.notify(target, "conversation.user.replied", f.show(c, []IntercomPart{part}, !f.opts.NoEmail))
}

// Ping returns the signed request with which Intercom tests the target.
func (f *Intercom) Ping(target string) *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notify(target, "ping", object{"type": "ping", "message": "something something interzen"})
}

// Webhook returns a signed request with the given body.
func (f *Intercom) Webhook(target string, body []byte) *http.Request {
	r, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		panic(err) // the target is not a URL
	}
	name, prefix, algorithm := "X-Hub-Signature", "sha1=", sha1.New
	if f.opts.SHA256 {
		name, prefix, algorithm = "X-Hub-Signature-256", "sha256=", sha256.New
	}
	mac := hmac.New(algorithm, []byte(IntercomClientSecret))
	_, _ = mac.Write(body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(name, prefix+hex.EncodeToString(mac.Sum(nil)))
	return r
}

// notify returns a webhook for a topic.
func (f *Intercom) notify(target, topic string, item object) *http.Request {
	now := time.Now().Unix()
	return f.Webhook(target, mustMarshal(object{"type": "notification_event", "app_id": "fake",
		"id": "notif_" + uuid.NewString(), "topic": topic,
		"created_at": now, "first_sent_at": now, "delivery_attempts": 1, "delivery_status": "pending",
		"data": object{"type": "notification_event_data", "item": item}}))
}

// AgentReply writes a message from a teammate who does not own the access token. It panics if
// the conversation does not exist.
func (f *Intercom) AgentReply(conversationID, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(must(f.conversation, conversationID), "comment", intercomAgent, escaped(message), nil)
}

// CloseConversation closes a conversation. It panics if the conversation does not exist.
func (f *Intercom) CloseConversation(conversationID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	must(f.conversation, conversationID).state = "closed"
}

// DeleteConversation removes a conversation.
func (f *Intercom) DeleteConversation(conversationID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conversations, conversationID)
}

// conversation returns the conversation with this ID, or nil.
func (f *Intercom) conversation(id string) *intercomConversation { return f.conversations[id] }

// Exists reports whether there is a conversation with this ID.
func (f *Intercom) Exists(conversationID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conversations[conversationID] != nil
}

// Parts returns a conversation's parts after the first message, oldest first.
func (f *Intercom) Parts(conversationID string) (parts []IntercomPart) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.conversations[conversationID]; c != nil {
		parts = slices.Clone(c.parts)
	}
	return parts
}

// Notes returns the texts of a conversation's notes as an agent sees them, oldest first,
// without redacted ones.
func (f *Intercom) Notes(conversationID string) (texts []string) {
	for _, p := range f.Parts(conversationID) {
		if p.Type == "note" && !p.Redacted {
			texts = append(texts, p.Text)
		}
	}
	return texts
}

// add adds a part with a body in HTML.
func (f *Intercom) add(c *intercomConversation, partType, authorID, body string, labels []string) IntercomPart {
	p := IntercomPart{ID: f.newID(), Type: partType, AuthorID: authorID, Labels: labels, At: time.Now()}
	f.setBody(&p, inParagraphs(body))
	c.parts = append(c.parts, p)
	return p
}

// setBody sets the body of a part to HTML or, with PlainText, to its text.
func (f *Intercom) setBody(p *IntercomPart, html string) {
	p.Body, p.Text = html, plainText(html)
	if f.opts.PlainText {
		p.Body = p.Text
	}
}

// show returns a conversation as the API shows it, with the given parts or the latest of them.
func (f *Intercom) show(c *intercomConversation, parts []IntercomPart, email bool) object {
	shown := []object{}
	for _, p := range parts[max(0, len(parts)-maxIntercomParts):] {
		shown = append(shown, object{"type": "conversation_part", "id": p.ID, "part_type": p.Type, "body": p.Body,
			"created_at": p.At.Unix(), "updated_at": p.At.Unix(), "notified_at": p.At.Unix(),
			"author": f.author(p.AuthorID, email), "attachments": []any{}, "redacted": p.Redacted})
	}
	contact := cmp.Or(f.contacts[c.contactID], &intercomContact{}) // it may be deleted
	body := c.message
	if !f.opts.PlainText {
		body = inParagraphs(escaped(body))
	}
	return object{"type": "conversation", "id": c.id, "created_at": c.createdAt.Unix(),
		"updated_at": time.Now().Unix(), "open": c.state == "open", "state": c.state,
		"source": object{"type": "conversation", "id": "s" + c.id, "delivered_as": "customer_initiated", "body": body,
			"author": f.author(c.contactID, email), "redacted": false},
		"contacts": object{"type": "contact.list", "contacts": []object{
			{"type": "contact", "id": c.contactID, "external_id": orNull(contact.ExternalID)}}},
		"conversation_parts": object{"type": "conversation_part.list", "conversation_parts": shown,
			"total_count": len(parts)}}
}

func (f *Intercom) author(id string, email bool) object {
	contact := f.contacts[id]
	if contact == nil {
		return object{"type": "admin", "id": id, "name": "Teammate " + id, "email": "teammate" + id + "@desk.example"}
	}
	author := object{"type": contact.Role, "id": id, "name": nil, "email": nil}
	if email {
		author["email"] = orNull(contact.Email)
	}
	return author
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
