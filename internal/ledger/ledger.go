// Package ledger records the acknowledgements of a log's reader: a position
// that moves with the log, and an account for each key that has not reached it,
// because its entries are in flight or because it is behind.
//
// A key falls behind when the work on it keeps failing, or has to wait. Only
// its name and the ID of its last acknowledged entry are kept then: the log is
// the buffer. Its live entries are skipped until a second read of the log, a
// pass, has caught up with the live reader. One pass serves all keys that are
// behind.
//
//	live:  entry := l.Receive(id, key)  // nil: skipped
//	       …work… l.Finish(entry, true)
//	pass:  from, ok := l.BeginPass(now, cancel)
//	       entry := l.Catch(id, key)    // nil: not for this pass
//	       …work… l.Finish(entry, true)
//	       l.Passed(id)                 // everything up to id was read
//	       l.EndPass()
//
// The ledger only keeps records; the caller acts. It is safe for concurrent
// use.
package ledger

import (
	"cmp"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/liveactivity/liveactivity/internal/schedule"
)

// A key's account goes through these states; a key without an account has reached the
// reader's position.
//
//	state      its entries                     leaves it by
//	in flight  are worked on                   Finish of the last → none; a failure or Hold → behind
//	behind     are skipped until it is due     BeginPass → passing
//	held       are skipped until Resume        Resume → behind, due immediately
//	passing    come again, from the pass       newest is finished → none; a failure → behind
//
// A pass reads up to the live reader and then ends. Entries that it has delivered stay in flight:
// their key is in no other pass until they are finished, so a slow key delays no other.
//
// An account's after never decreases: it is the position that is saved.

// maxDone bounds the memory of a key whose first unfinished entry fails for long. Finished entries
// beyond it are redelivered.
const maxDone = 4096

// MaxID is the maximum length of an ID, in bytes.
const MaxID = 1024

// Ledger is the record of one reader.
type Ledger struct {
	opts Options

	mu       sync.Mutex
	since    int64               // where the log was begun, in epoch seconds, before the first position
	position string              // received last by the live reader
	accounts map[string]*account // of the keys that are not up to it
	behind   int                 // of these
	held     *list.List          // of these, the accounts that wait for Resume, longest first
	passing  map[string]*account // of these, those that the pass is for
	endPass  func()              // called when the pass has nothing left to read
	wake     schedule.Wake       // signals that a key may be due earlier than expected
}

// account is the state of a key, guarded by the ledger's mu. An account that is not behind has
// entries in flight.
type account struct {
	key     string
	after   string   // all the key's entries up to this ID are finished; never decreases
	entries []*Entry // in flight, in order

	// done has the IDs of finished entries after an unfinished one, from before the key fell behind;
	// at most maxDone of them.
	done map[string]bool

	behind   bool
	held     *list.Element // nil unless it waits for Resume
	passing  bool          // the pass delivers its entries
	newest   string        // newest entry skipped by the live reader; a pass must reach it
	read     string        // how far passes have read since the key fell behind last
	due      time.Time     // when the next pass may include the key
	failures int           // in a row
	lost     bool          // Lost has reported it since after increased
}

// Entry is one entry in flight. ID, Key and More do not change; the ledger guards the
// rest.
type Entry struct {
	ID, Key  string
	account  *account
	More     bool // the key is known to have further entries
	finished bool
	dropped  bool // the key fell behind: the entry will be redelivered
}

// Options configures a [Ledger]. No field may be zero.
type Options struct {
	MaxBehind  int           // keys that may be behind
	MinBackoff time.Duration // before the first pass for a key that failed
	MaxBackoff time.Duration // before any pass
}

// Receive takes an entry from the live reader, whose IDs must increase. It returns nil for an
// entry that is skipped because its key is behind.
func (l *Ledger) Receive(id, key string) *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.position
	l.position = id
	a, ok := l.accounts[key]
	if !ok {
		a = &account{key: key, after: before}
		l.accounts[key] = a
	}
	if a.behind {
		a.newest = id
		return nil
	}
	return a.take(id)
}

// Received reports whether the live reader has received the entry with the ID, or a later one.
func (l *Ledger) Received(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Compare(id, l.position) <= 0
}

// Skip records an entry that needs no work.
func (l *Ledger) Skip(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position = id
}

func (a *account) take(id string) *Entry {
	e := &Entry{ID: id, Key: a.key, account: a}
	a.entries = append(a.entries, e)
	return e
}

// Dropped reports whether the entry's key has fallen behind since the entry was
// taken. Then the entry needs no work, and finishing it has no effect.
func (l *Ledger) Dropped(e *Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.dropped
}

// Finish acknowledges an entry or, unless done, lets its key fall behind: a pass redelivers
// this entry and later unfinished ones after a backoff. A key's entries may be finished in any
// order, but the account moves only up to the first unfinished one. Only the first call has an
// effect; later calls return false.
func (l *Ledger) Finish(e *Entry, done bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.finished || e.dropped {
		return false
	}
	if !done {
		l.fall(e)
		l.leavePass(e.account)
		return true
	}
	e.finished = true
	a := e.account
	for len(a.entries) > 0 && a.entries[0].finished {
		a.after, a.entries = a.entries[0].ID, a.entries[1:]
		a.failures, a.lost = 0, false
	}
	if !a.behind && len(a.entries) == 0 {
		delete(l.accounts, a.key)
	}
	l.leaveIfDone(a)
	return true
}

// Hold lets the key of an entry fall behind until Resume is called; then the
// entry is redelivered. If too many keys are behind, the key held longest is
// released: its entries count as acknowledged. Hold returns that key.
func (l *Ledger) Hold(e *Entry) (released string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.finished || e.dropped {
		return "", false
	}
	l.fall(e)
	e.account.held = l.held.PushBack(e.account)
	l.leaveIfDone(e.account)
	if l.behind <= l.opts.MaxBehind {
		return "", false
	}
	first := l.held.Remove(l.held.Front()).(*account)
	l.leavePass(first)
	l.behind--
	delete(l.accounts, first.key)
	return first.key, true
}

// fall lets the key of an entry fall behind, or further behind, and doubles its backoff, without
// jitter: keys that fall together share a pass. It drops the entry and later ones in flight. mu
// must be held, as in all unexported functions.
func (l *Ledger) fall(e *Entry) {
	a := e.account
	first := slices.Index(a.entries, e)
	maps.DeleteFunc(a.done, func(id string, _ bool) bool { return Compare(id, a.after) <= 0 })
	for _, later := range a.entries[first:] {
		if later.dropped = true; later.finished && len(a.done) < maxDone {
			if a.done == nil {
				a.done = map[string]bool{}
			}
			a.done[later.ID] = true
		}
	}
	if !a.behind {
		a.newest = a.entries[len(a.entries)-1].ID
		a.behind = true
		l.behind++
	}
	a.entries, a.read = a.entries[:first], ""
	a.failures++
	a.due = time.Now().Add(schedule.Backoff{Min: l.opts.MinBackoff, Max: l.opts.MaxBackoff}.Even(a.failures))
	l.wake.Signal()
}

// leavePass removes a key from the pass.
func (l *Ledger) leavePass(a *account) {
	if !a.passing {
		return
	}
	a.passing = false
	delete(l.passing, a.key)
	if len(l.passing) == 0 {
		l.endPass()
	}
}

// leaveIfDone ends the pass for a key that has nothing in flight, if passes have
// read everything that the live reader skipped for it: unless it is held, the key
// is no longer behind.
func (l *Ledger) leaveIfDone(a *account) {
	switch {
	case !a.behind || len(a.entries) > 0:
		return
	case Compare(a.read, a.newest) < 0:
		l.wake.Signal() // for another pass
		return
	}
	l.leavePass(a)
	if a.held == nil {
		l.behind--
		delete(l.accounts, a.key)
	}
}

// CanFall reports whether another key may fall behind. If not, its work must
// be retried in place, and the reader must wait for it.
func (l *Ledger) CanFall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind < l.opts.MaxBehind
}

// Resume ends the wait of a key, if it is held: it is due immediately.
func (l *Ledger) Resume(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[key]
	if !ok || a.held == nil {
		return
	}
	l.held.Remove(a.held)
	a.held, a.due, a.failures = nil, time.Time{}, 0
	l.leavePass(a)
	l.wake.Signal()
}

// Wake is signalled when NextPass may return an earlier time than before.
func (l *Ledger) Wake() schedule.Wake { return l.wake }

// waits reports whether the key needs another pass.
func (a *account) waits() bool { return a.behind && a.held == nil && len(a.entries) == 0 }

// NextPass returns when the next pass is due, and false if there is none. Its time is linear
// in the number of accounts.
func (l *Ledger) NextPass() (due time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if a.waits() && !a.passing && (!ok || a.due.Before(due)) {
			due, ok = a.due, true
		}
	}
	return due, ok
}

// BeginPass starts a pass for the keys that are due. It returns the ID after
// which to read, and false if no key is due. It calls end when the pass has
// nothing left to read; end must not call the ledger. Passes must not overlap: call
// EndPass between them.
func (l *Ledger) BeginPass(now time.Time, end func()) (from string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPass = end
	for _, a := range l.accounts {
		if !a.waits() || a.due.After(now) {
			continue
		}
		if !ok || Compare(a.after, from) < 0 {
			from = a.after
		}
		a.passing, a.read, ok = true, "", true
		l.passing[a.key] = a
	}
	return from, ok
}

// Catch takes an entry from the pass, which reads in order and no further than the live
// reader, see Received. It returns nil for an entry whose key is not in the pass, or that is
// already finished.
func (l *Ledger) Catch(id, key string) *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.passing[key]
	if !ok || a.held != nil || Compare(id, a.after) <= 0 || a.done[id] {
		return nil
	}
	e := a.take(id)
	e.More = Compare(id, a.newest) < 0
	return e
}

// Lost records that no entries before the oldest, or none at all if it is empty, are left for the
// pass. It reports whether one of its keys may have missed some; each key counts once until it
// finishes an entry.
func (l *Ledger) Lost(oldest string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.passing {
		if !a.lost && (oldest == "" || Compare(a.after, oldest) < 0) {
			a.lost, news = true, true
		}
	}
	return news
}

// Passed records that the pass has read everything up to the ID, for all keys.
// Only this shows that a key has nothing left: a lack of entries does not, as
// the live reader may be ahead. It reports whether fewer keys are behind now.
func (l *Ledger) Passed(id string) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, isLast := l.behind, Compare(id, l.position) >= 0
	for _, a := range l.passing {
		a.read = id
		if l.leaveIfDone(a); isLast {
			l.leavePass(a)
		}
	}
	return l.behind < before
}

// Drop drops an entry just taken from the pass that could not be delivered. A later pass takes it
// again.
func (l *Ledger) Drop(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := e.account; !e.dropped && !e.finished {
		e.dropped, a.entries = true, a.entries[:len(a.entries)-1]
	}
}

// EndPass ends a pass. Keys that are still in it are due again as soon as they
// have nothing in flight.
func (l *Ledger) EndPass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.passing {
		a.passing = false
	}
	clear(l.passing)
}

// state is a ledger as it is saved.
type state struct {
	Since    int64             `json:"since,omitempty"`
	Position string            `json:"id,omitempty"`
	Behind   map[string]string `json:"behind,omitempty"` // key → the last finished entry
}

// String returns the record of finished entries, to be read by [Load]. Entries in flight count
// as behind: they are redelivered. Backoffs and holds are not saved.
func (l *Ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := state{Since: l.since, Position: l.position, Behind: make(map[string]string, len(l.accounts))}
	for key, a := range l.accounts {
		s.Behind[key] = a.after
	}
	text, err := json.Marshal(s)
	if err != nil { // strings can always be encoded
		panic(err)
	}
	return string(text)
}

// Load returns the ledger that [Ledger.String] wrote. Unfinished entries are
// due for a pass. An empty text means a new ledger.
func Load(text string, opts Options) (*Ledger, error) {
	var s state
	if text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return nil, fmt.Errorf("ledger: the saved cursor cannot be read: %w", err)
		}
	}
	for _, id := range append(slices.Collect(maps.Values(s.Behind)), s.Position) {
		if len(id) > MaxID || strings.ContainsFunc(id, unicode.IsControl) {
			return nil, errors.New("ledger: the saved cursor cannot be read: an id is too long or has a control character")
		}
	}
	l := &Ledger{opts: opts, position: s.Position, since: s.Since, accounts: map[string]*account{},
		held: list.New(), passing: map[string]*account{}, wake: schedule.NewWake()}
	for _, key := range slices.Sorted(maps.Keys(s.Behind)) {
		l.accounts[key] = &account{key: key, after: s.Behind[key], behind: true, newest: s.Position}
		l.behind++
	}
	return l, nil
}

// Position returns the id received last, and the beginning that Begin set: where to read while
// there is no id, and in a pass from the empty id.
func (l *Ledger) Position() (id string, since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position, l.since
}

// FinishedTo reports whether nothing up to the id is in flight in the live reader.
func (l *Ledger) FinishedTo(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if !a.behind && len(a.entries) > 0 && Compare(a.entries[0].ID, id) <= 0 {
			return false
		}
	}
	return true
}

// Behind returns how many keys are behind or held.
func (l *Ledger) Behind() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.behind)
}

// InFlight returns how many entries are in flight: neither finished nor dropped.
func (l *Ledger) InFlight() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		for _, e := range a.entries {
			if !e.finished {
				n++
			}
		}
	}
	return n
}

// Begin sets where the log is begun, in epoch seconds.
func (l *Ledger) Begin(since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = since
}

// Compare orders ids as they grow in a log: by the numbers between their hyphens, such as in
// "1795187991289-0", which have no leading zeros. Of anything else between hyphens the shorter one
// comes first. The empty id comes before all.
func Compare(a, b string) int {
	x, restOfA, _ := strings.Cut(a, "-")
	y, restOfB, _ := strings.Cut(b, "-")
	if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 || restOfA == restOfB {
		return c
	}
	return Compare(restOfA, restOfB)
}
