// Package presence is the view of a service's log that keeps track of the live sessions,
// and shows one of them as an agent would see it.
package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// The view follows each product's log from its start, so after a restart it lags for a moment. A
// request waits until the view has everything that was in the log at the call: it reads the
// log's bounds, and waits until the follower's cursor has reached the newest ID. If storage has
// lost entries since the follower began, a waiting request makes it start over; a product that
// is registered again gets a new follower.

// ErrNotReady means that the service has not caught up with its log yet.
var ErrNotReady = errors.New("liveactivity: the service has not caught up with its log, or Run is not running")

// ErrUnknownSession means that a session had no activity within the retention.
var ErrUnknownSession = errors.New("liveactivity: the session is unknown")

// View holds the live sessions of all products. Each server has its own. It is safe for
// concurrent use.
//
// mu guards products and the fields of each followed.
type View struct {
	sessions *sessions.Memory
	log      eventlog.Log
	version  func(productID string) (document.Version, bool) // see New
	stopped  <-chan struct{}                                 // closed when the service begins to stop

	mu       sync.Mutex
	products map[string]*followed
}

// followed is the state of following a product's log from its start.
type followed struct {
	version document.Version   // the registration's, when it began
	lost    eventlog.ID        // the bounds' Lost, before the first read
	restart context.CancelFunc // ends this follower, so that Follow begins another
	cursor  eventlog.ID        // everything up to it is in the sessions
	moved   chan struct{}      // closed when the cursor moves or the following ends; then replaced
}

// New returns a view of a log, with the options of [sessions.NewMemory] as limits. The
// function version returns the version of a product's registration, which changes when the
// product is registered again, and whether the product is served. Once stopped is closed,
// nothing waits for the view.
func New(log eventlog.Log, version func(productID string) (document.Version, bool), stopped <-chan struct{},
	opts *sessions.MemoryOptions,
) (*View, error) {
	held, err := sessions.NewMemory(opts)
	if err != nil {
		return nil, err
	}
	return &View{sessions: held, log: log, version: version, stopped: stopped, products: map[string]*followed{}}, nil
}

// Follow follows a product's log until ctx ends, and returns its error, or until the source
// fails. It starts over when a request finds that storage has lost entries. When it returns,
// it has dropped the product's sessions. Calls for one product must not overlap.
func (v *View) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	for {
		following, restart := context.WithCancel(ctx)
		bounds, _ := v.log.Bounds(following, productID) // without bounds it may start over once more
		v.begin(productID, bounds.Lost, restart)
		err := source.Entries(following, eventlog.ID{}, func(at eventlog.ID, entries []eventlog.Entry) error {
			return v.take(following, productID, at, entries)
		})
		restarted := following.Err() != nil && ctx.Err() == nil
		restart()
		v.end(productID)
		if !restarted {
			return cmp.Or(ctx.Err(), err)
		}
	}
}

// begin begins to follow a product, which has no sessions at that point.
func (v *View) begin(productID string, lost eventlog.ID, restart context.CancelFunc) {
	version, _ := v.version(productID)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.products[productID] = &followed{version: version, lost: lost, restart: restart, moved: make(chan struct{})}
}

// end drops a product that is no longer followed.
func (v *View) end(productID string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.products[productID].moved)
	delete(v.products, productID)
	v.sessions.Drop(productID)
}

// take applies entries of the log up to the ID at, in order, and moves the cursor there, which wakes
// all waiters.
func (v *View) take(ctx context.Context, productID string, at eventlog.ID, entries []eventlog.Entry) error {
	for i := range entries {
		if err := v.apply(ctx, productID, &entries[i]); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.products[productID]
	f.cursor = at
	close(f.moved)
	f.moved = make(chan struct{})
	return nil
}

// apply applies an entry. It skips one that cannot be decoded.
func (v *View) apply(ctx context.Context, productID string, e *eventlog.Entry) error {
	if b, err := e.Decode(); err == nil && b != nil && b.SessionID != "" {
		v.sessions.Add(productID, b)
	} else if who, err := e.DecodeIdentity(); err == nil && who != nil {
		v.sessions.Identify(productID, who)
	} else if gone, err := e.DecodeErasure(); err == nil && gone != nil {
		return v.erase(ctx, productID, e.ID, gone)
	}
	return nil
}

// erase removes a person's sessions. A session in which others also acted stays: it gets their
// actions, under the identity of the newest one's user; the directory has kept its count of actions.
// The store of actions has already applied the erasure, with the append.
func (v *View) erase(ctx context.Context, productID string, at eventlog.ID, e *feed.Erasure) error {
	for _, id := range e.SessionIDs {
		row, ok := v.sessions.Session(productID, id, v.log.Now())
		var left recent.Snapshot
		if ok && len(e.Kept[id]) > 0 {
			var err error
			if left, err = v.log.Activity().Recent(ctx, productID, recent.Subject{SessionID: id}, math.MaxInt); err != nil {
				return fmt.Errorf("liveactivity: read session: %w", err)
			}
		}
		actions, err := left.Actions()
		if err != nil {
			return fmt.Errorf("liveactivity: read session: %w", err)
		}
		v.sessions.Remove(productID, id)
		if n := len(actions); n > 0 {
			v.sessions.Add(productID, remainder(&row, &left.Records[n-1], actions, at, e))
		}
	}
	return nil
}

// remainder returns the rest of a row after an erasure: the actions by others, under the user ID that
// the newest one had at that time. The store may know the visitor's user from a later entry; that entry
// also brings the address, and names only the visitor's row.
func remainder(
	row *sessions.Session, newest *recent.Record, actions []activity.Action, at eventlog.ID, e *feed.Erasure,
) *activity.Batch {
	left := &activity.Batch{SessionID: row.SessionID, UserID: newest.User, Email: row.Email}
	for _, a := range actions {
		left.Actions = append(left.Actions, activity.BatchAction{Action: a})
	}
	if newest.Since.Compare(recent.Position(at)) > 0 {
		left.UserID = newest.As
	}
	if row.UserID != left.UserID || e.HasEmail(row.Email) {
		left.Email = ""
	}
	return left
}

// passedEvery is how often a waiting request checks whether the entries that it waits for
// were trimmed, since trimming wakes nobody.
const passedEvery = 100 * time.Millisecond

// await waits until the view has everything that a product's log held at the call. The error
// is ErrNotReady if ctx or the service ends first, or storage's.
func (v *View) await(ctx context.Context, productID string) error {
	bounds, err := v.log.Bounds(ctx, productID)
	if err != nil {
		return fmt.Errorf("liveactivity: read sessions: %w", err)
	}
	until := bounds.Newest
	for {
		known, moved := v.knows(productID, until, bounds)
		if known {
			return nil
		}
		select {
		case <-ctx.Done():
			return ErrNotReady
		case <-v.stopped:
			return ErrNotReady
		case <-moved: // blocks forever if nil
		case <-time.After(passedEvery):
			if bounds, err = v.log.Bounds(ctx, productID); err != nil {
				return fmt.Errorf("liveactivity: read sessions: %w", err)
			}
		}
	}
}

// knows reports whether the view has the log up to an ID, not counting entries that are gone
// according to its bounds. If not, the returned channel is closed when that may have changed;
// it is nil while nobody follows the product. A follower that began before storage lost
// entries is made to start over.
func (v *View) knows(productID string, until eventlog.ID, b eventlog.Bounds) (known bool, moved <-chan struct{}) {
	version, served := v.version(productID)
	v.mu.Lock()
	defer v.mu.Unlock()
	f, ok := v.products[productID]
	switch {
	case !served: // nothing to wait for
		return true, nil
	case !ok:
		return false, nil
	case f.version != version: // a new follower is about to begin
		return false, f.moved
	case f.lost != b.Lost:
		f.restart()
		return false, f.moved
	}
	return f.cursor.Compare(until) >= 0 || b.TrimmedTo.Compare(until) >= 0, f.moved
}

// List returns the live sessions, the most recently seen first. It includes everything accepted
// before the call; if the view does not catch up before ctx ends, it returns [ErrNotReady]. A
// mistake in the query is a *[activity.QueryError]. A product that is not served has no
// sessions.
func (v *View) List(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error) {
	if err := v.await(ctx, productID); err != nil {
		return sessions.Listing{}, err
	}
	return v.sessions.List(productID, q, v.log.Now())
}

// Session returns a live session and its newest actions without Notes, with the
// guarantees of List. If there is no such session it returns [ErrUnknownSession].
func (v *View) Session(ctx context.Context, productID, sessionID string) (Detail, error) {
	if err := v.await(ctx, productID); err != nil {
		return Detail{}, err
	}
	session, ok := v.sessions.Session(productID, sessionID, v.log.Now())
	if !ok {
		return Detail{}, ErrUnknownSession
	}
	detail := Detail{Session: session}
	return detail, v.recall(ctx, productID, &detail)
}

// First returns the start of a live session, in epoch seconds; zero while the view does not know it.
func (v *View) First(productID, sessionID string) float64 {
	session, _ := v.sessions.Session(productID, sessionID, v.log.Now())
	return session.FirstSeen
}

// Expire removes the expired sessions. List and Session never return one, so Expire only frees
// memory.
func (v *View) Expire() { v.sessions.Expire(v.log.Now()) }

// maxRecent is the maximum number of a session's actions that are shown.
const maxRecent = 50

// recall reads a session's newest actions. It sets By only if they belong to more than one user.
func (v *View) recall(ctx context.Context, productID string, detail *Detail) error {
	of := recent.Subject{SessionID: detail.Session.SessionID}
	found, err := v.log.Activity().Recent(ctx, productID, of, maxRecent)
	if err != nil {
		return fmt.Errorf("liveactivity: read session: %w", err)
	}
	if detail.Recent, err = found.Actions(); err != nil {
		return fmt.Errorf("liveactivity: read session: %w", err)
	}
	users := make([]string, len(found.Records))
	for i, record := range found.Records {
		users[i] = record.User
	}
	if slices.ContainsFunc(users, func(user string) bool { return user != users[0] }) {
		detail.By = users
	}
	return nil
}
