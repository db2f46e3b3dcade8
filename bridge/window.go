package bridge

import (
	"slices"
	"sort"
	"sync"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
)

// windows are the newest actions of every session. They are evicted in the order
// in which sessions were last reported on: asking for one does not keep it.
type windows struct {
	maxEvents int
	ttl       time.Duration

	mu       sync.Mutex
	sessions *fair.Cache[string, *window]
}

// owner is the one product that all sessions are of.
const owner = ""

// window holds a session's newest actions and its vendor. A window in the cache
// has at least one action.
type window struct {
	actions []activity.Action // in order of their start
	vendor  *Vendor           // never changed, only replaced
}

func newWindows(maxSessions int, maxBytes int64, maxEvents int, ttl time.Duration) *windows {
	return &windows{maxEvents: maxEvents, ttl: ttl,
		sessions: fair.New[string, *window](&fair.Options{MaxBytes: maxBytes, MaxItems: maxSessions}, nil)}
}

// report files an action that happens now, and the vendor if there is one. It
// returns how many actions the window holds then. The session is kept as a
// string of its own.
func (w *windows) report(session string, a activity.Action, vendor *Vendor) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The clock is read under the lock: reports are in the order of their time.
	now := time.Now()
	a.TimestampStart = activity.Seconds(now)
	a.TimestampEnd = a.TimestampStart
	s := w.open(session, now)
	s.add(a, w.maxEvents)
	if vendor != nil {
		s.vendor = vendor
	}
	w.keep(session, s, now)
	return len(s.actions)
}

// merge files actions that happened at the times they say. The session is kept
// as a string of its own.
func (w *windows) merge(session string, actions []activity.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	s, oldest := w.open(session, now), w.oldest(now)
	for _, a := range actions {
		if before := s.index(a); before >= 0 {
			if a.TakesPlace(&s.actions[before]) {
				s.actions[before] = a
			}
		} else if a.TimestampStart >= oldest {
			s.add(a, w.maxEvents)
		}
	}
	if len(s.actions) > 0 {
		w.keep(session, s, now)
	}
}

// forget forgets sessions.
func (w *windows) forget(sessions []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range sessions {
		w.sessions.Remove(owner, id)
	}
}

// open returns the session's window without its expired actions, or a new one.
func (w *windows) open(session string, now time.Time) *window {
	if s, ok := w.sessions.Get(owner, session); ok {
		if s.expire(w.oldest(now)); len(s.actions) > 0 {
			return s
		}
	}
	return &window{}
}

// keep keeps the session as the one reported on last, and frees those that have
// expired or are beyond the bounds.
func (w *windows) keep(session string, s *window, now time.Time) {
	w.sessions.Put(owner, session, s, fair.Item{Bytes: fair.Size(len(session)) + s.size(), Due: w.due(s)})
	for {
		expired := w.sessions.Due(now.UnixMicro())
		if expired == nil {
			break
		}
		expired.Remove()
	}
	w.sessions.Trim(owner)
}

// due returns when the window's last action has expired, in microseconds since
// the epoch and above zero.
func (w *windows) due(s *window) int64 {
	last := s.actions[len(s.actions)-1].Start()
	return max(1, last.Add(w.ttl).UnixMicro()+1)
}

// get returns copies of a session's actions, never nil, and its vendor.
func (w *windows) get(session string) ([]activity.Action, *Vendor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.open(session, time.Now())
	return append([]activity.Action{}, s.actions...), s.vendor
}

func (w *windows) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions.Len()
}

// oldest returns the earliest start that is not expired at the time.
func (w *windows) oldest(now time.Time) float64 { return activity.Seconds(now.Add(-w.ttl)) }

// add inserts an action in order of its start. Of a full window the oldest
// falls out, which may be the action itself.
func (s *window) add(a activity.Action, limit int) {
	at := sort.Search(len(s.actions), func(i int) bool { return s.actions[i].TimestampStart > a.TimestampStart })
	s.actions = slices.Insert(s.actions, at, a)
	if len(s.actions) > limit {
		s.actions = slices.Delete(s.actions, 0, 1)
	}
}

// index returns the place of the action in the window, -1 for none. The stream does not
// carry ids, but no user does the same twice in a microsecond.
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

// size returns the memory of the window, in bytes.
func (s *window) size() int64 {
	size := fair.Size(unsafe.Sizeof(*s)) + fair.Size(cap(s.actions)*int(unsafe.Sizeof(activity.Action{})))
	for _, a := range s.actions {
		for _, text := range []string{a.Type, a.Title, a.Description, a.RawURL, a.CanonicalURL} {
			size += fair.Size(len(text))
		}
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
