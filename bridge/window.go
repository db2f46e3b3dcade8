package bridge

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/liveactivity/liveactivity/activity"
)

// windows are the newest actions of every session. The cache is in order of
// when sessions were heard of last: asking for one does not keep it.
type windows struct {
	maxEvents int
	ttl       time.Duration

	mu       sync.Mutex
	sessions *simplelru.LRU[string, *window]
}

// window is what is held of a session. It has an action at least: a window
// whose last action has expired is gone.
type window struct {
	actions []activity.Action // in order of their start
	vendor  *Vendor           // never changed, only replaced
}

func newWindows(maxSessions, maxEvents int, ttl time.Duration) *windows {
	// NewLRU fails only for a size below one.
	sessions, _ := simplelru.NewLRU[string, *window](maxSessions, nil)
	return &windows{maxEvents: maxEvents, ttl: ttl, sessions: sessions}
}

// report files an action that happens now, and the vendor if there is one. It
// returns how many actions the window holds then.
func (w *windows) report(session string, a activity.Action, vendor *Vendor) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The clock is read under the lock: reports are in the order of their time.
	now := time.Now()
	a.TimestampStart = activity.Seconds(now)
	a.TimestampEnd = a.TimestampStart
	s := w.open(session, w.oldest(now))
	s.add(a, w.maxEvents)
	if vendor != nil {
		s.vendor = vendor
	}
	return len(s.actions)
}

// merge files actions that happened at the times they say.
func (w *windows) merge(session string, actions []activity.Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest := w.oldest(time.Now())
	for _, a := range actions {
		if a.TimestampStart < oldest {
			continue
		}
		if s := w.open(session, oldest); !s.has(a) {
			s.add(a, w.maxEvents)
		}
	}
}

// open returns the session's window without what is expired, a new one if need
// be, to which an action must be added. It frees sessions that are expired.
func (w *windows) open(session string, oldest float64) *window {
	s, ok := w.sessions.Get(session)
	if ok {
		s.expire(oldest)
	}
	if !ok || len(s.actions) == 0 {
		s = &window{}
		w.sessions.Add(session, s)
	}
	for {
		// The one just opened is the newest, and empty if it is new.
		_, last, _ := w.sessions.GetOldest()
		if last == s || !last.isExpired(oldest) {
			return s
		}
		w.sessions.RemoveOldest()
	}
}

// get returns a copy of what is held of the session, never nil.
func (w *windows) get(session string) ([]activity.Action, *Vendor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest := w.oldest(time.Now())
	s, ok := w.sessions.Peek(session)
	if !ok || s.isExpired(oldest) {
		return []activity.Action{}, nil
	}
	s.expire(oldest)
	return slices.Clone(s.actions), s.vendor
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

// has reports whether the window holds the action already. The stream does not
// carry ids, but no user does the same twice in a microsecond.
func (s *window) has(a activity.Action) bool {
	return slices.ContainsFunc(s.actions, func(have activity.Action) bool {
		return have.TimestampStart == a.TimestampStart && have.Type == a.Type && have.Title == a.Title && have.RawURL == a.RawURL
	})
}

// expire drops the actions that start before oldest.
func (s *window) expire(oldest float64) {
	n := sort.Search(len(s.actions), func(i int) bool { return s.actions[i].TimestampStart >= oldest })
	s.actions = slices.Delete(s.actions, 0, n)
}

func (s *window) isExpired(oldest float64) bool {
	return s.actions[len(s.actions)-1].TimestampStart < oldest
}
