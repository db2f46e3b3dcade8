package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Prefixes of the documents' names.
const (
	conversationPrefix = "conversation/"   // then the partition and the conversation's key
	linkedPrefix       = "inbox/linked/"   // then the key: its owner must look at the conversation's document
	waitingPrefix      = "inbox/waiting/"  // then a digest: a waiting link
	taskPrefix         = "inbox/task/"     // then the key, and the task's name among the conversation's
	leasePrefix        = "connector/notes" // then the partition
)

// partitions is how many servers can share the conversations of a product.
const partitions = 4

// partitionOf returns the partition of the conversation with that key.
func partitionOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // cannot fail
	return int(h.Sum32() % partitions)
}

// keyOf returns the name of a conversation among those of all desks.
func keyOf(desk, conversationID string) string { return desk + "/" + conversationID }

// splitKey returns what keyOf was given.
func splitKey(key string) (desk, conversationID string) {
	desk, conversationID, _ = strings.Cut(key, "/")
	return desk, conversationID
}

// partitionPrefix returns how the names of a partition's conversations begin.
func partitionPrefix(partition int) string {
	return conversationPrefix + strconv.Itoa(partition) + "/"
}

// documentName returns the name of a conversation's document.
func documentName(key string) string { return partitionPrefix(partitionOf(key)) + key }

// conversation is what is stored of a conversation.
type conversation struct {
	Sessions []session `json:"sessions"`
	// Writing is what is being written. It is stored before the request is
	// made, and removed when that is known to have had its effect.
	Writing *writing `json:"writing,omitempty"`
	// LastNote is the newest note that is known to have been written.
	LastNote string `json:"last_note,omitempty"`
	// Redact holds the notes that a summary has replaced and that are still
	// to be redacted.
	Redact []string `json:"redact,omitempty"`
}

// session is what is stored of a session with its conversation.
type session struct {
	ID        string  `json:"id"`
	ByWebhook bool    `json:"by_webhook,omitempty"` // not, or not only, linked by a browser
	Since     float64 `json:"since"`                // epoch seconds: actions that started earlier are not written
	Cursor    cursor  `json:"cursor,omitzero"`      // what was written, or need not be

	Written int     `json:"written,omitempty"` // actions that are in notes
	Notes   []note  `json:"notes,omitempty"`   // the newest of those that no summary has replaced
	Summary *summed `json:"summary,omitempty"` // the last one

	// What the next summary is made from: the newest actions, for a model, and a
	// digest of those before. Without a model the digest goes on from summary to
	// summary.
	Recent []recent         `json:"recent,omitempty"`
	Digest *activity.Digest `json:"digest,omitempty"`
}

// unsummed returns how many of the session's actions are in notes and in no
// summary.
func (s *session) unsummed() int {
	if s.Summary == nil {
		return s.Written
	}
	return s.Written - s.Summary.Upto
}

// cursor is a place in the log, as one session sees it: after all entries up to
// After, and after so many actions of the entry Inside, the session's next one.
type cursor struct {
	After   eventlog.ID `json:"after"`
	Inside  eventlog.ID `json:"inside,omitzero"`
	Actions int         `json:"actions,omitempty"`
	// Next is the index, in the session, of the next action; zero while unknown.
	// A higher one shows that actions were trimmed.
	Next int `json:"next,omitempty"`
}

// note is a note of actions that was written.
type note struct {
	ID   string `json:"id"`
	Upto int    `json:"upto"` // how many of the session's actions are in this note and those before
}

// summed is a summary of a session.
type summed struct {
	Upto int    `json:"upto"` // how many of the session's actions it covers
	Text string `json:"text"`
}

// recent is an action with what a model is given of it.
type recent struct {
	At    float64 `json:"at"`
	Type  string  `json:"type"`
	Title string  `json:"title,omitempty"`
	Text  string  `json:"text"`
	URL   string  `json:"url,omitempty"`
}

// writing is a note that is being written: of a range of a session's actions, or
// of a summary.
type writing struct {
	Session string        `json:"session"`
	From    cursor        `json:"from,omitzero"`
	First   eventlog.ID   `json:"first,omitzero"` // the first entry with one of the actions
	To      cursor        `json:"to,omitzero"`
	Count   int           `json:"count,omitempty"` // actions
	Bin     time.Duration `json:"bin,omitempty"`
	Begun   time.Time     `json:"begun"`
	Summary *summed       `json:"summary,omitempty"` // nil for a note of actions
}

// Bounds of what is stored of a conversation.
const (
	maxNotes  = 100 // of a session, to be redacted
	maxRedact = 200
	maxRecent = 50
)

// written records that what was being written is there, under this id; it is ""
// for a note that need not be written. The actions are those of the note, and
// recalled those that its session keeps for a model.
func (c *conversation) written(noteID string, actions []activity.Action, recalled int) {
	w := c.Writing
	if w == nil { // an earlier call of a write that was thought to have failed
		return
	}
	c.Writing = nil
	if noteID != "" {
		c.LastNote = noteID
	}
	s := c.session(w.Session)
	switch {
	case s == nil:
	case w.Summary != nil:
		s.sumUp(w.Summary)
		if noteID != "" {
			c.replace(s)
		}
	default:
		s.Cursor = w.To
		s.Written += w.Count
		s.recall(actions, recalled)
		if noteID != "" {
			s.Notes = append(s.Notes, note{noteID, s.Written})
			s.Notes = s.Notes[max(0, len(s.Notes)-maxNotes):]
		}
	}
}

// recall keeps actions for the next summary: so many of the newest, and a digest of
// those before.
func (s *session) recall(actions []activity.Action, kept int) {
	for _, a := range actions {
		s.Recent = append(s.Recent, recent{a.TimestampStart, a.Type, a.Title, a.Sentence(), a.CanonicalURL})
	}
	excess := max(0, len(s.Recent)-kept)
	if excess > 0 && s.Digest == nil {
		s.Digest = &activity.Digest{}
	}
	for _, r := range s.Recent[:excess] {
		s.Digest.Add(r.action())
	}
	s.Recent = s.Recent[excess:]
}

func (r recent) action() activity.Action {
	return activity.Action{Type: r.Type, Title: r.Title, Description: r.Text, TimestampStart: r.At, CanonicalURL: r.URL}
}

// sumUp takes a summary over, and drops what a model needs no more.
func (s *session) sumUp(done *summed) {
	s.Summary = done
	later := max(0, s.Written-done.Upto)
	if len(s.Recent) == 0 || later > len(s.Recent) {
		return // the digest goes on
	}
	s.Recent, s.Digest = s.Recent[len(s.Recent)-later:], nil
}

// replace moves the notes that the session's summary covers to those to redact.
func (c *conversation) replace(s *session) {
	covered := 0
	for _, n := range s.Notes {
		if n.Upto > s.Summary.Upto {
			break
		}
		c.Redact = append(c.Redact, n.ID)
		covered++
	}
	s.Notes = s.Notes[covered:]
	c.Redact = c.Redact[max(0, len(c.Redact)-maxRedact):]
}

// session returns the session with that id, or nil.
func (c *conversation) session(id string) *session {
	for i := range c.Sessions {
		if c.Sessions[i].ID == id {
			return &c.Sessions[i]
		}
	}
	return nil
}

// decodeConversation returns what a document says. One that cannot be decoded
// says nothing.
func decodeConversation(doc document.Document) (conversation, error) {
	var c conversation
	if !doc.Exists() {
		return c, nil
	}
	if err := json.Unmarshal(doc.Value, &c); err != nil {
		return conversation{}, fmt.Errorf("connector: conversation %q cannot be read: %w", doc.Name, err)
	}
	return c, nil
}

// put returns the change that makes a document say what is known of a
// conversation. One that would be too long forgets what summaries are made from.
func (c *Connector) put(doc document.Document, conv *conversation) (document.Change, error) {
	value, err := json.Marshal(conv)
	if len(value) > document.MaxValue/2 {
		for i := range conv.Sessions {
			conv.Sessions[i].Recent, conv.Sessions[i].Digest = nil, nil
		}
		value, err = json.Marshal(conv)
	}
	if err != nil {
		return document.Change{}, fmt.Errorf("connector: encode conversation: %w", err)
	}
	return document.Put(doc, value, c.conversationTTL()), nil
}

// conversationTTL is how long a conversation is remembered after its last note:
// longer than any of its sessions.
func (c *Connector) conversationTTL() time.Duration { return max(24*time.Hour, 2*c.opts.TTL) }

// Conversation is what is known of a conversation.
type Conversation struct {
	Sessions []Linked // in the order in which they were linked
}

// Linked is a session of a conversation.
type Linked struct {
	SessionID string
	// ByWebhook says that the desk itself said whose conversation it is. A link
	// that only a browser made can be forged: it must not lead to anything that
	// the contact sees.
	ByWebhook bool
	// Summary is the text of the session's last summary, empty before the first.
	Summary string
}

// Conversation returns what is known of a conversation, and whether any session
// is linked to it.
func (c *Connector) Conversation(ctx context.Context, productID, desk, conversationID string) (Conversation, bool, error) {
	docs, err := c.docs.Get(ctx, productID, documentName(keyOf(desk, conversationID)))
	if err != nil {
		return Conversation{}, false, fmt.Errorf("connector: read conversation: %w", err)
	}
	conv, err := decodeConversation(docs[0])
	if err != nil || len(conv.Sessions) == 0 {
		return Conversation{}, false, err
	}
	var known Conversation
	for _, s := range conv.Sessions {
		l := Linked{SessionID: s.ID, ByWebhook: s.ByWebhook}
		if s.Summary != nil {
			l.Summary = s.Summary.Text
		}
		known.Sessions = append(known.Sessions, l)
	}
	return known, true, nil
}

// Link is the conversation of a session. The zero Link is that of a session without
// one.
type Link struct{ Desk, ConversationID string }

// Links returns for each of the sessions, in this order, the conversation that it
// is linked to. It reads them all at once.
func (c *Connector) Links(ctx context.Context, productID string, sessionIDs ...string) ([]Link, error) {
	sessions, err := c.dir.Sessions(ctx, productID, sessionIDs...)
	if err != nil {
		return nil, err
	}
	links := make([]Link, len(sessions))
	for i, s := range sessions {
		links[i] = Link{s.Desk, s.ConversationID}
	}
	return links, nil
}
