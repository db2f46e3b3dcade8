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
	waitingPrefix      = "inbox/waiting/"  // then the key: a waiting link
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

	Notes   []note `json:"notes,omitempty"` // raw notes that no summary has replaced
	Count   int    `json:"count,omitempty"` // actions written since the last summary
	Summary *sumup `json:"summary,omitempty"`
}

// cursor is a place in the log, as one session sees it: after all entries up to
// After, and after so many actions of the entry Inside, the session's next one.
type cursor struct {
	After   eventlog.ID `json:"after"`
	Inside  eventlog.ID `json:"inside,omitzero"`
	Actions int         `json:"actions,omitempty"`
}

// note is a note that was written.
type note struct {
	ID string      `json:"id"`
	To eventlog.ID `json:"to"` // the newest entry that it has an action of
}

// sumup is the last summary of a session.
type sumup struct {
	To     cursor           `json:"to"` // what it covers
	Text   string           `json:"text"`
	Digest *activity.Digest `json:"digest,omitempty"` // what Text was made from, without a model
}

// writing is a note that is being written: of a range of a session's actions, or
// a summary.
type writing struct {
	Session string        `json:"session"`
	From    cursor        `json:"from"`
	To      cursor        `json:"to"`
	Count   int           `json:"count"` // actions
	Bin     time.Duration `json:"bin,omitempty"`
	Begun   time.Time     `json:"begun"`
	Summary *sumup        `json:"summary,omitempty"` // nil for a note of actions
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
// conversation.
func (c *Connector) put(doc document.Document, conv *conversation) (document.Change, error) {
	value, err := json.Marshal(conv)
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
