package intercom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// conversation is a conversation in Intercom's answers, with its latest parts, at
// most 500, in no documented order.
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
		Total int    `json:"total_count"` // Parts has the newest of them
	} `json:"conversation_parts"`
	Rating struct{ Remark string } `json:"conversation_rating"` // the contact's
	Ticket any                     // the ticket that it became; nil for none
	Linked struct {
		Data []json.RawMessage // tickets and conversations
	} `json:"linked_objects"`
}

// part is a message or an action in a conversation.
type part struct {
	ID        jsontext.ID
	Type      string `json:"part_type"`
	Body      string // HTML or plain text
	CreatedAt unix   `json:"created_at"`
	Author    author
	Redacted  bool

	Attachments []json.RawMessage
}

// The part types that matter here. A part that reopened its conversation may have the
// type "open".
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

// isContact reports whether the author is a contact of any kind, rather than a
// member of the workspace.
func (a author) isContact() bool { return a.Type != "admin" && a.Type != "team" && a.Type != "bot" }

// role returns a contact's role, or "" if the conversation does not state it. The list of
// contacts takes precedence over an author's type.
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

// The roles of contacts. A visitor typed a lead's email address, and it may be somebody
// else's.
const (
	roleUser = "user"
	roleLead = "lead"
)

// by reports whether the admin with this ID is the part's author.
func (p part) by(adminID string) bool {
	return p.Author.Type == "admin" && string(p.Author.ID) == adminID
}

// maxParts is the maximum number of a conversation's parts that Intercom
// returns.
const maxParts = 500

// isOpened reports whether the conversation began with a message. The service never begins one,
// so the author does not matter.
func (c conversation) isOpened() bool {
	return !isBlank(c.Source.Body) || c.Source.Subject != "" || len(c.Source.Attachments) > 0
}

// isLinked reports whether a ticket or another conversation is linked to this
// one.
func (c conversation) isLinked() bool { return c.Ticket != nil || len(c.Linked.Data) > 0 }

// isOurs reports whether the service could have made the part as the admin with this ID: a note in
// our format, a redacted note, or the offer with this body. A person may use the same admin. A
// part by the admin or a bot that shows nothing, such as a change of state, counts as ours.
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

// compare orders parts by creation time, in seconds, and then by ID.
func (p part) compare(q part) int {
	return cmp.Or(cmp.Compare(p.CreatedAt, q.CreatedAt), compareIDs(p.ID, q.ID))
}

// after returns the parts that follow the one with this ID or, if that is empty, the parts made at
// since or later. Times have a resolution of one second. If the part with this ID is not among
// those that Intercom returned, the IDs alone decide.
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

// written returns the ID of the part just written, from the conversation in the answer.
// It tries the conditions in order and takes the newest part that satisfies one; if no
// part satisfies any, it takes the last part.
func (c conversation) written(conditions ...func(part) bool) string {
	for _, is := range conditions {
		if p, ok := newest(c.Parts.Parts, is); ok {
			return string(p.ID)
		}
	}
	if n := len(c.Parts.Parts); n > 0 {
		return string(c.Parts.Parts[n-1].ID)
	}
	return ""
}

// newest returns the newest part that satisfies the condition, and false if there is none.
func newest(parts []part, is func(part) bool) (latest part, ok bool) {
	for _, p := range parts {
		if is(p) && (!ok || p.compare(latest) > 0) {
			latest, ok = p, true
		}
	}
	return latest, ok
}

// conversation reads a conversation. For a deleted one, which is Intercom's own 404, the error is
// Gone, and so it is for an invalid ID, for which no request is made.
func (c *Client) conversation(ctx context.Context, op, conversationID string) (conversation, error) {
	path, err := conversationPath(op, conversationID)
	if err != nil {
		return conversation{}, err
	}
	var read conversation
	err = c.get(ctx, op, path, &read)
	if e, ok := errors.AsType[*helpdesk.APIError](err); ok && isMissing(e) {
		e.Gone = true
	}
	return read, err
}

// compareIDs orders IDs by age: they are ascending numbers, so the shorter ID is the smaller one.
func compareIDs(i, j jsontext.ID) int {
	return cmp.Or(cmp.Compare(len(i), len(j)), strings.Compare(string(i), string(j)))
}

// unix is a time in epoch seconds, zero if it is unknown.
type unix int64

// UnmarshalJSON implements [json.Unmarshaler]. It treats anything but a number
// as unknown.
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
