package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Erasures are the "erase" entries that a product's log retains. An engine adds all of them,
// and applies them to every entry that it reads. The zero value is empty. Erasures are safe
// for concurrent use.
type Erasures struct {
	// mu guards the fields. No erasure is before oldest or after newest, so a trim before oldest and
	// an entry after newest need no lookup. of lists an erasure under each subject that it names, in
	// no order.
	mu             sync.RWMutex
	oldest, newest eventlog.ID
	of             map[subject][]erasure
}

// subject is a session or a user that an erasure names.
type subject struct{ session, user string }

// erasure is an "erase" entry.
type erasure struct {
	id eventlog.ID
	*feed.Erasure
}

// Add adds the "erase" entries among the given ones, in any order; adding an entry twice has
// no effect. The entries must have their IDs. Other entries, and entries that cannot be
// decoded, are ignored.
func (x *Erasures) Add(entries ...eventlog.Entry) {
	for i := range entries {
		e, err := entries[i].DecodeErasure()
		if err != nil || e == nil {
			continue
		}
		x.mu.Lock()
		x.add(erasure{entries[i].ID, e})
		x.mu.Unlock()
	}
}

// add adds an erasure under its subjects, once. It replaces an earlier one that erases the
// same, because the later one covers everything that the earlier one does. mu is held.
func (x *Erasures) add(e erasure) {
	if len(x.of) == 0 {
		x.of, x.oldest = map[subject][]erasure{}, e.id
	}
	isLast := e.id.Compare(x.newest) > 0 // and so cannot be there yet
	x.oldest, x.newest = eventlog.Earlier(x.oldest, e.id), eventlog.Later(x.newest, e.id)
	for _, s := range e.subjects() {
		if all := x.of[s]; len(all) > 0 && all[len(all)-1].isRepeatedBy(e) {
			all[len(all)-1] = e
			continue
		}
		if isLast || !slices.ContainsFunc(x.of[s], func(known erasure) bool { return known.id == e.id }) {
			x.of[s] = append(x.of[s], e)
		}
	}
}

// subjects returns the sessions and the user that the erasure names.
func (e erasure) subjects() []subject {
	all := make([]subject, 0, len(e.SessionIDs)+1)
	for _, id := range e.SessionIDs {
		all = append(all, subject{session: id})
	}
	if e.UserID != "" {
		all = append(all, subject{user: e.UserID})
	}
	return all
}

// isRepeatedBy reports whether the other erasure is later and erases the same.
func (e erasure) isRepeatedBy(later erasure) bool {
	return e.id.Compare(later.id) < 0 && e.UserID == later.UserID && slices.Equal(e.SessionIDs, later.SessionIDs) &&
		slices.Equal(e.EmailsSHA256, later.EmailsSHA256) && maps.EqualFunc(e.Kept, later.Kept, slices.Equal[[]string])
}

// Apply removes from the entries everything that later erasures cover. The entries must have
// their IDs. Apply changes the slice, but not the memory of its entries, which readers share.
// An entry that cannot be decoded stays as it is.
func (x *Erasures) Apply(entries []eventlog.Entry) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range entries {
		e := &entries[i]
		if e.ID.Compare(x.newest) >= 0 {
			continue
		}
		if covering := x.covering(e); covering != nil {
			_ = e.Erase(covering...) // cannot fail: it was decoded before
		}
	}
}

// covering returns the erasures after an entry that name its session or one of its users,
// each once. mu is held.
func (x *Erasures) covering(e *eventlog.Entry) (all []*feed.Erasure) {
	// There may be thousands of erasures, and as many actions alternating between
	// two users.
	named, done := map[*feed.Erasure]bool{}, map[subject]bool{}
	add := func(s subject) {
		if len(x.of[s]) == 0 || done[s] {
			return
		}
		done[s] = true
		for _, later := range x.of[s] {
			if e.ID.Compare(later.id) < 0 && !named[later.Erasure] {
				named[later.Erasure] = true
				all = append(all, later.Erasure)
			}
		}
	}
	if e.SessionID != "" {
		add(subject{session: e.SessionID})
	}
	if b, err := e.Decode(); err == nil && b != nil {
		add(subject{user: b.UserID}) // perhaps without an action
		for i := range b.Actions {
			add(subject{user: b.Actions[i].UserID})
		}
	} else if who, err := e.DecodeIdentity(); err == nil && who != nil {
		add(subject{user: who.UserID})
	}
	return all
}

// DropUpTo forgets the erasures up to an ID. A log trimmed to that ID has no entries that they
// cover.
func (x *Erasures) DropUpTo(id eventlog.ID) {
	x.mu.RLock() // which does not wait for readers
	none := len(x.of) == 0 || id.Compare(x.oldest) < 0
	x.mu.RUnlock()
	if none {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.oldest = x.newest
	for s, all := range x.of {
		x.of[s] = slices.DeleteFunc(all, func(e erasure) bool { return e.id.Compare(id) <= 0 })
		for _, left := range x.of[s] {
			x.oldest = eventlog.Earlier(x.oldest, left.id)
		}
		if len(x.of[s]) == 0 {
			delete(x.of, s)
		}
	}
}
