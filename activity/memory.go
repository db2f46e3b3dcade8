package activity

import (
	"context"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	TTL       time.Duration // how long an action is kept; DefaultTTL
	MaxEvents int           // actions kept per user; DefaultMaxEvents
	MaxUsers  int           // users kept, the least recently used go first; DefaultMaxUsers
}

// Memory is the [Store] that keeps everything in RAM. What it holds is bounded
// by MaxUsers × MaxEvents actions; a million users of fifty actions of 300
// bytes are 16 GB, so choose MaxUsers by the memory there is.
//
// Expired actions are never returned. They are freed when their user is next
// written or evicted, or by [Memory.Expire].
type Memory struct {
	ttl       time.Duration
	maxEvents int
	maxStarts int // kept of a session
	seed      maphash.Seed

	mu       sync.Mutex
	users    *simplelru.LRU[memoryKey, *memoryUser]
	sessions *simplelru.LRU[memoryKey, *timeline]
}

// memoryKey is a user or a session of a product.
type memoryKey struct{ product, id string }

// memoryUser holds a user's records in order of their start.
type memoryUser struct{ records []memoryRecord }

// memoryRecord is a [Record] that shares what actions of a session have in common.
type memoryRecord struct {
	id      uint64 // hash of the event's key
	start   int64
	session *timeline
	json    string
}

// timeline is the starts of a session's newest actions, in order, whichever
// user they belong to: sessions change user when a visitor identifies, and an
// action ends where the session's next one starts.
type timeline struct {
	session string
	starts  []int64
	users   []uint16 // of starts: hashes of the user ids
	// forgotten is the newest start dropped from starts; what followed it is
	// told by the user's own records and, where the next action was another
	// user's, by handovers: the starts of the actions before which the
	// session changed hands.
	forgotten int64
	handovers []int64
}

// maxHandovers is how many changes of user a timeline remembers beyond its starts.
const maxHandovers = 8

// NewMemory returns an empty store; opts may be nil.
func NewMemory(opts *MemoryOptions) *Memory {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	m := &Memory{ttl: o.TTL, maxEvents: o.MaxEvents, seed: maphash.MakeSeed()}
	if m.ttl <= 0 {
		m.ttl = DefaultTTL
	}
	if m.maxEvents <= 0 {
		m.maxEvents = DefaultMaxEvents
	}
	m.maxStarts = max(2*m.maxEvents, 2*DefaultMaxEvents) // also for what comes late
	if o.MaxUsers <= 0 {
		o.MaxUsers = DefaultMaxUsers
	}
	// NewLRU fails only for a size below one. A user has one session at a
	// time, seldom two; a session forgotten early costs a timestamp_end.
	m.users, _ = simplelru.NewLRU[memoryKey, *memoryUser](o.MaxUsers, nil)
	m.sessions, _ = simplelru.NewLRU[memoryKey, *timeline](2*o.MaxUsers, nil)
	return m
}

// Add implements [Store]. It fails only for an action whose start is no time.
func (m *Memory) Add(_ context.Context, b Batch) error {
	records := make([]Record, len(b.Actions))
	for i, a := range b.Actions {
		var err error
		if records[i], err = NewRecord(a.SessionID, a.Action); err != nil {
			return err
		}
	}
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range records {
		if r.Start >= oldest {
			m.add(b.ProductID, b.Actions[i], r, oldest)
		}
	}
	return nil
}

func (m *Memory) add(product string, a BatchAction, r Record, oldest int64) {
	user := a.UserID
	session := m.timeline(product, user, r.Session)
	who := uint16(maphash.String(m.seed, user))
	if user == "" {
		session.add(r.Start, who, m.maxStarts)
		return
	}
	u, ok := m.users.Get(memoryKey{product, user})
	if !ok {
		u = &memoryUser{}
		m.users.Add(memoryKey{product, user}, u)
	}
	key := EventKey(a.ID)
	record := memoryRecord{maphash.Bytes(m.seed, key[:]), r.Start, session, r.JSON}
	if u.add(record, m.maxEvents, oldest) {
		session.add(r.Start, who, m.maxStarts)
	}
}

// timeline returns that of the session. What a user does outside any session
// counts as a session of that user.
func (m *Memory) timeline(product, user, session string) *timeline {
	key := memoryKey{product, "s:" + session}
	if session == "" {
		key.id = "u:" + user
	}
	t, ok := m.sessions.Get(key)
	if !ok {
		t = &timeline{session: session}
		m.sessions.Add(key, t)
	}
	return t
}

// add files r and reports whether it did: not when the user has it already,
// nor when it is older than everything in a full memory.
func (u *memoryUser) add(r memoryRecord, limit int, oldest int64) bool {
	u.expire(oldest)
	if slices.ContainsFunc(u.records, func(have memoryRecord) bool { return have.id == r.id }) {
		return false
	}
	at := sort.Search(len(u.records), func(i int) bool { return u.records[i].start > r.start })
	if len(u.records) < limit {
		if len(u.records) == cap(u.records) {
			u.records = slices.Grow(u.records, min(max(4, len(u.records)), limit-len(u.records)))
		}
		u.records = slices.Insert(u.records, at, r)
		return true
	}
	if at == 0 {
		return false
	}
	copy(u.records, u.records[1:at])
	u.records[at-1] = r
	return true
}

// expire drops the records that start before oldest.
func (u *memoryUser) expire(oldest int64) {
	n := sort.Search(len(u.records), func(i int) bool { return u.records[i].start >= oldest })
	if n > 0 {
		u.records = slices.Delete(u.records, 0, n)
	}
}

// add takes note of an action, and forgets the oldest beyond limit.
func (t *timeline) add(start int64, user uint16, limit int) {
	if start <= t.forgotten {
		return // too late to matter
	}
	at := t.after(start)
	if at > 0 && t.starts[at-1] == start && t.users[at-1] == user {
		return // again, or as good as again
	}
	t.starts = slices.Insert(t.starts, at, start)
	t.users = slices.Insert(t.users, at, user)
	for len(t.starts) > limit {
		if t.users[0] != t.users[1] {
			t.handovers = append(t.handovers, t.starts[1])
			t.handovers = t.handovers[max(0, len(t.handovers)-maxHandovers):]
		}
		t.forgotten = t.starts[0]
		t.starts = slices.Delete(t.starts, 0, 1)
		t.users = slices.Delete(t.users, 0, 1)
	}
}

// after returns the position of the first start after the given one.
func (t *timeline) after(start int64) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > start })
}

// next returns the start of the first action after the given one, if it is
// known here: an action that was forgotten is known only where the session
// changed hands before it.
func (t *timeline) next(start int64) (int64, bool) {
	if start > t.forgotten {
		if i := t.after(start); i < len(t.starts) {
			return t.starts[i], true
		}
		return 0, false
	}
	i := sort.Search(len(t.handovers), func(i int) bool { return t.handovers[i] > start })
	if i < len(t.handovers) {
		return t.handovers[i], true
	}
	return 0, false
}

// Recent implements [Store]. It never fails.
func (m *Memory) Recent(_ context.Context, productID, userID string, limit int) (Recent, error) {
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.users.Get(memoryKey{productID, userID})
	if !ok {
		return nil, nil
	}
	u.expire(oldest)
	records := u.records[len(u.records)-min(max(limit, 0), len(u.records)):]
	recent := make(Recent, len(records))
	for i, r := range records {
		recent[i] = Record{Session: r.session.session, Start: r.start, End: end(records, i), JSON: r.json}
	}
	return recent, nil
}

// end returns where record i ends: at the session's next action, be it the
// user's own or, where the session changed hands, somebody else's; at its own
// start while there is none.
func end(records []memoryRecord, i int) int64 {
	r := records[i]
	next, ok := r.session.next(r.start)
	for _, later := range records[i+1:] {
		if later.session.session == r.session.session {
			if !ok || later.start < next {
				next, ok = later.start, true
			}
			break
		}
	}
	if !ok {
		return r.start
	}
	return next
}

// expireStep is how many users or sessions Expire looks at under one lock.
const expireStep = 1000

// Expire frees the actions that are older than the retention and returns how
// many users it forgot. Call it now and then; a minute apart is plenty. It
// locks the store for short steps only.
func (m *Memory) Expire() int {
	oldest := m.oldest()
	forgotten := 0
	expireEach(&m.mu, m.users, func(u *memoryUser) bool {
		if u.expire(oldest); len(u.records) > 0 {
			return false
		}
		forgotten++
		return true
	})
	expireEach(&m.mu, m.sessions, func(t *timeline) bool {
		return len(t.starts) == 0 || t.starts[len(t.starts)-1] < oldest
	})
	return forgotten
}

// expireEach removes from the cache the values that are done.
func expireEach[V any](mu *sync.Mutex, cache *simplelru.LRU[memoryKey, V], done func(V) bool) {
	mu.Lock()
	keys := cache.Keys()
	mu.Unlock()
	for step := range slices.Chunk(keys, expireStep) {
		mu.Lock()
		for _, key := range step {
			if v, ok := cache.Peek(key); ok && done(v) {
				cache.Remove(key)
			}
		}
		mu.Unlock()
	}
}

// Users returns how many users are held.
func (m *Memory) Users() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users.Len()
}

func (m *Memory) oldest() int64 { return time.Now().Add(-m.ttl).UnixMicro() }
