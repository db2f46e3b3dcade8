package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
)

// Erasure is a log entry that erases everything of a person before it.
type Erasure struct {
	Type       string   `json:"type"`
	ProductID  string   `json:"product_id"`
	UserID     string   `json:"user_id"`     // empty where only an address or sessions are known
	SessionIDs []string `json:"session_ids"` // the person's; never nil
	// Kept has, by session, the user IDs of other people, whose actions stay. It may name
	// sessions that are not in SessionIDs: if UserID is a visitor's ID, that visitor may have
	// been another person there.
	Kept map[string][]string `json:"kept,omitempty"`
	// EmailsSHA256 are digests of the person's email addresses; see [EmailDigest]. Kept
	// actions may still carry these addresses. The field is set only with Kept.
	EmailsSHA256 []string `json:"emails_sha256,omitempty"`
}

// EmailDigest returns the hexadecimal SHA-256 of an email address, which it first converts to lower
// case.
func EmailDigest(email string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(email)))
	return hex.EncodeToString(sum[:])
}

// HasEmail reports whether an address is one of EmailsSHA256.
func (e *Erasure) HasEmail(email string) bool {
	return email != "" && len(e.EmailsSHA256) > 0 && slices.Contains(e.EmailsSHA256, EmailDigest(email))
}

// Erases reports whether the erasure covers an action with the session ID and user ID with which it
// was appended; either may be empty. It covers nothing in Kept. In a session of the person it
// covers actions without a user ID, unless Kept has the empty ID.
func (e *Erasure) Erases(sessionID, userID string) bool {
	if slices.Contains(e.Kept[sessionID], userID) {
		return false
	}
	return userID != "" && userID == e.UserID || slices.Contains(e.SessionIDs, sessionID)
}

// LeftOf returns the batch without the actions that any of the erasures covers: the batch itself if
// there are none, and nil if nothing is left. It does not modify the batch.
func LeftOf(b *activity.Batch, erasures ...*Erasure) *activity.Batch {
	isErased := isErasedBy(b, erasures)
	left := keep(b, func(a *activity.BatchAction) bool { return !isErased(a) })
	digests := map[string]bool{}
	for _, e := range erasures {
		for _, digest := range e.EmailsSHA256 {
			digests[digest] = true
		}
	}
	hides := func(email string) bool { return email != "" && digests[EmailDigest(email)] }
	if left == nil || len(digests) == 0 || !hides(left.Email) &&
		!slices.ContainsFunc(left.Actions, func(a activity.BatchAction) bool { return hides(a.Email) }) {
		return left
	}
	hidden := *left
	hidden.Actions = slices.Clone(left.Actions)
	for i := range hidden.Actions {
		if a := &hidden.Actions[i]; hides(a.Email) {
			a.Email = ""
		}
	}
	if hides(hidden.Email) {
		hidden.Email = ""
	}
	return &hidden
}

// PartOf returns a batch of the actions that any of the erasures covers, or nil if there are none.
// It does not modify the batch.
func PartOf(b *activity.Batch, erasures ...*Erasure) *activity.Batch {
	return keep(b, isErasedBy(b, erasures))
}

// isErasedBy returns a function that reports whether any of the erasures covers an action of the
// batch. It caches the result by user, since there may be thousands of erasures.
func isErasedBy(b *activity.Batch, erasures []*Erasure) func(*activity.BatchAction) bool {
	users := map[string]bool{}
	return func(a *activity.BatchAction) bool {
		is, known := users[a.UserID]
		if !known {
			is = slices.ContainsFunc(erasures, func(e *Erasure) bool { return e.Erases(b.SessionID, a.UserID) })
			users[a.UserID] = is
		}
		return is
	}
}

// keep returns a batch of the actions that keeps accepts: b itself for all, nil for none. If
// actions are left out, or if keeps rejects the session's user, the batch's identity is copied from
// the last action.
func keep(b *activity.Batch, keeps func(*activity.BatchAction) bool) *activity.Batch {
	kept := make([]activity.BatchAction, 0, len(b.Actions))
	for i := range b.Actions {
		if keeps(&b.Actions[i]) {
			kept = append(kept, b.Actions[i])
		}
	}
	switch {
	case len(kept) == 0 && len(b.Actions) > 0:
		return nil
	case len(kept) == 0, len(kept) == len(b.Actions) && keeps(&activity.BatchAction{UserID: b.UserID}):
		return b
	}
	part := *b
	last := kept[len(kept)-1]
	part.Actions, part.Count = kept, len(kept)
	part.UserID, part.Email, part.ConversationID = last.UserID, last.Email, last.ConversationID
	return &part
}
