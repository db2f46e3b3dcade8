package proactive

import (
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
)

// What a trigger looks back on, at most.
const (
	WindowSpan = 120 * time.Second
	WindowSize = 50
)

// Window is what is kept in memory of a session: its newest actions, in order of
// time. The zero value is empty. It belongs to the [Core] that fills it and is
// not safe for concurrent use. A full one takes less than 512 bytes: an action is a
// time and the number of what was done, which the core keeps once for all sessions.
// To forget a session, drop its window; after a restart, fill it again with
// [Core.Add].
type Window struct {
	entries []entry // oldest first
	newest  instant // of the last entry
}

// entry is an action: when, as the low bits of its instant, and what.
type entry struct{ low, deed uint32 }

// Len returns the number of actions in the window.
func (w *Window) Len() int { return len(w.entries) }

// at returns the instant of an entry. All are within an hour of the newest, so
// the low bits suffice.
func (w *Window) at(i int) instant { return w.newest - instant(uint32(w.newest)-w.entries[i].low) }

// add puts an action in its place and reports whether it has one. What is older
// than the span before the newest has none, unless the clock was set back: then
// what is kept is from a time that is yet to come, and is dropped.
func (w *Window) add(at instant, deed uint32, now instant) bool {
	reach := instant(WindowSpan.Microseconds())
	if w.newest > at+reach && w.newest > now+reach {
		w.entries = w.entries[:0]
	}
	if len(w.entries) == 0 {
		w.newest = at
	}
	w.trim(max(now, w.newest, at) - reach)
	place := len(w.entries)
	for place > 0 && w.at(place-1) > at {
		place--
	}
	if at < max(now, w.newest)-reach || len(w.entries) == WindowSize && place == 0 {
		return false
	}
	if len(w.entries) == WindowSize {
		copy(w.entries, w.entries[1:place])
		place--
	} else {
		w.grow()
		copy(w.entries[place+1:], w.entries[place:])
	}
	w.entries[place] = entry{low: uint32(at), deed: deed}
	w.newest = max(w.newest, at)
	return true
}

// grow adds an entry at the end, without more room than a full window needs.
func (w *Window) grow() {
	if n := len(w.entries); n == cap(w.entries) {
		larger := make([]entry, n, min(max(4, 2*n), WindowSize))
		copy(larger, w.entries)
		w.entries = larger
	}
	w.entries = w.entries[:len(w.entries)+1]
}

// trim drops the entries before a time.
func (w *Window) trim(oldest instant) {
	gone := 0
	for gone < len(w.entries) && w.at(gone) < oldest {
		gone++
	}
	w.entries = w.entries[:copy(w.entries, w.entries[gone:])]
}

// deed is what was done, apart from when and in which session.
type deed struct{ typ, title, url string }

func deedOf(a activity.Action) deed { return deed{a.Type, a.Title, a.CanonicalURL} }

// size estimates what a deed takes in memory, in bytes.
func (d deed) size() int { return 2*(48+8) + len(d.typ) + len(d.title) + len(d.url) }

// maxDeeds bounds a generation of deeds, in bytes.
const maxDeeds = 4 << 20

// deeds numbers what was done, so that windows need not hold it. A deed is kept
// for at least WindowSpan after it was last added, and then no window shows it.
// It is dropped earlier when there are too many different ones: windows then
// lose their older actions. Its methods are safe for concurrent use.
type deeds struct {
	mu      sync.RWMutex
	current generation
	earlier generation
	begun   instant // the current generation
}

type generation struct {
	first   uint32 // the number of all[0]
	all     []deed
	numbers map[deed]uint32
	size    int // bytes
}

// number returns the number of a deed.
func (t *deeds) number(d deed, now instant) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now >= t.begun.add(WindowSpan) || t.current.size >= maxDeeds {
		t.earlier = t.current
		t.current = generation{first: t.earlier.first + uint32(len(t.earlier.all))}
		t.begun = now
	}
	if number, ok := t.current.numbers[d]; ok {
		return number
	}
	if number, ok := t.earlier.numbers[d]; ok {
		d = t.earlier.all[number-t.earlier.first]
	} else {
		d = deed{strings.Clone(d.typ), strings.Clone(d.title), strings.Clone(d.url)}
	}
	return t.current.add(d)
}

func (g *generation) add(d deed) uint32 {
	if g.numbers == nil {
		g.numbers = map[deed]uint32{}
	}
	number := g.first + uint32(len(g.all))
	g.all = append(g.all, d)
	g.numbers[d] = number
	g.size += d.size()
	return number
}

// get returns a deed of the generation.
func (g *generation) get(number uint32) (*deed, bool) {
	if i := number - g.first; i < uint32(len(g.all)) {
		return &g.all[i], true
	}
	return nil, false
}

// view is room for the slices of a TriggerContext.
type view struct {
	urls    [WindowSize]string
	actions [WindowSize]Action
}

// show fills v with the window's actions and returns their number.
func (t *deeds) show(w *Window, v *view) (n int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	newest := w.newest.time()
	for _, e := range w.entries {
		d, ok := t.current.get(e.deed)
		if !ok {
			if d, ok = t.earlier.get(e.deed); !ok {
				continue
			}
		}
		v.urls[n] = d.url
		a := &v.actions[n]
		a.At = newest.Add(-time.Duration(uint32(w.newest)-e.low) * time.Microsecond)
		a.Type, a.Title, a.CanonicalURL = d.typ, d.title, d.url
		n++
	}
	return n
}
