package demo

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// idLength is the length of a conversation's ID. It is easy to read, and unlikely
// to repeat on the same storage after a restart of the server.
const idLength = 10

// Limits of an account. The oldest are dropped first.
const (
	maxConversations = 20
	maxParts         = 100 // of a conversation
)

// The kinds of part.
const (
	kindMessage = "message" // from the contact
	kindReply   = "reply"   // public, to the contact
	kindOffer   = "offer"   // public, with labels to choose from
	kindNote    = "note"    // internal: the contact does not see it
)

// part is one message in a conversation. Once written, only Redact changes it.
type part struct {
	ID       string    `json:"id"` // a number that increases over all conversations
	Kind     string    `json:"kind"`
	Text     string    `json:"text"`
	Labels   []string  `json:"labels,omitempty"`
	At       time.Time `json:"at"`
	Redacted bool      `json:"redacted,omitempty"` // its text was removed
}

// contact is the visitor in a conversation. Each field may be empty.
type contact struct {
	Email  string `json:"email"`
	UserID string `json:"user_id"` // the shop's own
}

// conversation is one of the desk's conversations.
type conversation struct {
	ID      string    `json:"id"`
	Contact contact   `json:"contact"`
	Opened  time.Time `json:"opened"`
	Parts   []part    `json:"parts"`
}

// account holds a desk's conversations. Its methods are safe for concurrent use: mu guards
// all fields and the conversations themselves, so methods return copies, never pointers.
type account struct {
	mu            sync.Mutex
	conversations []*conversation // most recently changed last
	lastPart      int
}

// open begins a conversation and returns its ID.
func (a *account) open(with contact) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &conversation{ID: rand.Text()[:idLength], Contact: with, Opened: time.Now()}
	a.conversations = append(a.conversations, c)
	if len(a.conversations) > maxConversations {
		a.conversations = slices.Delete(a.conversations, 0, 1)
	}
	return c.ID
}

// write adds a part to a conversation and returns the part's ID. If there are too many
// parts, it drops the oldest. The error for a missing conversation is a
// *[helpdesk.APIError] that is Gone.
func (a *account) write(conversationID string, p part) (partID string, err error) {
	err = a.change(conversationID, func(c *conversation) {
		a.lastPart++
		p.ID, p.At = strconv.Itoa(a.lastPart), time.Now()
		c.Parts = append(c.Parts, p)
		c.Parts = c.Parts[max(0, len(c.Parts)-maxParts):]
	})
	return p.ID, err
}

// receive adds a contact's message to a conversation, and returns the part's ID.
func (a *account) receive(conversationID string, m message) (partID string, err error) {
	_ = a.change(conversationID, func(c *conversation) { c.Contact = m.Contact }) // may have changed
	return a.write(conversationID, part{Kind: kindMessage, Text: m.Text})
}

// withdraw removes a part, and the conversation if that part was its only one.
func (a *account) withdraw(conversationID, partID string) {
	_ = a.change(conversationID, func(c *conversation) { // it may no longer exist
		c.Parts = slices.DeleteFunc(c.Parts, func(p part) bool { return p.ID == partID })
		if len(c.Parts) == 0 {
			a.conversations = slices.DeleteFunc(a.conversations, func(other *conversation) bool { return other == c })
		}
	})
}

// change makes a conversation the most recently changed one and changes it, under the lock, which
// the function must not take again. If there is no such conversation, the error is the same as
// from a desk's API.
func (a *account) change(id string, change func(*conversation)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.conversations, func(c *conversation) bool { return c.ID == id })
	if i < 0 {
		return &helpdesk.APIError{Desk: Name, Op: "find conversation", Status: http.StatusNotFound, Gone: true}
	}
	c := a.conversations[i]
	a.conversations = append(slices.Delete(a.conversations, i, i+1), c)
	change(c)
	return nil
}

// list returns the conversations, most recently changed first.
func (a *account) list() []conversation {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]conversation, 0, len(a.conversations))
	for _, c := range slices.Backward(a.conversations) {
		own := *c
		own.Parts = append([]part{}, c.Parts...)
		all = append(all, own)
	}
	return all
}
