package connector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// status is the outcome of a link.
type status string

// The outcomes, as the endpoints answer them.
const (
	linked        status = "linked"
	alreadyLinked status = "already_linked" // to the same conversation
	pending       status = "pending"        // waits for the session to appear
)

// linkedBy is who says that a session belongs to a conversation.
type linkedBy int

const (
	byBrowser linkedBy = iota
	byWebhook
)

// LinkedError reports that a session is linked to another conversation.
type LinkedError struct{ SessionID, Desk, ConversationID string }

func (e *LinkedError) Error() string {
	return fmt.Sprintf("connector: session %q is linked to conversation %q of %s", e.SessionID, e.ConversationID, e.Desk)
}

// ErrUnknownSession reports a link of a session that has not appeared.
var ErrUnknownSession = errors.New("connector: the session is unknown")

// ErrTooManySessions reports a link to a conversation that has MaxSessions.
var ErrTooManySessions = errors.New("connector: the conversation has too many sessions")

// Bounds of a link.
const (
	MaxSessions       = 64  // of a conversation
	maxConversationID = 256 // bytes
	// linkNotice is how long the owner of a conversation has to see that there
	// is a link. One that takes over looks at all conversations.
	linkNotice = time.Minute
	// MaxWait is how long a link waits for its session to appear.
	MaxWait = 15 * time.Minute
)

// errNoChange ends an update that would change nothing.
var errNoChange = errors.New("connector: no change")

// link links a session to a conversation of a desk, at the moment that says which
// earlier actions are written. The first link of a session is final: another one
// is a *LinkedError, while a repeated one succeeds. The owner of the conversation
// takes over from there.
func (c *Connector) link(ctx context.Context, productID, desk, conversationID, sessionID string, by linkedBy, at time.Time) (status, error) {
	if desk == "" || conversationID == "" || len(conversationID) > maxConversationID {
		return "", fmt.Errorf("connector: %.300q of %q is no conversation", conversationID, desk)
	}
	_, known, err := c.dir.Session(ctx, productID, sessionID)
	if err != nil {
		return "", err
	}
	if !known {
		return "", ErrUnknownSession
	}
	product, _, err := c.products.Product(productID)
	if err != nil {
		return "", err
	}
	from := c.moment(at).Add(-product.Notes.PreLinkWindow)
	result := linked
	_, err = c.dir.UpdateWith(ctx, productID, sessionID, func(s *activity.Session) (changes []document.Change, err error) {
		if s.ConversationID != "" && (s.Desk != desk || s.ConversationID != conversationID) {
			return nil, &LinkedError{sessionID, s.Desk, s.ConversationID}
		}
		s.Desk, s.ConversationID = desk, conversationID
		changes, result, err = c.join(ctx, productID, keyOf(desk, conversationID), sessionID, by, from)
		return changes, err
	})
	var other *LinkedError
	switch {
	case errors.As(err, &other):
		c.metrics.links.WithLabelValues(productID, desk, "refused").Inc()
		return "", err
	case err != nil && !errors.Is(err, errNoChange):
		return "", err
	}
	c.metrics.links.WithLabelValues(productID, desk, string(result)).Inc()
	signal(c.linkedHere(productID))
	return result, nil
}

// moment returns the time of a link: that of its webhook where that is
// plausible.
func (c *Connector) moment(at time.Time) time.Time {
	now := c.now()
	if at.IsZero() || at.After(now) {
		return now
	}
	if earliest := now.Add(-MaxWait); at.Before(earliest) {
		return earliest
	}
	return at
}

// join returns the changes that add a session to a conversation and let its owner
// know.
func (c *Connector) join(ctx context.Context, productID, key, sessionID string, by linkedBy, from time.Time) ([]document.Change, status, error) {
	docs, err := c.docs.Get(ctx, productID, documentName(key), linkedPrefix+key)
	if err != nil {
		return nil, "", fmt.Errorf("connector: read conversation: %w", err)
	}
	conv, err := decodeConversation(docs[0])
	if err != nil {
		c.logger.Error("a conversation cannot be read and starts anew", "product_id", productID, "conversation_id", key, "err", err)
	}
	result := linked
	if s := conv.session(sessionID); s != nil {
		if s.ByWebhook || by != byWebhook {
			return nil, alreadyLinked, errNoChange
		}
		s.ByWebhook, result = true, alreadyLinked
	} else {
		if len(conv.Sessions) >= MaxSessions {
			return nil, "", ErrTooManySessions
		}
		conv.Sessions = append(conv.Sessions, session{ID: sessionID, ByWebhook: by == byWebhook, Since: activity.Seconds(from),
			Cursor: cursor{After: eventlog.IDAt(from.Add(-clockSlack))}})
	}
	put, err := c.put(docs[0], &conv)
	return []document.Change{put, document.Put(docs[1], nil, linkNotice)}, result, err
}

// clockSlack is by how much the log's ids may be behind the times of actions.
const clockSlack = time.Second

// unlink frees a session that is linked to the conversation.
func (c *Connector) unlink(ctx context.Context, productID, key, sessionID string) error {
	_, err := c.dir.UpdateWith(ctx, productID, sessionID, func(s *activity.Session) ([]document.Change, error) {
		if keyOf(s.Desk, s.ConversationID) != key {
			return nil, errNoChange
		}
		s.Desk, s.ConversationID = "", ""
		return nil, nil
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// waiting is a link whose session has not appeared.
type waiting struct {
	Conversation string    `json:"conversation"` // its key
	Email        string    `json:"email,omitempty"`
	UserID       string    `json:"user_id,omitempty"` // used for sessions without another e-mail address
	At           time.Time `json:"at"`
}

// isOf reports whether the link can wait for a session of its user with that e-mail
// address, "" for none.
func (w waiting) isOf(email string) bool {
	return w.Email == "" || email == "" || strings.EqualFold(w.Email, email)
}

// documentName returns the name of the link's document: a conversation has one for
// each contact that it waits for.
func (w waiting) documentName() string {
	sum := sha256.Sum256([]byte(w.Conversation + "\x00" + strings.ToLower(w.Email) + "\x00" + w.UserID))
	return waitingPrefix + hex.EncodeToString(sum[:16])
}

// linkContact links the session of a contact, as a webhook names it, to a
// conversation. When the contact has no session yet the link waits for it, for
// MaxWait. A contact without e-mail address and user id has none.
func (c *Connector) linkContact(ctx context.Context, productID, desk, conversationID string, contact helpdesk.Contact, at time.Time) (status, error) {
	if contact.Email != "" {
		sessionID, ok, err := c.dir.SessionOf(ctx, productID, contact.Email)
		if err != nil {
			return "", err
		}
		if ok {
			result, err := c.link(ctx, productID, desk, conversationID, sessionID, byWebhook, at)
			if !errors.Is(err, ErrUnknownSession) {
				return result, err
			}
		}
	} else if contact.UserID == "" {
		return "", ErrUnknownSession
	}
	return c.await(ctx, productID, waiting{keyOf(desk, conversationID), contact.Email, contact.UserID, c.moment(at)})
}

// await stores a waiting link. A repeated one changes nothing.
func (c *Connector) await(ctx context.Context, productID string, w waiting) (status, error) {
	value, err := json.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("connector: encode waiting link: %w", err)
	}
	_, err = c.docs.Write(ctx, productID, document.Put(document.Document{Name: w.documentName()}, value, MaxWait))
	var conflict *document.ConflictError
	if errors.As(err, &conflict) {
		return pending, nil // it waits already
	}
	if err != nil {
		return "", fmt.Errorf("connector: store waiting link: %w", err)
	}
	desk, _ := splitKey(w.Conversation)
	c.metrics.links.WithLabelValues(productID, desk, string(pending)).Inc()
	return pending, nil
}
