package demo

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// idLength is the length of a conversation's ID. It is easy to read, and unlikely
// to repeat on the same storage after a restart of the server.
const idLength = 10

// Limits of a desk. The oldest are dropped first.
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

// open begins a conversation and returns its ID.
func (d *desk) open(with contact) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &conversation{ID: rand.Text()[:idLength], Contact: with, Opened: time.Now()}
	d.conversations = append(d.conversations, c)
	if len(d.conversations) > maxConversations {
		d.conversations = slices.Delete(d.conversations, 0, 1)
	}
	return c.ID
}

// write adds a part to a conversation and returns the part's ID. If there are too many
// parts, it drops the oldest. The error for a missing conversation is a
// *[helpdesk.APIError] that is Gone.
func (d *desk) write(conversationID string, p part) (partID string, err error) {
	err = d.change(conversationID, func(c *conversation) {
		d.lastPart++
		p.ID, p.At = strconv.Itoa(d.lastPart), time.Now()
		c.Parts = append(c.Parts, p)
		c.Parts = c.Parts[max(0, len(c.Parts)-maxParts):]
	})
	return p.ID, err
}

// receive adds a contact's message to a conversation, and returns the part's ID.
func (d *desk) receive(conversationID string, m message) (partID string, err error) {
	_ = d.change(conversationID, func(c *conversation) { c.Contact = m.Contact }) // may have changed
	return d.write(conversationID, part{Kind: kindMessage, Text: m.Text})
}

// withdraw removes a part, and the conversation if that part was its only one.
func (d *desk) withdraw(conversationID, partID string) {
	_ = d.change(conversationID, func(c *conversation) { // it may no longer exist
		c.Parts = slices.DeleteFunc(c.Parts, func(p part) bool { return p.ID == partID })
		if len(c.Parts) == 0 {
			d.conversations = slices.DeleteFunc(d.conversations, func(other *conversation) bool { return other == c })
		}
	})
}

// change makes a conversation the most recently changed one and changes it, under the lock, which
// the function must not take again. If there is no such conversation, the error is the same as
// from a desk's API.
func (d *desk) change(id string, change func(*conversation)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.conversations, func(c *conversation) bool { return c.ID == id })
	if i < 0 {
		return &helpdesk.APIError{Desk: Name, Op: "find conversation", Status: http.StatusNotFound, Gone: true}
	}
	c := d.conversations[i]
	d.conversations = append(slices.Delete(d.conversations, i, i+1), c)
	change(c)
	return nil
}

// list returns the conversations, most recently changed first.
func (d *desk) list() []conversation {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]conversation, 0, len(d.conversations))
	for _, c := range slices.Backward(d.conversations) {
		own := *c
		own.Parts = append([]part{}, c.Parts...)
		all = append(all, own)
	}
	return all
}
