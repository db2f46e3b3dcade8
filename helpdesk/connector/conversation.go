package connector

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/summary"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// conversation is the document of a conversation: everything that is known about it. Webhooks,
// links and erasures change it by compare-and-set from any server; the job of its lane changes
// it under the lease. Its JSON is stored, so renaming a field or changing its meaning loses the
// state of running conversations.
type conversation struct {
	Sessions []session `json:"sessions,omitempty"`
	// Writing is the note in the outbox. It is stored before the request is made
	// and removed once its effect is known. The outbox of replies is the first of
	// the Messages; the outbox of offers is the claim in the Machine.
	Writing *writing `json:"writing,omitempty"`
	// LastNote is the ID of the newest note or summary known to have been written; a note in
	// doubt is looked for after it. NotedAt is the time of the newest note of actions, and
	// StrangeAt the time of the newest one of a session that only a stranger has linked. Such a
	// note does not delay the notes of other sessions.
	LastNote  string    `json:"last_note,omitempty"`
	NotedAt   time.Time `json:"noted_at,omitzero"`
	StrangeAt time.Time `json:"strange_at,omitzero"`
	// Redact holds the IDs of notes to be redacted at the desk, because a summary has replaced
	// them or their session was erased. A summary leaves the newest maxRedact of them.
	Redact   []string  `json:"redact,omitempty"`
	Contact  *lookUp   `json:"contact,omitempty"`
	Messages []message `json:"messages,omitempty"` // to be answered, oldest first
	Said     []said    `json:"said,omitempty"`     // the last replies in a chat, oldest first
	// Machine is the state of the assistance; nil for the initial one. Removing means that its last
	// step asked for the deletion of the conversation, and that the desk has not refused it.
	Machine  *assistance.Machine `json:"machine,omitempty"`
	Removing bool                `json:"removing,omitempty"`
	// Heard means that the machine has received a message. The conversation is then never deleted,
	// even if the desk does not show the message.
	Heard bool `json:"heard,omitempty"`
}

// session is a session of a conversation.
type session struct {
	ID        string  `json:"id"`
	ByWebhook bool    `json:"by_webhook,omitempty"` // the desk has linked it, perhaps besides others
	Signed    bool    `json:"signed,omitempty"`     // its user has linked it, by a signed identity
	Since     float64 `json:"since"`                // epoch seconds: actions that started earlier are not written
	Cursor    cursor  `json:"cursor,omitzero"`      // everything up to here is written or need not be

	// UserID is the identified user that the session was linked for, empty if none is known.
	// LinkedAt is the index of the session's first action since the link. Actions from there on
	// name their conversation. Earlier ones belong to this conversation unless one of Others did
	// them.
	UserID   string   `json:"user_id,omitempty"`
	LinkedAt int      `json:"linked_at,omitempty"`
	Others   []string `json:"others,omitempty"`
	// Contact is the person that a webhook linked the session for, or the signed user.
	Contact helpdesk.Contact `json:"contact,omitzero"`

	Written int             `json:"written,omitempty"` // actions that are in notes
	Notes   []note          `json:"notes,omitempty"`   // the newest not replaced by a summary, and the last summary's
	Summary *sessionSummary `json:"summary,omitempty"` // the last one
	// Former are the newest notes of earlier users' actions. No summary replaces them.
	Former []formerNote `json:"former_notes,omitempty"`

	summary.History // the next summary is made from it
}

// linkID tells the links of a session apart. A link that was made anew has other actions: after an
// erasure, or because the session's user has come back.
type linkID struct {
	since    float64
	linkedAt int
}

func (s *session) linkID() linkID { return linkID{s.Since, s.LinkedAt} }

// by returns the most trusted party that vouches for the session's link.
func (s *session) by() linkedBy {
	switch {
	case s.ByWebhook:
		return byWebhook
	case s.Signed:
		return bySigned
	}
	return byStranger
}

// vouch records a claim to the session's link. A less trusted party only adds to the flags; it
// does not replace the contact.
func (s *session) vouch(c linkClaim) {
	if c.by >= s.by() {
		s.Contact = c.contact
	}
	s.ByWebhook, s.Signed = s.ByWebhook || c.by == byWebhook, s.Signed || c.by == bySigned
}

// passTo gives the session to another user. Of the former user it keeps only the IDs of the
// notes: actions, summaries and the parties that vouched for the link are dropped.
func (s *session) passTo(userID string) {
	for _, n := range s.Notes {
		s.addFormer(n.ID, s.UserID)
	}
	s.UserID, s.ByWebhook, s.Signed = userID, false, false
	s.Written, s.Notes, s.Summary, s.History = 0, nil, nil, summary.History{}
}

// addFormer adds a note of an earlier user's actions.
func (s *session) addFormer(noteID, userID string) {
	s.Former = append(slices.Clip(s.Former), formerNote{noteID, userID})
	s.Former = s.Former[max(0, len(s.Former)-maxNotes):]
}

// unsummed returns how many of the session's actions are in notes but
// not in a summary.
func (s *session) unsummed() int {
	if s.Summary == nil {
		return s.Written
	}
	return s.Written - s.Summary.Upto
}

// lastSummary returns the text of the session's last summary, empty before the first.
func (s *session) lastSummary() string {
	if s.Summary == nil {
		return ""
	}
	return s.Summary.Text
}

// cursor is a position in the log as one session sees it: after all entries up to After,
// and after the first Actions of the entry Inside, the session's next one. Inside and
// Actions are zero unless a note ended inside an entry. These three only advance, when a
// note is settled.
type cursor struct {
	After   eventlog.ID `json:"after"`
	Inside  eventlog.ID `json:"inside,omitzero"`
	Actions int         `json:"actions,omitempty"`
	// Next is the index, in the session, of the next action; zero while unknown. If
	// the next action has a higher index, actions were trimmed.
	Next int `json:"next,omitempty"`
}

// note is a note that was written, of actions or of a summary.
type note struct {
	ID   string `json:"id"`
	Upto int    `json:"upto"` // how many of the session's actions it and the notes before it cover
}

// formerNote is a note of an earlier user of its session; UserID is empty if that user is
// unknown.
type formerNote struct {
	ID     string `json:"id"`
	UserID string `json:"user_id,omitempty"`
}

// sessionSummary is a summary of a session.
type sessionSummary struct {
	Upto      int    `json:"upto"` // how many of the session's actions it covers
	Text      string `json:"text"`
	Extracted bool   `json:"extracted,omitempty"` // made from the actions although there is a model
}

// writing is a note in the outbox: of a range of a session's actions, or of a summary.
type writing struct {
	Session string    `json:"session"`
	UserID  string    `json:"user_id,omitempty"` // the session's user when the note was begun
	Text    string    `json:"text,omitempty"`    // empty for a summary that needs no note
	Begun   time.Time `json:"begun"`

	// A note of actions also has the first entry that contains one of them, the position after
	// the last, and the session's history including them.
	First   eventlog.ID     `json:"first,omitzero"`
	To      cursor          `json:"to,omitzero"`
	Count   int             `json:"count,omitempty"`   // actions
	Trimmed int             `json:"trimmed,omitempty"` // actions before them that the log no longer held
	History summary.History `json:"history,omitzero"`

	Summary *sessionSummary `json:"summary,omitempty"` // nil for a note of actions
	Claimed bool            `json:"claimed,omitempty"` // the summary replaces no notes, as its activity may be forged
	// Erased means that the person of the note was erased, and that only Session, UserID, Text
	// and Begun are set as well. The note is looked for in order to redact it, and never
	// written.
	Erased bool `json:"erased,omitempty"`
}

// message is a message of the contact that waits for a public reply. At is when the webhook
// came, by the log's clock. The first message is also the outbox of its reply:
//
//	Reply empty              nothing was sent
//	Reply and Begun          the reply was stored at Begun and may have been sent
//	Reply without Begun      the desk has not accepted it: it is sent again unchanged
type message struct {
	ID   string    `json:"id"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	// Contact wrote the message; zero if unknown, as before the look-up of ContactID.
	Contact   helpdesk.Contact `json:"contact,omitzero"`
	ContactID string           `json:"contact_id,omitempty"` // the desk's own
	Offer     string           `json:"offer,omitempty"`      // the text of the offer whose label the message chose

	Reply string    `json:"reply,omitempty"`
	With  []string  `json:"with,omitempty"` // the IDs of later messages that Reply answers as well
	Begun time.Time `json:"begun,omitzero"`
}

// lookUp is a contact to be looked up, for a link that waits for it. UserID is the one that the
// webhook named, if any; the desk's answer takes precedence. At is the moment of the link, unless an
// earlier webhook named the contact: then that is First, for as long as a link waits.
type lookUp struct {
	ContactID string    `json:"contact_id"`
	UserID    string    `json:"user_id,omitempty"`
	At        time.Time `json:"at"`
	First     time.Time `json:"first,omitzero"`
}

// moment returns the moment of the link.
func (l *lookUp) moment(now time.Time) time.Time {
	if now.Sub(l.First) <= MaxWait {
		return l.First
	}
	return l.At
}

// Bounds of a conversation's document.
const (
	maxNotes    = 100 // kept of a session, for their redaction
	maxRedact   = 200
	maxRecent   = 50
	maxMessages = 512 << 10 // bytes, in JSON, of messages that wait for an answer

	maxTogether     = 50       // messages that one reply answers
	maxTogetherText = 32 << 10 // bytes of their text, if there is more than one
)

// session returns the session with that ID, or nil.
func (c *conversation) session(id string) *session {
	if i := slices.IndexFunc(c.Sessions, func(s session) bool { return s.ID == id }); i >= 0 {
		return &c.Sessions[i]
	}
	return nil
}

// sessionOf returns the session with that ID, or nil if it was erased or is another user's by now.
func (c *conversation) sessionOf(id, userID string) *session {
	if s := c.session(id); s != nil && s.UserID == userID {
		return s
	}
	return nil
}

// machine returns the state of the assistance.
func (c *conversation) machine() assistance.Machine {
	if c.Machine == nil {
		return assistance.Machine{}
	}
	return *c.Machine
}

// owned reports whether anybody but strangers has linked a session to the conversation.
func (c *conversation) owned() bool {
	return slices.ContainsFunc(c.Sessions, func(s session) bool { return s.by() > byStranger })
}

// isEmpty reports whether there is nothing to store: then the document is deleted, or not
// created.
func (c *conversation) isEmpty() bool { return len(c.Said) == 0 && c.isOver() }

// isOver reports whether there is nothing to store except the replies that were made.
func (c *conversation) isOver() bool {
	return len(c.Sessions) == 0 && len(c.Messages) == 0 && c.Contact == nil && c.Machine == nil &&
		len(c.Redact) == 0 && c.Writing == nil
}

// unread returns the position up to which the session's actions are in notes or in the outbox.
func (c *conversation) unread(s *session) *cursor {
	if w := c.Writing; w != nil && w.Session == s.ID && w.To != (cursor{}) {
		return &w.To
	}
	return &s.Cursor
}

// historyWith returns the session's history including the actions of its next note. With models
// it keeps the newest maxRecent actions as they are; all others are in the digest.
func (s *session) historyWith(actions []activity.Action, models bool) summary.History {
	h := s.History
	h.Recent = slices.Clip(h.Recent)
	for _, a := range actions {
		h.Add(a)
	}
	if models {
		h.Keep(maxRecent)
	} else {
		h.Keep(0)
	}
	return h
}

// written records the outcome of the note in the outbox: it was written at that time, zero if it
// was not written and need not be. The ID is empty if the desk does not state it.
//
// It empties the outbox. A note of actions moves the session's cursor to its end; a summary
// replaces the notes that it covers. If the session has another user by now, it keeps only the
// ID of the note. A note of an erased person is to be redacted; without an ID it stays in doubt.
// Without a note in the outbox written does nothing, so it can be repeated.
func (c *conversation) written(noteID string, at time.Time) {
	w := c.Writing
	if w == nil { // already recorded, by a write that seemed to have failed
		return
	}
	if w.Erased {
		if noteID != "" {
			c.Writing, c.Redact = nil, append(slices.Clip(c.Redact), noteID)
		}
		return
	}
	c.Writing = nil
	if noteID != "" {
		c.LastNote = noteID
	}
	s := c.session(w.Session)
	if s == nil {
		return
	}
	if w.Summary == nil {
		s.Cursor = w.To
		if !at.IsZero() {
			*c.notedAt(s) = at.Round(0)
		}
	}
	switch {
	case w.UserID != s.UserID:
		if noteID != "" {
			s.addFormer(noteID, w.UserID)
		}
	case w.Summary != nil:
		s.sumUp(w.Summary)
		if noteID != "" {
			c.replace(s, noteID, w.Claimed)
		}
	default:
		s.Written += w.Count
		s.History = w.History
		if noteID != "" {
			s.Notes = append(s.Notes, note{noteID, s.Written})
			s.Notes = s.Notes[max(0, len(s.Notes)-maxNotes):]
		}
	}
}

// notedAt returns the time of the conversation's newest note of actions. Sessions that only
// strangers have linked have a time of their own.
func (c *conversation) notedAt(s *session) *time.Time {
	if s.by() == byStranger {
		return &c.StrangeAt
	}
	return &c.NotedAt
}

// sumUp records a summary and drops everything that the next one does not need. It keeps the
// actions that were written in notes while a model worked.
func (s *session) sumUp(done *sessionSummary) {
	s.Summary = done
	s.History.Cover(max(0, s.Written-done.Upto), done.Extracted)
}

// replace moves the notes that the session's summary covers, including the summary before it, to
// the notes to be redacted, unless the summary is claimed. The summary's own note takes its
// place after them. Beyond the bounds the oldest notes are forgotten and stay at the desk.
func (c *conversation) replace(s *session, noteID string, claimed bool) {
	covered := 0
	for covered < len(s.Notes) && s.Notes[covered].Upto <= s.Summary.Upto {
		covered++
	}
	s.Notes = slices.Insert(slices.Clone(s.Notes), covered, note{noteID, s.Summary.Upto})
	if !claimed {
		for _, n := range s.Notes[:covered] {
			c.Redact = append(c.Redact, n.ID)
		}
		s.Notes = s.Notes[covered:]
	}
	s.Notes = s.Notes[max(0, len(s.Notes)-maxNotes):]
	c.Redact = c.Redact[max(0, len(c.Redact)-maxRedact):]
}

// addMessage adds a message to be answered. Beyond maxMessages the oldest are left unanswered. A single
// message always fits, because a byte of its text takes at most six bytes in JSON; see
// maxStored.
func (c *conversation) addMessage(m message) {
	c.Messages = newest(append(c.Messages, m), maxMessages)
}

// newest returns as many of the newest messages as fit into the given number of bytes of JSON.
func newest(messages []message, bytes int) []message {
	for i := len(messages) - 1; i >= 0; i-- {
		if bytes -= messages[i].size(); bytes < 0 {
			return messages[i+1:]
		}
	}
	return messages
}

// size returns the length of a message in a conversation's JSON, including the comma after it.
func (m message) size() int {
	value, _ := json.Marshal(m) // an error comes up again when the conversation is encoded
	return len(value) + 1
}

// together returns the oldest messages, as many as one reply answers.
func (c *conversation) together() []message {
	for bytes, i := 0, 0; i < len(c.Messages); i++ {
		if bytes += len(c.Messages[i].Text); i == maxTogether || i > 0 && bytes > maxTogetherText {
			return c.Messages[:i]
		}
	}
	return c.Messages
}

// ids returns the IDs of a message and of the messages answered with it.
func (m message) ids() []string { return append([]string{m.ID}, m.With...) }

// answered removes the messages with these IDs.
func (c *conversation) answered(ids []string) {
	c.Messages = slices.DeleteFunc(slices.Clone(c.Messages), func(m message) bool { return slices.Contains(ids, m.ID) })
}

// decodeConversation decodes a document. The conversation is empty, with an error, if the
// document cannot be read, and empty without an error if it does not exist.
func decodeConversation(doc document.Document) (conversation, error) {
	var c conversation
	if !doc.Exists() {
		return c, nil
	}
	if err := json.Unmarshal(doc.Value, &c); err != nil {
		return conversation{}, fmt.Errorf("connector: conversation %q cannot be read: %w", doc.Name, err)
	}
	switch w := c.Writing; { // the release before stored no text
	case w == nil || w.Text != "":
	case w.Summary == nil:
		c.Writing = nil // the note is made again from the log
	default:
		if s := c.session(w.Session); s == nil || s.lastSummary() != w.Summary.Text { // an equal one needs no note
			w.Text = helpdesk.SummaryText(w.Session, w.Begun, w.Summary.Text)
		}
	}
	return c, nil
}

// Linked is a session of a conversation.
type Linked struct {
	SessionID string
	// Trusted means that the desk itself linked the session, or the session's user
	// did, by a signed identity, and the desk has linked nobody else. Any other link
	// can be forged: it must not lead to anything that the contact sees.
	Trusted bool
	// Summary is the text of the session's last summary, empty before the first.
	Summary string
}

// trusts reports whether a session may lead to something that the contact sees: the
// desk linked it, or its own user did and the desk has linked no session of anybody
// else.
func (c *conversation) trusts(s *session) bool {
	return s.ByWebhook || s.Signed && !slices.ContainsFunc(c.Sessions, func(other session) bool {
		return other.ByWebhook && other.UserID != s.Contact.UserID && other.Contact.UserID != s.Contact.UserID
	})
}

// trusted returns the sessions that the conversation trusts.
func (c *conversation) trusted() []session {
	return slices.DeleteFunc(slices.Clone(c.Sessions), func(s session) bool { return !c.trusts(&s) })
}
