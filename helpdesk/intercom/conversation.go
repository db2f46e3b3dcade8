package intercom

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// conversation is one as Intercom answers it, with its latest parts, at most 500,
// in no documented order.
type conversation struct {
	ID        jsontext.ID
	CreatedAt unix `json:"created_at"`
	Source    struct {
		Body        string
		Subject     string
		Attachments []json.RawMessage
		Author      author
	}
	Contacts struct {
		Contacts []struct {
			ID         jsontext.ID
			ExternalID jsontext.ID `json:"external_id"`
			Role       string
		}
	}
	Parts struct {
		Parts []part `json:"conversation_parts"`
		Total int    `json:"total_count"` // of which the newest are shown
	} `json:"conversation_parts"`
	Rating struct{ Remark string } `json:"conversation_rating"` // the contact's
	Ticket any                     // that it became; nil for none
	Linked struct {
		Data []json.RawMessage // tickets and conversations
	} `json:"linked_objects"`
}

// part is something that was written or done in a conversation.
type part struct {
	ID        jsontext.ID
	Type      string `json:"part_type"`
	Body      string // HTML or plain text
	CreatedAt unix   `json:"created_at"`
	Author    author
	Redacted  bool

	Attachments []json.RawMessage
}

// The types of part that matter. A part that reopened its conversation may have the type
// open.
const (
	partNote  = "note"
	partOffer = "quick_reply"
)

// author is a contact, a teammate or a bot.
type author struct {
	Type  string
	ID    jsontext.ID
	Email string
}

// isContact reports whether the author is a contact, by whatever name, and not
// someone of the workspace.
func (a author) isContact() bool { return a.Type != "admin" && a.Type != "team" && a.Type != "bot" }

// role returns the role of a contact, empty where the conversation does not state it. The list of
// contacts counts before the type of an author.
func (c conversation) role(contactID string) string {
	role := ""
	for _, contact := range c.Contacts.Contacts {
		if string(contact.ID) == contactID {
			role = contact.Role
		}
	}
	for _, p := range append(c.Parts.Parts, part{Author: c.Source.Author}) {
		if a := p.Author; role == "" && string(a.ID) == contactID && (a.Type == roleUser || a.Type == roleLead) {
			role = a.Type
		}
	}
	return role
}

// The roles of contacts. A lead's email address was typed by a visitor, and need not be
// the visitor's own.
const (
	roleUser = "user"
	roleLead = "lead"
)

// by reports whether the part is of the admin with this id.
func (p part) by(adminID string) bool {
	return p.Author.Type == "admin" && string(p.Author.ID) == adminID
}

// maxParts is how many parts of a conversation Intercom shows.
const maxParts = 500

// isOpened reports whether the conversation began with a message. The service opens none, so the
// author makes no difference.
func (c conversation) isOpened() bool {
	return !isBlank(c.Source.Body) || c.Source.Subject != "" || len(c.Source.Attachments) > 0
}

// isLinked reports whether a ticket or another conversation belongs to this one.
func (c conversation) isLinked() bool { return c.Ticket != nil || len(c.Linked.Data) > 0 }

// isOurs reports whether the part is one that the service makes as the admin with this ID: a note
// of our form or a redacted one, or the offer with this body. The same admin may also be a person.
// A part of the admin or a bot that shows nothing, such as a change of state, counts as ours.
func (p part) isOurs(adminID, offered string) bool {
	switch {
	case len(p.Attachments) > 0 || !p.by(adminID) && p.Author.Type != "bot":
		return false
	case isBlank(p.Body):
		return true
	case p.Type == partNote:
		return p.by(adminID) && (p.Redacted || helpdesk.IsNote(bodyText(p.Body)))
	}
	return p.by(adminID) && shows(p.Body, offered)
}

// compare orders parts by the time they were made: by the second, and then by their IDs.
func (p part) compare(q part) int {
	return cmp.Or(cmp.Compare(p.CreatedAt, q.CreatedAt), compareIDs(p.ID, q.ID))
}

// after returns the parts after the one with this id, or, where it is empty, those
// made at since or later. Times have a resolution of one second. Where the part is not among those
// that Intercom shows, its ID alone tells.
func (c conversation) after(partID string, since time.Time) []part {
	isAfter := func(p part) bool { return p.CreatedAt >= unix(since.Unix()) }
	if partID != "" {
		isAfter = func(p part) bool { return compareIDs(p.ID, jsontext.ID(partID)) > 0 }
	}
	for _, anchor := range c.Parts.Parts {
		if partID != "" && string(anchor.ID) == partID {
			isAfter = func(p part) bool { return p.compare(anchor) > 0 }
		}
	}
	var parts []part
	for _, p := range c.Parts.Parts {
		if isAfter(p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// written returns the ID of the part just written, from the conversation in the answer:
// the newest part that satisfies the first of the conditions that any part does, else the
// last part.
func (c conversation) written(is ...func(part) bool) string {
	for _, is := range is {
		if p, ok := newest(c.Parts.Parts, is); ok {
			return string(p.ID)
		}
	}
	if n := len(c.Parts.Parts); n > 0 {
		return string(c.Parts.Parts[n-1].ID)
	}
	return ""
}

// newest returns the newest of the parts that satisfy the condition, and false where none does.
func newest(parts []part, is func(part) bool) (latest part, ok bool) {
	for _, p := range parts {
		if is(p) && (!ok || p.compare(latest) > 0) {
			latest, ok = p, true
		}
	}
	return latest, ok
}

// conversation reads a conversation. One that is deleted is a Gone error, and so is an ID that
// cannot be one, without a request.
func (c *Client) conversation(ctx context.Context, op, conversationID string) (conversation, error) {
	path, err := conversationPath(op, conversationID)
	if err != nil {
		return conversation{}, err
	}
	var read conversation
	err = c.get(ctx, op, path, &read)
	return read, c.gone(err)
}

// compareIDs orders IDs by the time they were given: they are growing numbers, so the shorter one
// is the smaller.
func compareIDs(i, j jsontext.ID) int {
	return cmp.Or(cmp.Compare(len(i), len(j)), strings.Compare(string(i), string(j)))
}

// unix is a time in epoch seconds, zero if it is unknown.
type unix int64

// UnmarshalJSON implements [json.Unmarshaler]. Anything but a number is unknown.
func (u *unix) UnmarshalJSON(b []byte) error {
	if seconds, err := strconv.ParseFloat(string(b), 64); err == nil && seconds >= 0 && seconds < 1<<40 {
		*u = unix(seconds)
	}
	return nil
}

// time returns the time, zero if it is unknown.
func (u unix) time() time.Time {
	if u == 0 {
		return time.Time{}
	}
	return time.Unix(int64(u), 0)
}
