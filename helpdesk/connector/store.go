package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/internal/summary"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Prefixes of the documents' names.
const (
	conversationPrefix = "conversations/" // then the conversation's key
	waitingPrefix      = "waiting/"       // then a digest: a link that waits for its session
	deliveryPrefix     = "delivery/"      // then the desk and a digest: a webhook that was received
)

// leaseName is the lease of a product's conversations. The server that has work to do there
// holds it. Every write of a job is conditional on it, so a server that lost it without noticing
// changes no document. Webhooks and links need no lease.
const leaseName = "conversations"

// modelLease begins the name of the lease for asking a model about a conversation; the
// conversation's key follows. Its holder also holds one of the modelLeases.
const modelLease = "model/"

// modelLeases bound the model calls of a product over all servers: one lease for each call.
var modelLeases = []string{"model 1", "model 2", "model 3", "model 4"}

// machineTTL is how long a conversation with an offer or a dismissal is kept after its last
// change, so that a dismissal outlasts the visit.
const machineTTL = 30 * 24 * time.Hour

// Link names the conversation of a session. The zero Link is no conversation.
type Link struct {
	Desk           string `json:"desk"`
	ConversationID string `json:"conversation_id"`
}

// key returns the link as the names of documents and leases hold it.
func (l Link) key() string { return l.Desk + "/" + l.ConversationID }

// linkOf returns the link with that key. The name of a desk has no slash; an ID may have some.
func linkOf(key string) Link {
	desk, conversationID, _ := strings.Cut(key, "/")
	return Link{desk, conversationID}
}

// documentName returns the name of the conversation's document.
func (l Link) documentName() string { return conversationPrefix + l.key() }

// store keeps the conversations of all products as documents, and announces changes
// to their owner in the product's log. It has no state, and is safe for concurrent use.
type store struct {
	log  eventlog.Log
	docs document.Store
	dir  *directory.Directory
	ttl  time.Duration // of a conversation without offers; longer than a session's

	complaints outage.Pace // of all products
}

// now returns the time by the clock of the log's IDs, without a monotonic part. Times in
// documents are by that clock, so that servers whose clocks differ agree; due times in memory
// are by this host's monotonic clock, which nobody sets.
func (s *store) now() time.Time { return s.log.Now().Round(0) }

// hostTime converts a time of the log's clock to this host's clock, and logTime the reverse. A
// zero time stays zero.
func (s *store) hostTime(t time.Time) time.Time { return convert(t, s.now(), time.Now()) }
func (s *store) logTime(t time.Time) time.Time  { return convert(t, time.Now(), s.now()) }

// convert returns the time that is as far from to as t is from from, and zero for a zero t.
func convert(t, from, to time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return to.Add(t.Sub(from))
}

// record is a conversation as it was read. The document has the version for compare-and-set; its
// value is not kept up to date.
type record struct {
	doc document.Document
	conversation
}

func (r *record) link() Link { return linkOf(strings.TrimPrefix(r.doc.Name, conversationPrefix)) }

// read returns a conversation, empty if there is none or it cannot be read. An error means that
// storage is unavailable.
func (s *store) read(ctx context.Context, productID string, of Link) (record, error) {
	docs, err := s.docs.Get(ctx, productID, of.documentName())
	if err != nil {
		return record{}, fmt.Errorf("connector: read conversation: %w", err)
	}
	return recordOf(docs[0]), nil
}

// recordOf returns the conversation of a document, empty if the document cannot be read.
func recordOf(doc document.Document) record {
	c, _ := decodeConversation(doc)
	return record{doc, c}
}

// change returns the change that stores a conversation; ok is false if nothing has to
// change. A conversation that would be too long is cut, see encode. An empty one is
// deleted. The change applies only if the document is as it was read, and renews its time
// to live.
func (s *store) change(r *record) (c document.Change, ok bool, err error) {
	if r.isEmpty() {
		if !r.doc.Exists() {
			return c, false, nil
		}
		return document.Delete(r.doc), true, nil
	}
	value, err := r.encode()
	if err != nil {
		return c, false, fmt.Errorf("connector: encode conversation: %w", err)
	}
	ttl := s.ttl
	switch {
	case r.Machine != nil && (len(r.Machine.Fired) > 0 || r.Machine.Dismissed > 0):
		ttl = max(ttl, machineTTL)
	case r.isOver():
		ttl = echoTTL
	}
	return document.Put(r.doc, value, ttl), true, nil
}

// encode returns the conversation as JSON. If it nearly fills a document, it loses the actions
// and digests for its next summaries. If it is still longer than a document, it loses its oldest
// messages.
func (c *conversation) encode() ([]byte, error) {
	value, err := json.Marshal(c)
	if err != nil || len(value) <= document.MaxValue*3/4 {
		return value, err
	}
	c.Sessions = slices.Clone(c.Sessions)
	for i := range c.Sessions {
		c.Sessions[i].History = summary.History{}
	}
	if c.Writing != nil {
		w := *c.Writing
		w.History, c.Writing = summary.History{}, &w
	}
	value, err = json.Marshal(c)
	if err != nil || len(value) <= document.MaxValue {
		return value, err
	}
	room := document.MaxValue - len(value)
	for _, m := range c.Messages {
		room += m.size()
	}
	c.Messages = newest(c.Messages, room)
	return json.Marshal(c)
}

// noticeType is the type of a notice. Servers of the release before write some notices as
// formerType, and understand both.
const (
	noticeType = "link"
	formerType = "message"
)

// notice is an entry of the log that tells every server of a change to a conversation's
// document, with which it is committed: a session was linked, a link waits for its session,
// or anything else. It names the document but not its content, so a notice that arrives
// late or twice does no harm. Clients of the stream do not see it.
type notice struct {
	Type string `json:"type"`
	Link
	SessionID string   `json:"session_id,omitempty"` // that was linked
	Stranger  bool     `json:"stranger,omitempty"`   // only a stranger has
	Shared    bool     `json:"shared,omitempty"`     // somebody else acted in it before
	Waiting   *Waiting `json:"waiting,omitempty"`    // that waits
	Gone      string   `json:"gone,omitempty"`       // the document of a link that waits no longer
}

// entry returns the notice as an entry.
func (n notice) entry() eventlog.Entry {
	data, _ := json.Marshal(n) // of strings and a time that is near now: it never fails
	return eventlog.Entry{Data: data}
}

// decodeNotice decodes an entry, and reports false for one of another type. It checks the first
// bytes before it decodes, because nearly all entries are actions.
func decodeNotice(e *eventlog.Entry) (n notice, ok bool) {
	if !bytes.HasPrefix(e.Data, []byte(`{"type":"`+noticeType+`"`)) &&
		!bytes.HasPrefix(e.Data, []byte(`{"type":"`+formerType+`"`)) {
		return n, false
	}
	return n, json.Unmarshal(e.Data, &n) == nil && n.Desk != "" && n.ConversationID != ""
}

// commit makes changes together with a notice of them, all or nothing, so that no server has to
// search for a change. The error is Append's: after a *document.ConflictError nothing has
// changed.
func (s *store) commit(ctx context.Context, productID string, n notice, changes ...document.Change) error {
	return s.log.Append(ctx, productID, []eventlog.Entry{n.entry()}, changes...)
}

// unlink frees a session that is linked to the conversation. It does nothing for any other
// session, so it can be repeated.
func (s *store) unlink(ctx context.Context, productID string, of Link, sessionID string) error {
	err := s.dir.Amend(ctx, productID, sessionID, nil, func(a *directory.Amendment) error {
		if !a.Session.Unlink(of.Desk, of.ConversationID) {
			return errNoChange
		}
		return nil
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// awaitStorage waits storageRetry before storage is asked again, and logs the reason, as a warning
// once a minute for all products. It returns an error if there is no point in waiting: ctx has
// ended, or the log is closed.
func (s *store) awaitStorage(ctx context.Context, logger *slog.Logger, err error) error {
	if errors.Is(err, eventlog.ErrClosed) {
		return err
	}
	if ctx.Err() == nil {
		logger.Log(ctx, s.complaints.Level(err), "conversations wait for storage", "err", err)
	}
	return schedule.Sleep(ctx, storageRetry)
}

// storageRetry is the pause before storage that failed is asked again.
const storageRetry = time.Second
