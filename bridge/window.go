package bridge

import (
	"slices"
	"sort"
	"strings"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// window holds a session's newest actions and its vendor. A window in the cache
// has at least one action.
type window struct {
	actions []activity.Action // in order of their start
	vendor  *Vendor           // never modified, only replaced
}

// record adds an action that happens now, and the vendor unless it is nil. It
// returns the number of actions in the window.
func (b *Bridge) record(session string, a activity.Action, vendor *Vendor) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Read the clock under the lock, so that reports are stored in time order.
	now := time.Now()
	a.TimestampStart = activity.Seconds(now)
	a.TimestampEnd = a.TimestampStart
	s := b.open(session, now)
	s.add(a, b.maxEvents)
	if vendor != nil {
		s.vendor = vendor
	}
	b.keep(session, s, now)
	return len(s.actions)
}

// open returns the session's window without its expired actions, or a new
// window.
func (b *Bridge) open(session string, now time.Time) *window {
	if s, ok := b.sessions.Get(fair.NoProduct, session); ok {
		if s.expire(b.oldest(now)); len(s.actions) > 0 {
			return s
		}
	}
	return &window{}
}

// keep stores the session, under a copy of its ID, as the one reported on most recently.
// It frees sessions that have expired or exceed the limits.
func (b *Bridge) keep(session string, s *window, now time.Time) {
	last := s.actions[len(s.actions)-1].Start()
	item := fair.Item{Bytes: fair.Size(len(session)) + s.size(), Due: max(1, last.Add(b.ttl).UnixMicro()+1)}
	b.sessions.Put(fair.NoProduct, strings.Clone(session), s, item)
	for expired := b.sessions.Due(now.UnixMicro()); expired != nil; expired = b.sessions.Due(now.UnixMicro()) {
		expired.Remove()
	}
	b.sessions.Trim(fair.NoProduct)
}

// oldest returns the earliest start that has not expired at now.
func (b *Bridge) oldest(now time.Time) float64 { return activity.Seconds(now.Add(-b.ttl)) }

// add inserts an action in order of its start. A full window drops its oldest
// action, which may be the new one.
func (s *window) add(a activity.Action, limit int) {
	at := sort.Search(len(s.actions), func(i int) bool { return s.actions[i].TimestampStart > a.TimestampStart })
	s.actions = slices.Insert(s.actions, at, a)
	if len(s.actions) > limit {
		s.actions = slices.Delete(s.actions, 0, 1)
	}
}

// index returns the action's index in the window, or -1. The stream does not carry IDs,
// but no user does the same thing twice in a microsecond.
func (s *window) index(a activity.Action) int {
	return slices.IndexFunc(s.actions, func(have activity.Action) bool {
		return have.TimestampStart == a.TimestampStart && have.Type == a.Type && have.Title == a.Title &&
			have.RawURL == a.RawURL
	})
}

// expire drops the actions that start before oldest.
func (s *window) expire(oldest float64) {
	n := sort.Search(len(s.actions), func(i int) bool { return s.actions[i].TimestampStart >= oldest })
	s.actions = slices.Delete(s.actions, 0, n)
}

// size returns the memory that the window uses, in bytes.
func (s *window) size() int64 {
	size := fair.Size(unsafe.Sizeof(*s)) + fair.Size(cap(s.actions)*int(unsafe.Sizeof(activity.Action{})))
	for _, a := range s.actions {
		for _, text := range []string{a.Type, a.Title, a.Description, a.RawURL, a.CanonicalURL} {
			size += fair.Size(len(text))
		}
		size += fair.SizeOfMap(a.Properties)
	}
	if v := s.vendor; v != nil {
		size += fair.Size(unsafe.Sizeof(*v)) + fair.Size(len(v.ID)) + fair.Size(len(v.Name)) +
			fair.Size(cap(v.MissingDocuments)*int(unsafe.Sizeof("")))
		for _, name := range v.MissingDocuments {
			size += fair.Size(len(name))
		}
	}
	return size
}
