package stream

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/segmentio/encoding/json" // several times as fast as the standard library here

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/groupcommit"
)

// dispatcher calls handlers with entries: those of a session one after the
// other, those of different sessions at the same time. It keeps account of what
// is finished.
type dispatcher struct {
	*Consumer
	work  func() // what a worker does
	saves *groupcommit.Group[struct{}]

	mu       sync.Mutex
	sessions map[string]*entry // the last entry in hand of each session
	ready    queue             // the first entries of the sessions that no worker is at
	workers  sync.WaitGroup
	starting bool // a worker was started and has taken nothing yet

	inHand  int           // entries received and not finished
	pending int           // entries that count against MaxPending
	bytes   int           // of the entries in hand
	room    chan struct{} // closed when there is room; nil while nobody waits
	ended   bool          // no handler is called any more

	// The rest is for a cursor store only.
	oldest, newest *entry              // the entries from the oldest unfinished one on
	finished       cursor              // after the entry before oldest
	known          map[string]struct{} // entries that were finished before the process started
	received       int                 // entries, until known is forgotten
}

// entry is one entry in hand, or on its way there.
type entry struct {
	message
	typ       string
	sessionID string
	holds     int  // how many keep it from being finished: its handler, and whoever called hold
	skipped   bool // no handler could be given it
	size      int  // of its data, in bytes

	handed handed

	next, nextOfSession, nextReady *entry
}

// newEntry returns the entry that a message is.
func newEntry(m message) entry {
	e := entry{message: m, holds: 1}
	var ok bool
	if e.typ, e.sessionID, ok = head(m.data); !ok {
		e.data = validUTF8(m.data)
		e.typ, e.sessionID = slowHead(e.data)
	}
	return e
}

// validUTF8 returns the data with a replacement character for what is not UTF-8.
func validUTF8(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}

// queue is a list of entries, first in, first out.
type queue struct{ first, last *entry }

func (q *queue) push(e *entry) {
	if q.first == nil {
		q.first = e
	} else {
		q.last.nextReady = e
	}
	q.last = e
}

// pop returns nil when there is none.
func (q *queue) pop() *entry {
	e := q.first
	if e != nil {
		q.first, e.nextReady = e.nextReady, nil
	}
	return e
}

// maxSavers is how many finished entries can share a save of the cursor.
const maxSavers = 1 << 10

// newDispatcher returns a dispatcher that goes on after the cursor. Handlers
// are called until ctx ends.
func newDispatcher(ctx context.Context, c *Consumer, at cursor) *dispatcher {
	d := &dispatcher{Consumer: c, sessions: map[string]*entry{}, finished: at, known: map[string]struct{}{}}
	d.work = func() { d.handleReady(ctx) }
	d.saves = groupcommit.New(maxSavers, func([]struct{}) { d.save(context.WithoutCancel(ctx)) })
	for _, id := range at.Finished {
		d.known[id] = struct{}{}
	}
	return d
}

// push takes messages in hand, each as soon as there is room for it. It returns
// how many; fewer than there are only when ctx has ended.
func (d *dispatcher) push(ctx context.Context, messages []message) int {
	entries := make([]entry, len(messages))
	for i, m := range messages {
		entries[i] = newEntry(m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range entries {
		if d.awaitRoom(ctx, len(entries[i].data)) != nil {
			return i
		}
		d.take(&entries[i])
	}
	d.hire()
	return len(entries)
}

// take puts an entry where a worker finds it.
func (d *dispatcher) take(e *entry) {
	d.pending++
	if d.opts.Cursor != nil && d.account(e) {
		return
	}
	d.inHand++
	e.size = len(e.data)
	d.bytes += e.size
	d.metrics.pending.Inc()
	last := d.sessions[e.sessionID]
	d.sessions[e.sessionID] = e
	if last != nil {
		last.nextOfSession = e
		return
	}
	d.ready.push(e)
}

// maxPendingBytes is how large the entries in hand are together, at most, unless
// it is one.
const maxPendingBytes = 64 << 20

// awaitRoom returns when an entry of that size may come. It lets go of the lock
// meanwhile.
func (d *dispatcher) awaitRoom(ctx context.Context, size int) error {
	for d.pending >= d.opts.MaxPending || d.bytes > 0 && d.bytes+size > maxPendingBytes {
		d.hire()
		if d.room == nil {
			d.room = make(chan struct{})
		}
		room := d.room
		d.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		d.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// account enters the entry into the account of what is finished, and reports
// whether it is finished already.
func (d *dispatcher) account(e *entry) bool {
	if d.oldest == nil {
		d.oldest = e
	} else {
		d.newest.next = e
	}
	d.newest = e
	_, known := d.known[e.id]
	delete(d.known, e.id)
	if d.received++; d.received >= max(d.opts.MaxPending, mostPending) {
		clear(d.known) // no entry so far on was in hand before the process started
	}
	if known {
		e.holds = 0
		d.settle()
	}
	return known
}

// mostPending is a MaxPending that the process before is expected not to have
// been above.
const mostPending = 1 << 16

// hire starts a worker if there is something to do and none is on its way.
func (d *dispatcher) hire() {
	if d.ready.first != nil && !d.starting {
		d.starting = true
		d.workers.Go(d.work)
	}
}

// handleReady is a worker: it handles what is ready, and leaves when nothing
// is. It hires another one before it calls a handler, for that may take long.
func (d *dispatcher) handleReady(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting = false
	for e := d.ready.pop(); e != nil && ctx.Err() == nil; e = d.ready.pop() {
		d.hire()
		d.mu.Unlock()
		ok := d.handle(ctx, e)
		d.mu.Lock()
		if !ok {
			continue
		}
		d.release(e)
		if e.nextOfSession != nil {
			d.ready.push(e.nextOfSession)
		} else {
			delete(d.sessions, e.sessionID)
		}
	}
}

// release lets go of an entry, which is finished when nobody holds it. Then the
// cursor is saved, without the lock.
func (d *dispatcher) release(e *entry) {
	if e.holds--; e.holds > 0 {
		return
	}
	e.data = nil
	d.bytes -= e.size
	d.settle()
	d.countFinished(e)
	if d.opts.Cursor != nil {
		d.mu.Unlock()
		defer d.mu.Lock()
		d.saves.Do(struct{}{})
	}
}

func (d *dispatcher) countFinished(e *entry) {
	if !e.skipped {
		d.metrics.finished(e.typ).Inc()
	}
	if !d.ended {
		d.inHand--
		d.metrics.pending.Dec()
	}
}

// settle updates the account after an entry was finished.
func (d *dispatcher) settle() {
	if d.opts.Cursor == nil {
		d.pending--
	}
	for ; d.oldest != nil && d.oldest.holds == 0; d.oldest = d.oldest.next {
		d.finished.ID = d.oldest.id
		d.pending--
	}
	if d.room != nil { // who waits looks whether it is enough
		close(d.room)
		d.room = nil
	}
}

// begin sets where the stream began, while nothing of it is finished.
func (d *dispatcher) begin(at cursor) {
	d.mu.Lock()
	d.finished = at
	d.mu.Unlock()
	if d.opts.Cursor != nil {
		d.saves.Do(struct{}{})
	}
}

// save saves what is finished, unless another run has begun meanwhile: that
// one counts on what was saved before.
func (d *dispatcher) save(ctx context.Context) {
	d.cursors.Lock()
	defer d.cursors.Unlock()
	if d.latest != d {
		return
	}
	d.mu.Lock()
	at := d.finished
	at.Finished = slices.Collect(maps.Keys(d.known))
	for e := d.oldest; e != nil; e = e.next {
		if e.holds == 0 {
			at.Finished = append(at.Finished, e.id)
		}
	}
	d.mu.Unlock()
	if err := d.opts.Cursor.Save(ctx, at.String()); err != nil {
		d.opts.Logger.Error("stream cursor was not saved", "err", err)
	}
}

// wait returns when no handler is at work. The context must have ended.
func (d *dispatcher) wait() {
	d.workers.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.metrics.pending.Sub(float64(d.inHand))
}

// handed is the context that an entry is handed over with.
type handed struct {
	context.Context
	d *dispatcher
	e *entry
}

func (h *handed) Value(key any) any {
	if key == (holdKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// hold implements what the function hold looks for. An entry that is finished
// cannot be held any more.
func (h *handed) hold() (release func()) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.e.holds == 0 || h.d.opts.Cursor == nil { // or there is nothing to hold back
		return func() {}
	}
	h.e.holds++
	return sync.OnceFunc(func() {
		h.d.mu.Lock()
		defer h.d.mu.Unlock()
		h.d.release(h.e)
	})
}

// handle calls the handlers that the entry is for. It returns false when ctx
// ended before they were done.
func (d *dispatcher) handle(ctx context.Context, e *entry) bool {
	e.data = validUTF8(e.data)
	h := &e.handed
	*h = handed{ctx, d, e}
	if d.handlers.Raw != nil {
		m := Message{ID: e.id, Type: e.typ, SessionID: e.sessionID, Data: e.data}
		if !d.insist(ctx, e, func() error { return d.handlers.Raw(h, m) }) {
			return false
		}
	}
	switch {
	case e.typ == activity.BatchType && d.handlers.Actions != nil:
		b, err := decodeActions(e)
		if err != nil {
			return d.skip(e, err)
		}
		return d.insist(ctx, e, func() error { return d.handlers.Actions(h, b) })
	case e.typ == SummaryType && d.handlers.Summary != nil:
		s, err := decodeSummary(e)
		if err != nil {
			return d.skip(e, err)
		}
		return d.insist(ctx, e, func() error { return d.handlers.Summary(h, s) })
	case e.typ == "":
		return d.skip(e, errors.New("no JSON object with a type"))
	}
	return true
}

// insist calls a handler until it returns nil, or ctx ends.
func (d *dispatcher) insist(ctx context.Context, e *entry, call func() error) bool {
	err := call()
	if err == nil {
		return true
	}
	wait := newBackOff(d.opts.MinBackoff, d.opts.MaxBackoff)
	for ctx.Err() == nil {
		pause := wait.NextBackOff()
		d.metrics.failures.Inc()
		d.opts.Logger.Warn("stream handler failed", "session_id", short(e.sessionID), "id", e.id, "err", err, "again_in", pause.Round(time.Millisecond))
		if sleep(ctx, pause) != nil {
			return false
		}
		if err = call(); err == nil {
			return true
		}
	}
	return false
}

// short returns as much of an id as a log needs.
func short(id string) string {
	const enough = 128
	if len(id) <= enough {
		return id
	}
	return id[:enough] + "…"
}

// skip passes over an entry that no handler can be given.
func (d *dispatcher) skip(e *entry, why error) bool {
	e.skipped = true
	d.metrics.skipped.WithLabelValues("malformed").Inc()
	d.opts.Logger.Error("stream has a malformed entry; it is passed over", "session_id", short(e.sessionID), "id", e.id, "err", why)
	return true
}

// head returns the type and the session id of an entry, without reading more of
// it than it must. It reports false where that takes a decoder.
func head(data []byte) (typ, sessionID string, ok bool) {
	rest, more := bytes.CutPrefix(data, []byte("{"))
	for more && (typ == "" || sessionID == "") {
		var name, value []byte
		if name, rest, more = cutString(rest); !more {
			break
		}
		if rest, more = bytes.CutPrefix(rest, []byte(":")); !more {
			break
		}
		if value, rest, more = cutString(rest); !more {
			break
		}
		switch string(name) {
		case "type":
			typ = typeName(value)
		case "session_id":
			sessionID = string(value)
		}
		rest, more = bytes.CutPrefix(rest, []byte(","))
	}
	return typ, sessionID, typ != "" && sessionID != "" && utf8.ValidString(typ) && utf8.ValidString(sessionID)
}

// typeName returns the string, without a copy where it is a usual type.
func typeName(name []byte) string {
	switch string(name) {
	case activity.BatchType:
		return activity.BatchType
	case SummaryType:
		return SummaryType
	}
	return string(name)
}

// cutString cuts a JSON string that needs no decoding off the start of b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 || bytes.IndexByte(b[1:1+end], '\\') >= 0 {
		return nil, nil, false
	}
	return b[1 : 1+end], b[2+end:], true
}

// slowHead is head by a decoder. What the data does not tell is empty.
func slowHead(data []byte) (typ, sessionID string) {
	var e struct {
		Type      string `json:"type"`
		SessionID string `json:"session_id"`
	}
	if decode(data, &e) != nil {
		return "", ""
	}
	return e.Type, e.SessionID
}

// decodeActions returns the batch of an entry, which has actions, all of one
// session.
func decodeActions(e *entry) (b activity.Batch, err error) {
	if err := decode(e.data, &b); err != nil {
		return b, err
	}
	if b.Type != e.typ || b.SessionID != e.sessionID {
		return b, errTwice
	}
	if len(b.Actions) == 0 {
		return b, errors.New("no actions")
	}
	b.Count = len(b.Actions)
	for i := range b.Actions {
		a := &b.Actions[i]
		if a.SessionID != "" && a.SessionID != b.SessionID {
			return b, errors.New("an action of another session")
		}
		a.SessionID = b.SessionID
	}
	return b, nil
}

func decodeSummary(e *entry) (s Summary, err error) {
	if err := decode(e.data, &s); err != nil {
		return s, err
	}
	if s.Type != e.typ || s.SessionID != e.sessionID {
		return s, errTwice
	}
	return s, nil
}

// What is wrong with an entry. The decoder's own errors quote it.
var (
	errTwice     = errors.New("a field is there twice")
	errDeep      = errors.New("it is nested too deep")
	errMalformed = errors.New("it is not JSON, or a field is not of its type")
)

func decode(data []byte, v any) error {
	if isDeep(data) {
		return errDeep
	}
	if json.Unmarshal(data, v) != nil {
		return errMalformed
	}
	return nil
}

// maxDepth is how deep objects and arrays may be nested. The decoder would go
// down until the stack is used up, which ends the process.
const maxDepth = 1000

func isDeep(data []byte) bool {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
