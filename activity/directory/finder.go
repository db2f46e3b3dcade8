package directory

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Finder finds sessions for events with a user but no session, such as events from a company's
// servers. It has no state of its own and is safe for concurrent use.
type Finder struct {
	store recent.Store
	dir   *Directory
}

// NewFinder returns a finder over the actions in store and the [Directory] in docs. It reports all
// invalid arguments together.
func NewFinder(store recent.Store, docs document.Store, ttl time.Duration) (*Finder, error) {
	wrong := options.Mistakes{Package: "directory"}
	wrong.Require(store != nil, "store", "must not be nil")
	dir, err := New(docs, ttl)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Finder{store, dir}, nil
}

// Find returns the session for an event with a user but no session. It is the session where the
// user was active within the retention, if there is exactly one that still belongs to the user
// and has no higher standing than the event. Otherwise it is a session of the user's own. That one
// begins with an action: until then Find returns "" for an event without an action.
func (f *Finder) Find(ctx context.Context, productID string, e *activity.Event) (sessionID string, err error) {
	found, err := f.store.Recent(ctx, productID, recent.Subject{UserID: e.UserID}, recent.DefaultMaxEvents)
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
	known, err := f.dir.Sessions(ctx, productID, live...)
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
