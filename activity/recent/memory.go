package recent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/options"
)

// MemoryOptions are the bounds of a [Memory]. A zero field means its default.
type MemoryOptions struct {
	TTL        time.Duration // lifetime of an action; DefaultTTL
	MaxEvents  int           // actions kept per user; DefaultMaxEvents
	MaxBytes   int64         // of a product's activity; DefaultMaxBytes
	TotalBytes int64         // of all products; 7.5 % of the memory that the process may use
}

// Memory is a [Store] in RAM. The bytes of actions, users and sessions are bounded per product and in
// total. Beyond a product's bound, the least recently written sessions are evicted; beyond the
// total, sessions of the product that uses most. Reading does not renew a session. A session with
// fifty actions takes about 20 KB.
//
// Expired actions are never returned. They are freed when their session is written or evicted, or by
// [Memory.Expire].
type Memory struct {
	ttl       time.Duration
	maxEvents int
	maxHeld   int // of a session

	// mu guards newest and all fields after it, as well as all sessions.
	mu     sync.Mutex
	newest map[string]Position // by product; of products with activity, and some others
	// most is the length of newest at which the positions of products without activity are dropped.
	most int
	// users has, by product and user ID, the sessions that the user is an owner of, at most the newest
	// maxEvents. It has only products with users and users with sessions, and counts in the cost of these.
	users map[string]map[string][]userSession
	held  *fair.Cache[memoryKey, memorySession]
	// before and after have the owners of the session that change was called with.
	before, after []owner
}

// memoryKey is the key of a session or, if isOutside, of a user's actions outside any session.
type memoryKey struct {
	isOutside bool
	id        string // of the session or the user
}

// userSession is a session of a user; see owners for the number.
type userSession struct {
	*memorySession
	newest int64
}

// memorySession is a session, or a user's actions outside any.
type memorySession struct {
	*fair.Entry[memoryKey, memorySession] // which it is the value of
	Held
	added int   // actions since the last pack
	spare int64 // size of the packed JSON of former actions
}

// NewMemory returns an empty store; opts may be nil. It reports all invalid options together.
func NewMemory(opts *MemoryOptions) (*Memory, error) {
	o := *cmp.Or(opts, &MemoryOptions{})
	wrong := options.Mistakes{Package: "recent"}
	m := &Memory{newest: map[string]Position{}, users: map[string]map[string][]userSession{},
		ttl:       options.Default(&wrong, "TTL", o.TTL, activity.DefaultTTL),
		maxEvents: options.Default(&wrong, "MaxEvents", o.MaxEvents, DefaultMaxEvents)}
	o.MaxBytes = options.Default(&wrong, "MaxBytes", o.MaxBytes, DefaultMaxBytes)
	o.TotalBytes = options.Default(&wrong, "TotalBytes", o.TotalBytes, memlimit.Actions())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	m.maxHeld = MaxHeld(m.maxEvents)
	m.held = fair.New(&fair.Options{MaxBytes: o.MaxBytes, TotalBytes: o.TotalBytes},
		func(e *fair.Entry[memoryKey, memorySession]) { m.unlink(&e.Value, e.Value.owners(nil), nil) })
	return m, nil
}

// Add files the actions of a batch. It fails, and files none, only for an invalid timestamp.
func (m *Memory) Add(_ context.Context, b activity.Batch) error {
	f, err := NewFiling(&b)
	if err == nil {
		m.File(b.ProductID, f)
	}
	return err
}

// Identify files an identity. It never fails.
func (m *Memory) Identify(_ context.Context, who feed.Identity) error {
	m.File(who.ProductID, NewIdentityFiling(&who))
	return nil
}

// File files actions, identities and erasures of a product in order; see [Store]. Reads see all of
// them or none.
func (m *Memory) File(productID string, filings ...Filing) {
	if len(filings) == 0 {
		return
	}
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range filings {
		m.arrive(productID, &f)
		actions := slices.DeleteFunc(f.actions, func(a HeldAction) bool {
			return a.Start < oldest || f.session == "" && a.User == ""
		})
		together := max(1, len(actions))
		if f.session == "" { // each is its user's
			together = 1
		}
		for actions := range slices.Chunk(actions, together) {
			m.add(productID, f.session, actions, oldest)
		}
		if f.identity != nil && f.identity.At >= oldest && f.identity.SessionID != "" {
			m.identify(productID, f.identity, f.Arrived)
		}
		if f.erasure != nil {
			m.erase(productID, f.erasure)
		}
	}
	m.held.Trim(productID)
}

// leastKnown is the number of products whose newest positions are always kept.
const leastKnown = 16

// arrive records the position of a filing and sets it in its actions. The caller holds mu.
func (m *Memory) arrive(productID string, f *Filing) {
	newest, known := m.newest[productID]
	if f.Arrived == (Position{}) {
		f.Arrived = later(Position{newest.Milli, newest.Seq + 1}, Position{Milli: uint64(time.Now().UnixMilli())})
	}
	if !known {
		if len(m.newest) >= m.most {
			maps.DeleteFunc(m.newest, func(id string, _ Position) bool { return m.held.Bytes(id) == 0 })
			m.most = max(leastKnown, 2*len(m.newest))
		}
		productID = strings.Clone(productID)
	}
	m.newest[productID] = later(newest, f.Arrived)
	for i := range f.actions {
		f.actions[i].Arrived = f.Arrived
	}
}

// add files unexpired actions in their session, or one among its user's actions outside sessions.
func (m *Memory) add(product, session string, actions []HeldAction, oldest int64) {
	s := m.session(product, actions[0].User, session)
	s.Keep(m.change(s, func() {
		s.expire(oldest)
		for _, a := range actions {
			s.insert(a, m.maxEvents, m.maxHeld)
		}
	}))
}

// identify files an identity, which may change the owner of earlier actions of the session. A known
// identity only renews the session.
func (m *Memory) identify(product string, who *feed.Identity, arrived Position) {
	s := m.session(product, "", who.SessionID)
	said := HeldIdentity{who.At, who.AnonymousID, who.UserID, who.Standing, arrived}
	s.Keep(m.change(s, func() {
		if slices.ContainsFunc(s.Identities, said.isSame) {
			return
		}
		if s.Identities = append(s.Identities, said); len(s.Identities) > MaxIdentities {
			s.dropIdentity()
		}
	}))
}

// erase removes the activity that an erasure covers.
func (m *Memory) erase(product string, e *feed.Erasure) {
	for _, id := range e.SessionIDs {
		if held := m.held.Find(product, memoryKey{id: id}); held != nil {
			m.eraseIn(&held.Value, e)
		}
	}
	if held := m.held.Find(product, memoryKey{true, e.UserID}); held != nil {
		m.eraseIn(&held.Value, e)
	}
	for _, s := range slices.Clone(m.users[product][e.UserID]) { // also in sessions that e does not name
		m.eraseIn(s.memorySession, e)
	}
}

// eraseIn removes the actions and identities of a session that an erasure covers, and the session if
// nothing is left.
func (m *Memory) eraseIn(s *memorySession, e *feed.Erasure) {
	m.shrink(s, func() {
		s.Actions = slices.DeleteFunc(s.Actions, func(a HeldAction) bool { return e.Erases(s.Session, a.User) })
		s.Identities = slices.DeleteFunc(s.Identities,
			func(said HeldIdentity) bool { return e.Erases(s.Session, said.UserID) })
		s.pack()
	})
}

// shrink calls do, which takes actions and identities from the session, and removes the session if
// nothing is left of it, which it reports.
func (m *Memory) shrink(s *memorySession, do func()) (isGone bool) {
	item := m.change(s, do)
	if isGone = len(s.Actions)+len(s.Identities) == 0; isGone {
		s.Remove()
	} else {
		s.Set(item)
	}
	return isGone
}

// session returns the session with an ID, or the user's actions outside sessions if the ID is empty.
// It creates a missing one.
func (m *Memory) session(product, user, session string) *memorySession {
	key := memoryKey{id: session}
	if session == "" {
		key = memoryKey{true, user}
	}
	e, isNew := m.held.Open(product, key)
	if isNew {
		e.Value = memorySession{Entry: e, Held: Held{Session: session}}
	}
	return &e.Value
}

// insert files an action and removes the oldest beyond the limits of its user and of the session. If
// the session has the action already or is full of newer ones, it changes nothing. Its time is linear
// in the number of the session's actions.
func (s *memorySession) insert(a HeldAction, maxEvents, maxHeld int) {
	have, first := 0, 0
	for i := range s.Actions {
		switch held := &s.Actions[i]; {
		case held.id == a.id:
			return
		case held.User == a.User:
			if a.User = held.User; have == 0 { // shares one string
				first = i
			}
			have++
		}
	}
	at := sort.Search(len(s.Actions), func(i int) bool { return s.Actions[i].Start > a.Start })
	isFull := have >= maxEvents
	if !isFull {
		first, isFull = 0, len(s.Actions) >= maxHeld
	}
	switch {
	case isFull && at <= first:
		return
	case isFull:
		s.drop(first, first+1)
		at--
	}
	s.Actions = slices.Insert(s.Actions, at, a)
	if s.added++; s.added == packEvery {
		s.pack()
	}
}

// drop removes actions. Packed JSON of theirs remains in memory until the next pack.
func (s *memorySession) drop(from, to int) {
	for _, a := range s.Actions[from:to] {
		if a.packed {
			s.spare += fair.Size(len(a.JSON))
		}
	}
	s.Actions = slices.Delete(s.Actions, from, to)
}

// packEvery is the number of actions after which a session is packed.
const packEvery = 8

// pack moves the JSON of the session's actions into one piece of memory. Fetching fifty strings from all
// over the memory would take a lookup half as long again.
func (s *memorySession) pack() {
	size := 0
	for i := range s.Actions {
		size += len(s.Actions[i].JSON)
	}
	var packed strings.Builder
	packed.Grow(size)
	for i := range s.Actions {
		packed.WriteString(s.Actions[i].JSON)
	}
	rest := packed.String()
	for i := range s.Actions {
		a := &s.Actions[i]
		n := len(a.JSON)
		a.JSON, a.packed, rest = rest[:n], true, rest[n:]
	}
	s.added, s.spare = 0, 0
}

// owner is a user that owns actions of a session, with the start of the newest one, or that the session
// identified, with zero.
type owner struct {
	id     string
	newest int64
}

func (o owner) compare(other owner) int { return cmp.Compare(o.id, other.id) }

// owners returns the session's owners, ordered by ID, in the memory of an empty slice.
func (s *memorySession) owners(owners []owner) []owner {
	for i := range s.Identities {
		owners = append(owners, owner{id: s.Identities[i].UserID})
	}
	for i := range s.Actions {
		id, _ := s.owner(&s.Actions[i])
		if n := len(owners); n > 0 && owners[n-1].id == id {
			owners[n-1].newest = s.Actions[i].Start
		} else if id != "" {
			owners = append(owners, owner{id, s.Actions[i].Start})
		}
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Or(a.compare(b), cmp.Compare(b.newest, a.newest)) })
	return slices.CompactFunc(owners, func(a, b owner) bool { return a.id == b.id })
}

// change calls do, which changes the session's actions and identities, keeps users in step, and returns
// the session's item.
func (m *Memory) change(s *memorySession, do func()) fair.Item {
	m.before = s.owners(m.before[:0])
	do()
	m.after = s.owners(m.after[:0])
	m.unlink(s, m.before, m.after)
	for _, of := range m.after {
		m.link(s, of)
	}
	item := m.item(s, len(m.after))
	clear(m.before) // keep no ID of a former owner
	clear(m.after)
	return item
}

// link associates the session with one of its owners. Beyond maxEvents sessions it dissociates the user
// from the one whose newest action is the oldest: each of the others has an action that is no older,
// and only maxEvents actions are kept of a user. The starts are kept beside the sessions: anybody can
// send a user's actions in ever more sessions, each of which may have hundreds of actions to look at.
func (m *Memory) link(s *memorySession, by owner) {
	users := m.users[s.Product()]
	if users == nil {
		users = map[string][]userSession{}
		m.users[s.Product()] = users
	}
	sessions := users[by.id]
	at := slices.IndexFunc(sessions, func(of userSession) bool { return of.memorySession == s })
	if at < 0 {
		at = len(sessions)
		sessions = append(sessions, userSession{memorySession: s})
	}
	sessions[at].newest = by.newest
	if len(sessions) > m.maxEvents {
		oldest := slices.MinFunc(sessions, func(a, b userSession) int { return cmp.Compare(a.newest, b.newest) })
		sessions = slices.DeleteFunc(sessions, func(of userSession) bool { return of == oldest })
	}
	users[by.id] = sessions
}

// unlink dissociates the session from its former owners, except for those that remain. It removes a
// user without sessions.
func (m *Memory) unlink(s *memorySession, owners, remain []owner) {
	users := m.users[s.Product()]
	for _, former := range owners {
		if _, remains := slices.BinarySearchFunc(remain, former, owner.compare); remains {
			continue
		}
		left := slices.DeleteFunc(users[former.id], func(of userSession) bool { return of.memorySession == s })
		if len(left) == 0 {
			delete(users, former.id)
			continue
		}
		users[former.id] = left
	}
	if len(users) == 0 {
		delete(m.users, s.Product())
	}
}

// visits returns the sessions that have actions appended with the user's ID, all of which other users
// own now, and did not identify the user; at most the newest maxEvents.
func (m *Memory) visits(productID, userID string) (ids []string) {
	newest := map[string]int64{}
	m.held.SweepEach(&m.mu, productID, func(e *fair.Entry[memoryKey, memorySession]) {
		if s := &e.Value; s.wasVisitor(userID) {
			newest[s.Session] = s.Actions[len(s.Actions)-1].Start
		}
	})
	ids = slices.SortedFunc(maps.Keys(newest), func(a, b string) int { return cmp.Compare(newest[b], newest[a]) })
	return ids[:min(len(ids), m.maxEvents)]
}

// wasVisitor reports whether the session identified the visitor with this ID, who is no owner of it, and
// has actions that were appended with the ID.
func (s *memorySession) wasVisitor(id string) bool {
	if id == "" || !slices.ContainsFunc(s.Identities, func(said HeldIdentity) bool { return said.Anonymous == id }) ||
		!slices.ContainsFunc(s.Actions, func(a HeldAction) bool { return a.User == id }) {
		return false
	}
	return !slices.ContainsFunc(s.owners(nil), func(of owner) bool { return of.id == id })
}

// item returns the cost of a session with so many owners, and the expiry of its oldest action or, without actions, of
// its last identity.
func (m *Memory) item(s *memorySession, owners int) fair.Item {
	item := fair.Item{Due: m.due(0), Bytes: int64(unsafe.Sizeof(*s)) + fair.Size(len(s.Key().id)) +
		fair.Size(cap(s.Actions)*int(unsafe.Sizeof(HeldAction{}))) + int64(owners)*userSize + s.spare}
	for _, said := range s.Identities {
		item.Bytes += fair.Size(unsafe.Sizeof(said)) + fair.Size(len(said.Anonymous)) + fair.Size(len(said.UserID))
		item.Due = m.due(said.At)
	}
	for i := range s.Actions {
		item.Bytes += fair.Size(len(s.Actions[i].JSON))
		if user := s.Actions[i].User; i == 0 || user != s.Actions[i-1].User {
			item.Bytes += fair.Size(len(user))
		}
	}
	if len(s.Actions) > 0 {
		item.Due = m.due(s.Actions[0].Start)
	}
	return item
}

// userSize is the approximate memory of a user in bytes, without the ID, which a session's actions and
// identities share: its place in the map, and its reference to the session.
const userSize = 200

// due returns the expiry of an action, in microseconds since the epoch and above zero.
func (m *Memory) due(start int64) int64 { return max(1, start+m.ttl.Microseconds()+1) }

// expire removes the actions that start before oldest, and identities that can no longer apply to any
// action.
func (s *memorySession) expire(oldest int64) {
	n := sort.Search(len(s.Actions), func(i int) bool { return s.Actions[i].Start >= oldest })
	if n == 0 && len(s.Actions) > 0 {
		return
	}
	s.drop(0, n)
	s.Identities = slices.DeleteFunc(s.Identities, func(said HeldIdentity) bool { return said.At < oldest })
}

// Recent implements [Store]. It never fails.
func (m *Memory) Recent(_ context.Context, productID string, of Subject, limit int) (Snapshot, error) {
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Snapshot{Upto: m.newest[productID]}
	if of.UserID == "" {
		if e := m.held.Find(productID, memoryKey{id: of.SessionID}); e != nil {
			s.Records = e.Value.Records(oldest, limit)
		}
	} else if sessions := m.users[productID][of.UserID]; len(sessions) > 0 {
		held := make([]*Held, 0, 8)
		for _, s := range sessions {
			held = append(held, &s.Held)
		}
		s.Records = RecordsOf(of.UserID, held, oldest, min(limit, m.maxEvents))
	}
	return s, nil
}

// Sessions implements [Store]. It never fails. It examines all sessions of the product, so that no
// index of former visitors is needed.
func (m *Memory) Sessions(_ context.Context, productID, userID string) (ids []string, outside Records, err error) {
	ids, outside = m.own(productID, userID)
	return append(ids, m.visits(productID, userID)...), outside, nil
}

// own returns a user's sessions and actions outside sessions.
func (m *Memory) own(productID, userID string) (ids []string, outside Records) {
	oldest := m.oldest()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.users[productID][userID] {
		if s.Session != "" {
			ids = append(ids, s.Session)
		}
	}
	if e := m.held.Find(productID, memoryKey{true, userID}); e != nil {
		outside = e.Value.Records(oldest, m.maxEvents)
	}
	return ids, outside
}

// Expire frees the actions that are older than the retention and returns how
// many sessions it forgot. Call it now and then; a minute apart is plenty. It
// locks the store for short steps only.
func (m *Memory) Expire() (forgotten int) {
	fair.Sweep(&m.mu, func() bool {
		oldest := m.oldest()
		due := m.held.Due(m.due(oldest - 1))
		if due == nil {
			return false
		}
		if m.shrink(&due.Value, func() { due.Value.expire(oldest) }) {
			forgotten++
		}
		return true
	})
	return forgotten
}

// Drop forgets all actions, identities and positions of a product.
func (m *Memory) Drop(productID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.Drop(productID)
	delete(m.newest, productID)
	delete(m.users, productID)
}

// Users returns how many users of a product are held.
func (m *Memory) Users(productID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.users[productID])
}

// Bytes returns the size of a product's users and sessions in memory. Expired ones count until
// they are freed.
func (m *Memory) Bytes(productID string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held.Bytes(productID)
}

// oldest returns when the oldest action that is kept may have started, in microseconds since
// the epoch.
func (m *Memory) oldest() int64 { return time.Now().Add(-m.ttl).UnixMicro() }
