// Package presence is the view of a service's log that knows the live sessions, and shows
// one of them as an agent would see it.
package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// The view follows each product's log from its start, so after a restart it is behind for a
// moment. A request waits until the view has everything that was in the log at the call: it
// reads the log's bounds, and then waits for the cursor of the follower to pass the newest ID.
// Where the entries that storage has lost differ from the ones that the follower began with, a
// waiting request makes it begin again; a product that is registered anew gets another follower.

// ErrNotReady says that the service has not caught up with its log yet.
var ErrNotReady = errors.New("liveactivity: catching up with the log")

// ErrUnknownSession says that a session did nothing within the retention.
var ErrUnknownSession = errors.New("liveactivity: the session is unknown")

// View holds the live sessions of all products. Every server has its own. It is safe for
// concurrent use.
//
// mu guards products and the fields of each followed, and is held while sessions change.
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
	version document.Version   // of the registration, at the start
	lost    eventlog.ID        // of the log's bounds, before it was read
	restart context.CancelFunc // ends this follower, so that Follow begins another
	cursor  eventlog.ID        // everything up to it is in the sessions
	moved   chan struct{}      // closed when the cursor moves or the following ends; then replaced
}

// New returns a view of a log, bounded by the options of [sessions.NewMemory]. The function
// version returns the version of a product's registration, which changes when the
// product is registered anew, and whether the product is served. Nothing waits for the
// view once stopped is closed.
func New(log eventlog.Log, version func(productID string) (document.Version, bool), stopped <-chan struct{},
	opts *sessions.MemoryOptions,
) (*View, error) {
	held, err := sessions.NewMemory(opts)
	if err != nil {
		return nil, err
	}
	return &View{
		sessions: held, log: log, version: version, stopped: stopped, products: map[string]*followed{},
	}, nil
}

// Follow follows the log of a product until ctx ends, whose error it returns, or the source
// fails. It begins again when a request finds that storage has lost entries. The sessions of a
// product are gone when it returns. Calls for one product must not overlap.
func (v *View) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	for {
		following, restart := context.WithCancel(ctx)
		bounds, _ := v.log.Bounds(following, productID) // without them it may be followed once more
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

// begin begins to follow a product, which has no sessions by then.
func (v *View) begin(productID string, lost eventlog.ID, restart context.CancelFunc) {
	version, _ := v.version(productID)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.products[productID] = &followed{version: version, lost: lost, restart: restart, moved: make(chan struct{})}
}

// end forgets a product that is followed no more.
func (v *View) end(productID string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.products[productID].moved)
	delete(v.products, productID)
	v.sessions.Drop(productID)
}

// take takes over entries of the log, which end at an ID. Erasures are applied in their order
// among the entries: they cover the entries before them only. An entry that cannot be decoded
// is passed over.
func (v *View) take(ctx context.Context, productID string, at eventlog.ID, entries []eventlog.Entry) error {
	for i := range entries {
		e, err := entries[i].DecodeErasure()
		if err != nil || e == nil {
			continue
		}
		if i > 0 {
			v.add(productID, entries[i-1].ID, entries[:i])
		}
		if err := v.erase(ctx, productID, entries[i].ID, e); err != nil {
			return err
		}
		return v.take(ctx, productID, at, entries[i+1:])
	}
	v.add(productID, at, entries)
	return nil
}

// erase forgets the sessions of a person. One in which others acted, too, goes on with the
// newest action of theirs, under that user's identity, with the session's count of actions. The
// store of actions has applied the erasure already, with the append.
func (v *View) erase(ctx context.Context, productID string, at eventlog.ID, e *activity.Erasure) error {
	for _, id := range e.SessionIDs {
		row, ok := v.sessions.Session(productID, id, time.Now())
		var left recent.Records
		if ok && len(e.Kept[id]) > 0 {
			var err error
			if left, err = v.log.Activity().Session(ctx, productID, id, 1); err != nil {
				return fmt.Errorf("liveactivity: read session: %w", err)
			}
		}
		actions, err := left.Actions()
		if err != nil {
			return fmt.Errorf("liveactivity: read session: %w", err)
		}
		v.mu.Lock()
		v.sessions.Remove(productID, id)
		for i, a := range actions {
			v.sessions.Add(productID, remainder(&row, &left[i], &a, at, e))
		}
		v.mu.Unlock()
	}
	return nil
}

// remainder returns what an erasure leaves of a row: the newest action of others, under the user ID
// that it had then. The store may know from a later entry who the visitor was; that entry brings
// the address, too, and names no row but the visitor's.
func remainder(
	row *sessions.Session, newest *recent.Record, a *activity.Action, at eventlog.ID, e *activity.Erasure,
) sessions.Entry {
	left := sessions.Entry{SessionID: row.SessionID, UserID: newest.User, Email: row.Email,
		CanonicalURL: a.CanonicalURL, LastAction: a.Sentence(), First: newest.Start, Last: newest.Start,
		Actions: row.Actions}
	if newest.Since.Compare(recent.Position(at)) > 0 {
		left.UserID = newest.As
	}
	if row.UserID != left.UserID || e.HasEmail(row.Email) {
		left.Email = ""
	}
	return left
}

// add takes over entries that are no erasures, and moves the cursor to an ID, which wakes all
// waiters.
func (v *View) add(productID string, at eventlog.ID, entries []eventlog.Entry) {
	decoded := make([]sessions.Entry, 0, len(entries))
	for i := range entries {
		if b, err := entries[i].Decode(); err == nil && b != nil && b.SessionID != "" {
			decoded = append(decoded, sessions.NewEntry(b))
		} else if who, err := entries[i].DecodeIdentity(); err == nil && who != nil {
			decoded = append(decoded, sessions.Entry{SessionID: who.SessionID,
				IsIdentity: true, Anonymous: who.AnonymousID, UserID: who.UserID, Email: who.Email})
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions.Add(productID, decoded...)
	f := v.products[productID]
	f.cursor = at
	close(f.moved)
	f.moved = make(chan struct{})
}

// passedEvery is how often a waiting request checks whether the entries it waits for were
// trimmed, which wakes nobody.
const passedEvery = 100 * time.Millisecond

// await returns when the view has everything that the log of a product held at the call. The
// error is ErrNotReady when ctx or the service ends first, or storage's.
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
		case <-moved: // never when nil
		case <-time.After(passedEvery):
			if bounds, err = v.log.Bounds(ctx, productID); err != nil {
				return fmt.Errorf("liveactivity: read sessions: %w", err)
			}
		}
	}
}

// knows reports whether the view has the log up to an ID, except for entries that are gone by
// its bounds. If not, the channel is closed when that may have changed; it is nil while nobody
// follows the product. A follower from before storage lost entries is made to begin again.
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
	case f.version != version: // it is about to be followed anew
		return false, f.moved
	case f.lost != b.Lost:
		f.restart()
		return false, f.moved
	}
	return f.cursor.Compare(until) >= 0 || b.TrimmedTo.Compare(until) >= 0, f.moved
}

// List returns the live sessions, the session seen last first. It includes everything that was
// accepted before the call; if the view has not caught up with that before ctx ends, it returns
// [ErrNotReady]. A mistake in the query is a *[activity.QueryError]. A product that is not
// served has no sessions.
func (v *View) List(ctx context.Context, productID string, q sessions.Query) (sessions.Listing, error) {
	if err := v.await(ctx, productID); err != nil {
		return sessions.Listing{}, err
	}
	return v.sessions.List(productID, q, time.Now())
}

// Session returns a live session and its newest actions without Notes, as List does.
// Without such a session it returns [ErrUnknownSession].
func (v *View) Session(ctx context.Context, productID, sessionID string) (Detail, error) {
	if err := v.await(ctx, productID); err != nil {
		return Detail{}, err
	}
	session, ok := v.sessions.Session(productID, sessionID, time.Now())
	if !ok {
		return Detail{}, ErrUnknownSession
	}
	detail := Detail{Session: session}
	return detail, v.recall(ctx, productID, &detail)
}

// Expire forgets the sessions that have expired. List and Session never return one, so it only
// frees memory.
func (v *View) Expire() { v.sessions.Expire(time.Now()) }

// maxRecent is how many of a session's newest actions are shown.
const maxRecent = 50

// recall reads the newest actions of a session. The last one has the index of the session's
// last action. It sets By only where the actions are of more than one user.
func (v *View) recall(ctx context.Context, productID string, detail *Detail) error {
	found, err := v.log.Activity().Session(ctx, productID, detail.Session.SessionID, maxRecent)
	if err != nil {
		return fmt.Errorf("liveactivity: read session: %w", err)
	}
	if detail.Recent, err = found.Actions(); err != nil {
		return fmt.Errorf("liveactivity: read session: %w", err)
	}
	users := make([]string, len(found))
	for i, record := range found {
		users[i] = record.User
		detail.Recent[i].Index += max(0, detail.Session.Actions-len(found))
	}
	if slices.ContainsFunc(users, func(user string) bool { return user != users[0] }) {
		detail.By = users
	}
	return nil
}
