package sessions

import (
	"cmp"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/btree"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
)

// DefaultMaxBytes bounds the sessions of a product in memory.
const DefaultMaxBytes = 64 << 20

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	TTL        time.Duration // lifetime of a session after its newest action; activity.DefaultTTL
	MaxBytes   int64         // of a product's sessions; DefaultMaxBytes
	TotalBytes int64         // of all products; 2.5 % of the memory that the process may use
}

// Memory holds the sessions of every product in RAM. Their bytes are bounded per product and in total.
// Beyond a product's bound, the least recently written sessions are evicted; beyond the total,
// sessions of the product that uses most. A session takes about 700 bytes. The methods are safe for
// concurrent use.
type Memory struct {
	ttl int64 // microseconds

	// mu guards held and orders. The trees point to the values in held. A session is in both or in
	// neither, and is removed from its tree before its place changes.
	mu     sync.Mutex
	held   *fair.Cache[string, session]
	orders map[string]*btree.BTreeG[*session] // by product, in the order of listings; only products with sessions
}

// NewMemory returns an empty memory; opts may be nil. It reports all invalid options together.
func NewMemory(opts *MemoryOptions) (*Memory, error) {
	o := *cmp.Or(opts, &MemoryOptions{})
	wrong := options.Mistakes{Package: "sessions"}
	o.TTL = options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL)
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.TotalBytes = options.Default(&wrong, "TotalBytes", o.TotalBytes, memlimit.Sessions())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	m := &Memory{ttl: o.TTL.Microseconds(), orders: map[string]*btree.BTreeG[*session]{}}
	m.held = fair.New(&fair.Options{MaxBytes: o.MaxBytes, TotalBytes: o.TotalBytes}, m.unlist)
	return m, nil
}

// Add adds a batch of a product's log, which must not be empty, in the order of the log and once. It
// retains its strings, which should not be substrings of larger ones.
func (m *Memory) Add(productID string, b *activity.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	order := m.order(productID)
	held, isNew := m.held.Open(productID, b.SessionID)
	s := &held.Value
	if !isNew {
		order.Delete(s)
	}
	if first := micros(&b.Actions[0]); isNew || first-s.last > m.ttl { // an expired session starts over
		*s = session{place: place{math.MinInt64, held.Key()}, first: first}
	}
	s.take(b)
	order.ReplaceOrInsert(s)
	held.Keep(fair.Item{Bytes: s.bytes(), Due: max(1, s.last+m.ttl+1)})
	m.held.Trim(productID)
}

// order returns the tree of a product's sessions. It creates a missing one.
func (m *Memory) order(product string) *btree.BTreeG[*session] {
	order, ok := m.orders[product]
	if !ok {
		order = btree.NewG(treeDegree, func(a, b *session) bool { return a.isBefore(b.place) })
		m.orders[strings.Clone(product)] = order
	}
	return order
}

// Identify adds an identity of a product's log, as Add does: it sets the user and the email address of
// a session that belongs to the anonymous visitor, whose own address is not the user's, unless the visitor
// has acted since. A session that belongs to the user already gets the address. The session keeps its place
// in the list.
func (m *Memory) Identify(productID string, who *feed.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held.Find(productID, who.SessionID)
	if held == nil {
		return
	}
	isVisitors := held.Value.userID == who.AnonymousID && held.Value.last <= who.At
	if !isVisitors && (held.Value.userID != who.UserID || who.Email == "") {
		return
	}
	s := &held.Value
	s.userID, s.email = who.UserID, who.Email
	held.Keep(fair.Item{Bytes: s.bytes(), Due: max(1, s.last+m.ttl+1)})
	m.held.Trim(productID)
}

// treeDegree makes the nodes of the trees hold 31 to 63 sessions.
const treeDegree = 32

// unlist removes a session from the list.
func (m *Memory) unlist(held *fair.Entry[string, session]) {
	order := m.orders[held.Product()]
	order.Delete(&held.Value)
	if order.Len() == 0 {
		delete(m.orders, held.Product())
	}
}

// maxExamined is the number of sessions that a call of List examines, in a few milliseconds at most.
const maxExamined = 10_000

// List returns live sessions of a product. It examines at most 10,000 of them, so with a prefix, a
// listing other than the last may have fewer sessions than requested, or none. Its error is a
// *[activity.QueryError].
func (m *Memory) List(productID string, q Query, now time.Time) (Listing, error) {
	at, err := q.check() // the session examined last
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Sessions: []Session{}}
	limit, characters, examined := q.limit(), utf8.RuneCountInString(q.Prefix), 0
	m.mu.Lock()
	defer m.mu.Unlock()
	order, ok := m.orders[productID]
	if !ok {
		return l, nil
	}
	order.AscendGreaterOrEqual(&session{place: at}, func(s *session) bool {
		switch {
		case s.last < now.UnixMicro()-m.ttl:
			return false
		case s.place == at:
			return true
		case len(l.Sessions) == limit || examined == maxExamined:
			next := at.cursor()
			l.Next = &next
			return false
		}
		examined++
		if at = s.place; s.matches(q.Prefix, characters) {
			l.Sessions = append(l.Sessions, s.row())
		}
		return true
	})
	return l, nil
}

// Session returns a live session. It reports false for any other.
func (m *Memory) Session(productID, sessionID string, now time.Time) (Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held.Find(productID, sessionID)
	if held == nil || held.Value.last < now.UnixMicro()-m.ttl {
		return Session{}, false
	}
	return held.Value.row(), true
}

// Expire frees expired sessions, which are never returned in any case. Call it periodically.
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

// Remove removes a session, if it exists.
func (m *Memory) Remove(productID, sessionID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held := m.held.Find(productID, sessionID); held != nil {
		m.unlist(held)
		held.Remove()
	}
}

// Drop removes all sessions of a product.
func (m *Memory) Drop(productID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.orders, productID)
	m.held.Drop(productID)
}
