package sessions

import (
	"cmp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/btree"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
)

// DefaultMaxBytes bounds the sessions of a product in memory.
const DefaultMaxBytes = 64 << 20

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	TTL        time.Duration // how long a session is there after its newest action; activity.DefaultTTL
	MaxBytes   int64         // of a product's sessions; DefaultMaxBytes
	TotalBytes int64         // of all products; 2.5 % of the memory that the process may use
}

// Memory holds the sessions of every product in RAM, within a number of bytes of each product
// and of all. Beyond that the sessions written first are evicted; where all products together
// hold too much, the product that holds most loses its own. A session takes some 700 bytes. Its
// methods are safe for concurrent use.
//
// mu guards held and orders. The trees have pointers to the values in held, and a session is in
// both or in neither: it leaves its tree before its place changes.
type Memory struct {
	ttl int64 // microseconds

	mu     sync.Mutex
	held   *fair.Cache[string, session]
	orders map[string]*btree.BTreeG[*session] // by product, as they are listed; of those that hold sessions
}

// NewMemory returns an empty memory; opts may be nil. It reports all invalid
// options at once.
func NewMemory(opts *MemoryOptions) (*Memory, error) {
	o := *cmp.Or(opts, &MemoryOptions{})
	wrong := options.Mistakes{Package: "sessions"}
	o.TTL = options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL)
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.TotalBytes = options.Default(&wrong, "TotalBytes", o.TotalBytes, memlimit.Kept()/16)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	m := &Memory{ttl: o.TTL.Microseconds(), orders: map[string]*btree.BTreeG[*session]{}}
	m.held = fair.New(&fair.Options{MaxBytes: o.MaxBytes, TotalBytes: o.TotalBytes}, m.unlist)
	return m, nil
}

// Add takes over entries of a product's log, in the order of the log and each
// once. It keeps their session IDs and texts, which should not be parts of
// larger strings.
func (m *Memory) Add(productID string, entries ...Entry) {
	if len(entries) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range entries {
		if entries[i].IsIdentity {
			m.name(productID, &entries[i])
		} else {
			m.add(productID, m.order(productID), &entries[i])
		}
	}
	m.held.Trim(productID)
}

// order returns a product's sessions as they are listed, which begin here if there are none.
func (m *Memory) order(product string) *btree.BTreeG[*session] {
	order, ok := m.orders[product]
	if !ok {
		order = btree.NewG(treeDegree, func(a, b *session) bool { return a.isBefore(b.place) })
		m.orders[strings.Clone(product)] = order
	}
	return order
}

// add takes over an entry with actions.
func (m *Memory) add(product string, order *btree.BTreeG[*session], e *Entry) {
	held, isNew := m.held.Open(product, e.SessionID)
	s := &held.Value
	if !isNew {
		order.Delete(s)
	}
	if isNew || e.First-s.last > m.ttl { // a session that has expired begins anew
		*s = session{place: place{e.Last, held.Key()}, first: e.First}
	}
	s.take(e)
	order.ReplaceOrInsert(s)
	held.Keep(fair.Item{Bytes: s.bytes(), Due: max(1, s.last+m.ttl+1)})
}

// name gives a session that is of the anonymous visitor the visitor's user, with the address.
// It does not move in the list.
func (m *Memory) name(product string, e *Entry) {
	held := m.held.Find(product, e.SessionID)
	if held == nil || held.Value.userID != e.Anonymous {
		return
	}
	s := &held.Value
	s.userID, s.email = e.UserID, cmp.Or(e.Email, s.email)
	held.Keep(fair.Item{Bytes: s.bytes(), Due: max(1, s.last+m.ttl+1)})
}

// treeDegree makes the nodes of the trees hold 31 to 63 sessions.
const treeDegree = 32

// unlist takes a session out of the list.
func (m *Memory) unlist(held *fair.Entry[string, session]) {
	order := m.orders[held.Product()]
	order.Delete(&held.Value)
	if order.Len() == 0 {
		delete(m.orders, held.Product())
	}
}

const (
	maxExamined = 10_000 // sessions, by a call of List
	listStep    = 1000   // of these, under one lock
)

// List returns the sessions of a product that are there now. It looks at no more than 10,000 of
// them: with a prefix, a listing that is not the last may have fewer sessions than asked for,
// or none. Its error is a *[activity.QueryError]. Writers have their turn between its steps.
func (m *Memory) List(productID string, q Query, now time.Time) (Listing, error) {
	at, err := q.check()
	if err != nil {
		return Listing{}, err
	}
	l := list{
		listing: Listing{Sessions: []Session{}}, limit: q.limit(), at: at,
		prefix: q.Prefix, characters: utf8.RuneCountInString(q.Prefix),
	}
	for l.examined < maxExamined && !l.done {
		m.step(productID, &l, now)
	}
	if !l.done {
		l.next()
	}
	return l.listing, nil
}

// list is a call of List. One goroutine uses it.
type list struct {
	listing    Listing
	prefix     string
	characters int // of the prefix
	limit      int
	at         place // of the last session that was looked at
	examined   int
	done       bool
}

// step looks at some sessions, and is done at the end or with a full listing.
func (m *Memory) step(productID string, l *list, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := now.UnixMicro() - m.ttl
	until := l.examined + listStep
	l.done = true // unless there is more
	order, ok := m.orders[productID]
	if !ok {
		return
	}
	order.AscendGreaterOrEqual(&session{place: l.at}, func(s *session) bool {
		switch {
		case s.last < oldest:
			return false
		case s.place == l.at:
			return true
		case len(l.listing.Sessions) == l.limit:
			l.next()
			return false
		case l.examined == until:
			l.done = false
			return false
		}
		l.examined++
		l.at = s.place
		if s.matches(l.prefix, l.characters) {
			l.listing.Sessions = append(l.listing.Sessions, s.row())
		}
		return true
	})
}

// next makes the listing end where the list is, with more to come.
func (l *list) next() {
	next := l.at.cursor()
	l.listing.Next = &next
}

// Session returns a session that is there now. It returns false for one that is not
// there.
func (m *Memory) Session(productID, sessionID string, now time.Time) (Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held.Find(productID, sessionID)
	if held == nil || held.Value.last < now.UnixMicro()-m.ttl {
		return Session{}, false
	}
	return held.Value.row(), true
}

// Expire frees the sessions that are no longer there. Call it now and then: they
// are not listed in any case.
func (m *Memory) Expire(now time.Time) {
	fair.Sweep(&m.mu, func() bool {
		due := m.held.Due(now.UnixMicro())
		if due != nil {
			m.unlist(due)
			due.Remove()
		}
		return due != nil
	})
}

// Remove forgets a session, if it is there.
func (m *Memory) Remove(productID, sessionID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held := m.held.Find(productID, sessionID); held != nil {
		m.unlist(held)
		held.Remove()
	}
}

// Drop forgets the sessions of a product.
func (m *Memory) Drop(productID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.orders, productID)
	m.held.Drop(productID)
}

// Bytes returns the memory of a product's sessions, in bytes. Expired ones count until they are
// freed.
func (m *Memory) Bytes(productID string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held.Bytes(productID)
}
