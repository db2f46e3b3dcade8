package activity

import (
	"context"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
)

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	TTL        time.Duration // how long an action is kept; DefaultTTL
	MaxEvents  int           // actions kept per user; DefaultMaxEvents
	MaxBytes   int64         // of what a product's users did; DefaultMaxBytes
	TotalBytes int64         // of all products; 7.5 % of the memory that the process may use
}

// Memory is the [Store] that keeps everything in RAM, within a number of bytes
// of each product and of all: what actions, users and sessions take. Beyond
// that the users written first go first, reading does not renew them; where all
// products together hold too much, those of the product that holds most. A user
// of fifty actions takes some 20 KB.
//
// Expired actions are never returned. They are freed when their user is next
// written or evicted, or by [Memory.Expire].
type Memory struct {
	ttl       time.Duration
	maxEvents int
	maxStarts int // kept of a session
	seed      maphash.Seed

	mu       sync.Mutex
	users    *memoryCache // *memoryUser by user
	sessions *memoryCache // *timeline by session
	outside  *memoryCache // *timeline, of what a user does outside any session, by user
}

// memoryCache is one of the caches beside each other.
type memoryCache = fair.Cache[string, any]

// memoryEntry is the place of a user or a timeline in its cache.
type memoryEntry = fair.Entry[string, any]

// memoryUser holds a user's records in order of their start.
type memoryUser struct {
	memoryEntry
	records []memoryRecord
	bytes   int64           // of the records' JSON
	first   [1]memoryRecord // memory of records, while one is enough
}

// memoryRecord is a [Record] that shares what actions of a session have in common.
type memoryRecord struct {
	id      uint64 // hash of the event's key
	start   int64
	session *timeline
	json    string
}

// timeline is the starts of a session's newest actions, in order, whichever
// user they belong to: sessions change user when a visitor identifies, and an
// action ends where the session's next one starts. It stays as long as there
// are records of it.
type timeline struct {
	memoryEntry
	outside bool // it is what a user does outside any session
	records int32
	starts  []begin
	// forgotten is the newest start dropped from starts; what followed it is
	// known from the user's own records and, where the next action was another
	// user's, by handovers: the starts of the actions before which the
	// session changed hands.
	forgotten int64
	handovers []int64
	first     [1]begin // memory of starts, which is enough for most sessions
}

// begin is the start of an action, and whose it is.
type begin struct {
	at   int64
	user uint16 // hash of the user id
}

// maxHandovers is how many changes of user a timeline remembers beyond its starts.
const maxHandovers = 8

// NewMemory returns an empty store; opts may be nil. It reports all invalid
// options at once.
func NewMemory(opts *MemoryOptions) (*Memory, error) {
	var o MemoryOptions
	if opts != nil {
		o = *opts
	}
	wrong := options.Mistakes{Package: "activity"}
	m := &Memory{seed: maphash.MakeSeed(),
		ttl:       options.Default(&wrong, "TTL", o.TTL, DefaultTTL),
		maxEvents: options.Default(&wrong, "MaxEvents", o.MaxEvents, DefaultMaxEvents)}
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.TotalBytes = options.Default(&wrong, "TotalBytes", o.TotalBytes, memlimit.Kept()/16*3)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	m.maxStarts = max(2*m.maxEvents, 2*DefaultMaxEvents) // also for what comes late
	m.users = fair.New(&fair.Options{MaxBytes: o.MaxBytes, TotalBytes: o.TotalBytes}, m.evicted)
	m.sessions, m.outside = m.users.Beside(), m.users.Beside()
	return m, nil
}

// Filing is the actions of a batch, validated and encoded: filing them cannot
// fail.
type Filing struct{ actions []filing }

type filing struct {
	key  Key
	user string
	Record
}

// NewFiling encodes the actions of a batch. It keeps their strings, which should
// not be parts of larger ones, and fails only for an invalid timestamp.
func NewFiling(b *Batch) (f Filing, err error) {
	f.actions = make([]filing, len(b.Actions))
	for i := range b.Actions {
		a := &b.Actions[i]
		f.actions[i].key, f.actions[i].user = EventKey(a.ID), a.UserID
		if f.actions[i].Record, err = NewRecord(a.SessionID, a.Action); err != nil {
			return Filing{}, err
		}
	}
	return f, nil
}

// Add files the actions of a batch. It fails, and files none, only for an invalid
// timestamp.
func (m *Memory) Add(_ context.Context, b Batch) error {
	f, err := NewFiling(&b)
	if err == nil {
		m.File(b.ProductID, f)
	}
	return err
}

// File files actions of a product, see [Store].
func (m *Memory) File(productID string, filings ...Filing) {
	if len(filings) == 0 {
		return
	}
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range filings {
		for i := range f.actions {
			if a := &f.actions[i]; a.Start >= oldest {
				m.add(productID, a, oldest)
			}
		}
	}
	m.users.Trim(productID)
}

func (m *Memory) add(product string, a *filing, oldest int64) {
	session := m.timeline(product, a.user, a.Session)
	who := uint16(maphash.String(m.seed, a.user))
	if a.user == "" {
		session.add(a.Start, who, m.maxStarts)
		session.Keep(m.sessionItem(session))
		return
	}
	u := m.user(product, a.user)
	record := memoryRecord{maphash.Bytes(m.seed, a.key[:]), a.Start, session, a.JSON}
	m.expireUser(u, oldest)
	if gone, ok := u.add(record, m.maxEvents); ok {
		session.add(a.Start, who, m.maxStarts)
		session.records++
		m.release(gone)
	}
	session.Keep(m.sessionItem(session))
	u.Keep(m.userItem(u))
}

// user returns the user of that id, which begins here if it is new.
func (m *Memory) user(product, id string) *memoryUser {
	if e := m.users.Find(product, id); e != nil {
		return e.Value.(*memoryUser)
	}
	u := &memoryUser{}
	u.Value, u.records = u, u.first[:0]
	m.users.Insert(product, id, &u.memoryEntry)
	return u
}

// timeline returns that of the session, which begins here if it is new. What a
// user does outside any session counts as a session of that user.
func (m *Memory) timeline(product, user, session string) *timeline {
	cache, id := m.sessions, session
	if session == "" {
		cache, id = m.outside, user
	}
	if e := cache.Find(product, id); e != nil {
		return e.Value.(*timeline)
	}
	t := &timeline{outside: session == ""}
	t.Value, t.starts = t, t.first[:0]
	cache.Insert(product, id, &t.memoryEntry)
	return t
}

// session returns the id of the timeline's session, empty for none.
func (t *timeline) session() string {
	if t.outside {
		return ""
	}
	return t.Key()
}

func (m *Memory) userItem(u *memoryUser) fair.Item {
	item := fair.Item{Due: m.due(0), Bytes: fair.Size(unsafe.Sizeof(*u)) - entrySize + fair.Size(len(u.Key())) + u.bytes}
	if cap(u.records) > len(u.first) {
		item.Bytes += fair.Size(cap(u.records) * int(unsafe.Sizeof(memoryRecord{})))
	}
	if len(u.records) > 0 {
		item.Due = m.due(u.records[0].start)
	}
	return item
}

func (m *Memory) sessionItem(t *timeline) fair.Item {
	item := fair.Item{Pinned: t.records > 0, Bytes: fair.Size(unsafe.Sizeof(*t)) - entrySize + fair.Size(len(t.Key())) + fair.Size(8*cap(t.handovers))}
	if cap(t.starts) > len(t.first) {
		item.Bytes += fair.Size(cap(t.starts) * int(unsafe.Sizeof(begin{})))
	}
	if t.records == 0 {
		item.Due = m.due(0)
		if n := len(t.starts); n > 0 {
			item.Due = m.due(t.starts[n-1].at)
		}
	}
	return item
}

// entrySize is what a cache counts of an entry that is a part of something larger.
var entrySize = fair.Size(unsafe.Sizeof(memoryEntry{}))

// due returns when an action of that start has expired, in microseconds since
// the epoch and above zero.
func (m *Memory) due(start int64) int64 { return max(1, start+m.ttl.Microseconds()+1) }

// release accounts for records that have been removed.
func (m *Memory) release(gone []memoryRecord) {
	for _, r := range gone {
		if r.session.records--; r.session.records == 0 {
			r.session.Set(m.sessionItem(r.session))
		}
	}
}

// evicted accounts for the eviction of a user or a session. The sessions that
// only the user had go, too.
func (m *Memory) evicted(entry *memoryEntry) {
	u, ok := entry.Value.(*memoryUser)
	if !ok {
		return
	}
	for _, r := range u.records {
		if r.session.records--; r.session.records == 0 {
			r.session.Remove()
		}
	}
}

// expireUser drops the user's records that start before oldest.
func (m *Memory) expireUser(u *memoryUser, oldest int64) {
	if n := u.before(oldest); n > 0 {
		gone := slices.Clone(u.records[:n])
		u.records = slices.Delete(u.records, 0, n)
		u.forget(gone)
		m.release(gone)
	}
}

// before returns how many records start before oldest.
func (u *memoryUser) before(oldest int64) int {
	return sort.Search(len(u.records), func(i int) bool { return u.records[i].start >= oldest })
}

// forget accounts for removed records.
func (u *memoryUser) forget(gone []memoryRecord) {
	for _, r := range gone {
		u.bytes -= fair.Size(len(r.json))
	}
}

// add files r, unless the user has it already or it is older than everything
// in a full memory, and returns what it pushed out.
func (u *memoryUser) add(r memoryRecord, limit int) (gone []memoryRecord, ok bool) {
	if slices.ContainsFunc(u.records, func(have memoryRecord) bool { return have.id == r.id }) {
		return nil, false
	}
	at := sort.Search(len(u.records), func(i int) bool { return u.records[i].start > r.start })
	if len(u.records) < limit {
		if len(u.records) == cap(u.records) {
			few := u.records
			u.records = slices.Grow(few, min(len(few), limit-len(few)))
			clear(few) // it may be first, which must not keep them
		}
		u.records = slices.Insert(u.records, at, r)
		u.bytes += fair.Size(len(r.json))
		return nil, true
	}
	if at == 0 {
		return nil, false
	}
	gone = []memoryRecord{u.records[0]}
	copy(u.records, u.records[1:at])
	u.records[at-1] = r
	u.bytes += fair.Size(len(r.json))
	u.forget(gone)
	return gone, true
}

// add adds an action, and trims the oldest beyond limit.
func (t *timeline) add(start int64, user uint16, limit int) {
	if start <= t.forgotten {
		return // too late to matter
	}
	at, b := t.after(start), begin{start, user}
	if at > 0 && t.starts[at-1] == b {
		return // a duplicate, or treated as one
	}
	t.starts = slices.Insert(t.starts, at, b)
	for len(t.starts) > limit {
		if t.starts[0].user != t.starts[1].user {
			t.handovers = append(t.handovers, t.starts[1].at)
			t.handovers = t.handovers[max(0, len(t.handovers)-maxHandovers):]
		}
		t.forgotten = t.starts[0].at
		t.starts = slices.Delete(t.starts, 0, 1)
	}
}

// after returns the position of the first start after the given one.
func (t *timeline) after(start int64) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i].at > start })
}

// next returns the start of the first action after the given one, if it is
// known here: an action that was forgotten is known only where the session
// changed hands before it.
func (t *timeline) next(start int64) (int64, bool) {
	if start > t.forgotten {
		if i := t.after(start); i < len(t.starts) {
			return t.starts[i].at, true
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
	held := m.users.Find(productID, userID)
	if held == nil {
		return nil, nil
	}
	u := held.Value.(*memoryUser)
	records := u.records[u.before(oldest):]
	records = records[len(records)-min(max(limit, 0), len(records)):]
	recent := make(Recent, len(records))
	for i, r := range records {
		recent[i] = Record{Session: r.session.session(), Start: r.start, End: end(records, i), JSON: r.json}
	}
	return recent, nil
}

// end returns where record i ends: at the session's next action, be it the
// user's own or, where the session changed hands, another user's; at its own
// start while there is none.
func end(records []memoryRecord, i int) int64 {
	r := records[i]
	next, ok := r.session.next(r.start)
	for _, later := range records[i+1:] {
		if later.session == r.session {
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

// expireStep is how many users and sessions Expire looks at under one lock.
const expireStep = 1000

// Expire frees the actions that are older than the retention and returns how
// many users it forgot. Call it now and then; a minute apart is plenty. It
// locks the store for short steps only.
func (m *Memory) Expire() (forgotten int) {
	for more := true; more; {
		var n int
		n, more = m.expireSome()
		forgotten += n
	}
	return forgotten
}

func (m *Memory) expireSome() (forgotten int, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := m.oldest()
	for range expireStep {
		due := m.users.Due(m.due(oldest - 1))
		if due == nil {
			return forgotten, false
		}
		if u, ok := due.Value.(*memoryUser); ok {
			if m.expireUser(u, oldest); len(u.records) > 0 {
				u.Set(m.userItem(u))
				continue
			}
			forgotten++
		}
		due.Remove()
	}
	return forgotten, true
}

// Drop forgets what the users of a product did.
func (m *Memory) Drop(productID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users.Drop(productID, func(any) {})
}

// Users returns how many users of a product are held.
func (m *Memory) Users(productID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users.Count(productID)
}

// Bytes returns what is held of a product's users.
func (m *Memory) Bytes(productID string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.users.Bytes(productID)
}

func (m *Memory) oldest() int64 { return time.Now().Add(-m.ttl).UnixMicro() }
