package directory

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// Find returns the session for an event with a user but no session, such as an event from a
// company's servers. It is the session where the user was active in store within the retention, if
// there is exactly one that still belongs to the user and has no higher standing than the event.
// Otherwise it is a session of the user's own. That one begins with an action: until then Find
// returns "" for an event without an action.
func (d *Directory) Find(
	ctx context.Context, store recent.Store, productID string, e *activity.Event) (sessionID string, err error,
) {
	found, err := store.Recent(ctx, productID, recent.Subject{UserID: e.UserID}, recent.DefaultMaxEvents)
	if err != nil {
		return "", err
	}
	own := ownSession(e.UserID)
	var live []string
	hasOwn := e.Action != nil
	for _, r := range found.Records {
		switch {
		case r.Session == own:
			hasOwn = true
		case r.Session != "" && !slices.Contains(live, r.Session):
			live = append(live, r.Session)
		}
	}
	known, err := d.Sessions(ctx, productID, live...)
	if err != nil {
		return "", err
	}
	var theirs []int
	for i := range known {
		if known[i].UserID == e.UserID {
			theirs = append(theirs, i)
		}
	}
	if len(theirs) == 1 && e.Standing >= known[theirs[0]].Standing {
		return live[theirs[0]], nil
	}
	if hasOwn {
		return own, nil
	}
	return "", nil
}

// ownSession returns the ID of a user's own session, which is the same on every server. It does
// not reveal the user's ID, which may be claimed.
func ownSession(userID string) string {
	sum := sha256.Sum256([]byte(userID))
	return "user-" + uuid.UUID(sum[:len(uuid.UUID{})]).String()
}
