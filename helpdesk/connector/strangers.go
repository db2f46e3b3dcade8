package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Bounds of links that nobody vouches for. Any program can pretend to be a page of the product,
// so a link without a signed identity counts as a stranger's: it takes nothing from a
// conversation's owner.
const (
	// MaxStrangers is how many sessions of a conversation may be linked by strangers only. They
	// take none of the places of MaxSessions.
	MaxStrangers = 4
	// MaxStrangeLinks is how many new links by strangers a product accepts in a minute, over all
	// servers.
	MaxStrangeLinks = 60
)

// strangersName is the name of the document with the times of a product's new links by
// strangers, in milliseconds since the epoch.
const strangersName = "strangers"

// quotaError reports that a product has had MaxStrangeLinks within a minute.
type quotaError struct {
	Wait time.Duration // until there is room for the next one
}

func (e *quotaError) Error() string {
	return fmt.Sprintf("connector: %d new links by strangers within a minute", MaxStrangeLinks)
}

// countStranger counts one more new link by a stranger in the document. The change is committed
// with the link, so servers cannot miss each other's counts. Beyond MaxStrangeLinks the error is
// a *quotaError.
func (l *linker) countStranger(doc document.Document) (document.Change, error) {
	now := l.store.now()
	var at []int64
	_ = json.Unmarshal(doc.Value, &at) // there may be none, or a damaged one: the count starts over
	// Times far ahead are of a clock that was set back.
	at = slices.DeleteFunc(at, func(ms int64) bool { return now.Sub(time.UnixMilli(ms)).Abs() >= time.Minute })
	if len(at) >= MaxStrangeLinks {
		return document.Change{}, &quotaError{time.UnixMilli(at[0]).Add(time.Minute).Sub(now)}
	}
	value, err := json.Marshal(append(at, now.UnixMilli()))
	return document.Put(doc, value, time.Minute), err
}

// isFull reports whether the conversation has no place for another session that the given party
// vouches for. Each party has places of its own, so strangers keep nobody out.
func (c *conversation) isFull(by linkedBy) bool {
	places := MaxSessions
	if by == byStranger {
		places = MaxStrangers
	}
	for i := range c.Sessions {
		if c.Sessions[i].by() == by {
			places--
		}
	}
	return places <= 0
}

// makeRoom removes a session from a conversation that is full: the oldest one whose link the
// directory has forgotten. Nothing has happened there for as long as actions are kept. The error is
// errTooManySessions if there is none, or storage's.
func (l *linker) makeRoom(ctx context.Context, c linkClaim, r *record) error {
	if !r.isFull(c.by) {
		return nil
	}
	var ids []string
	for _, s := range r.Sessions {
		if s.by() == c.by && (r.Writing == nil || r.Writing.Session != s.ID) {
			ids = append(ids, s.ID)
		}
	}
	known, err := l.store.dir.Sessions(ctx, c.productID, ids...)
	if err != nil {
		return err
	}
	forgotten := slices.IndexFunc(known, func(s directory.Session) bool {
		return !slices.ContainsFunc(s.Conversations(), func(of directory.Conversation) bool {
			return of.Desk == c.Desk && of.ID == c.ConversationID
		})
	})
	if forgotten < 0 {
		return errTooManySessions
	}
	r.Sessions = slices.DeleteFunc(slices.Clone(r.Sessions), func(s session) bool { return s.ID == ids[forgotten] })
	return nil
}

// givesWay reports whether a session's link to another conversation ends in favor of a claim. A
// stranger's link does if the claim is vouched for. A link whose document is gone or cannot be
// read does not give way.
func (l *linker) givesWay(ctx context.Context, c linkClaim, s *directory.Session, sessionID string) (bool, error) {
	if c.by == byStranger {
		return false, nil
	}
	r, err := l.store.read(ctx, c.productID, Link{s.Desk, s.ConversationID})
	if err != nil {
		return false, err
	}
	other := r.session(sessionID)
	return other != nil && other.by() == byStranger, nil
}
