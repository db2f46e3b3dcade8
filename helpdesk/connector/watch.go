package connector

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Bounds of the sessions that are remembered for triggers.
const (
	watchSpan  = assistance.WindowSpan // for how long, after the newest action
	maxWatched = 16 << 20              // bytes of a product's, approximately
	ofKept     = 16                    // all products together may take 1/ofKept of memlimit.Kept
)

// watch holds the input of triggers: the sessions of a product that were active within
// watchSpan. The delivery's mutex guards it. The zero watch is empty.
//
// Beyond its bounds it first forgets sessions that have no conversation, and among these the
// ones that acted longest ago.
//
// Every server watches, with or without the lease, so that the next holder knows the sessions'
// past. A match only marks a lane. The offer is a step of the lane's job, so only the holder of
// the lease makes it.
type watch struct {
	core     *assistance.Core              // filled the windows
	sessions *fair.Cache[string, *watched] // all of one product, ""
	asks     schedule.Agenda[*watched]     // by when a trigger wants to be asked again
	share    *fair.Share[*delivery]        // of the memory of all products; reportBytes sets it
}

// watched is a session. It need not be linked: a match before the link leads to no offer, but
// the actions are available after it.
type watched struct {
	id     string
	window assistance.Window
	acted  int64 // the start of the newest action, in microseconds since the epoch
	again  schedule.Slot[*watched]
}

// see handles entries of the log: it wakes the conversations that they concern, and asks the
// triggers. It makes no request and never fails. The follower calls it with all entries in
// order, and reuses the slice.
//
// An entry may already be written, after a restart or by another server: the job compares it
// with the cursor.
func (d *delivery) see(_ eventlog.ID, entries []eventlog.Entry) error {
	d.seeAll(entries, d.product(), time.Now())
	balance(d.watches)
	return nil
}

// seeAll is see without the bound of all products' watches.
func (d *delivery) seeAll(entries []eventlog.Entry, product Product, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch.core != product.Assistance {
		d.watch.reset(product.Assistance)
	}
	for i := range entries {
		e := &entries[i]
		if n, ok := decodeNotice(e); ok {
			d.applyNotice(n, now)
			continue
		}
		if gone, err := e.DecodeErasure(); err == nil && gone != nil {
			d.erase(gone)
			continue
		}
		for _, l := range d.bySession[e.SessionID] {
			if s := l.session(e.SessionID); s != nil && e.ID.Compare(s.after) > 0 && d.concerns(e, l) {
				d.arrived(l, s, e.ID.Previous(), sooner(d.store.hostTime(e.ID.Time()), now), now, product.Notes.Debounce)
			}
		}
		if product.Assistance != nil && e.SessionID != "" {
			d.askAbout(e, product.Assistance)
		}
	}
	d.watch.reportBytes()
	if now.Sub(d.swept) >= sweepEvery {
		d.sweep(now)
	}
}

// concerns reports whether an entry of a lane's session has an action of the lane's
// conversation. It reports true for entries up to loaded, whose actions may name no
// conversation: the job decides.
func (d *delivery) concerns(e *eventlog.Entry, l *lane) bool {
	if e.ID.Compare(d.loaded) <= 0 {
		return true
	}
	batch, err := e.Decode()
	if err != nil || batch == nil {
		return false
	}
	return slices.ContainsFunc(batch.Actions, func(a activity.BatchAction) bool {
		return a.ConversationID == l.link().ConversationID
	})
}

// applyNotice handles a notice: of a link that waits or no longer does, or of a change to a
// conversation's document, which makes its lane due. It does not read the document: the job
// does, and finds the state at that time.
func (d *delivery) applyNotice(n notice, now time.Time) {
	switch {
	case n.Gone != "":
		delete(d.waiting, n.Gone)
		return
	case n.Waiting != nil && n.Over:
		delete(d.waiting, n.Waiting.documentName())
		return
	case n.Waiting != nil:
		d.waiting[n.Waiting.documentName()] = *n.Waiting
		d.lookedFor = time.Time{}
		d.wake.Signal()
		return
	}
	l := d.lane(n.Link, now)
	if n.SessionID != "" {
		d.join(l, n.SessionID, newLink, eventlog.ID{}, n.Stranger)
		l.session(n.SessionID).after = eventlog.ID{} // it may be linked again
	}
	d.lookAt(l, now, !n.Stranger)
}

// erase forgets a person's sessions for triggers, models and offers. The result of a running
// model call is dropped: think sees the count. Notices name the conversations that change.
func (d *delivery) erase(e *activity.Erasure) {
	for _, id := range e.SessionIDs {
		d.watch.forget(id)
		for _, l := range d.bySession[id] {
			l.erasures++
			if m := l.memo; m != nil {
				m.draft, m.match, m.answer, m.machine = nil, nil, nil, nil
			}
		}
	}
}

// sweep forgets the conversations in which nothing has happened for as long as their
// documents are kept. It looks at every lane, so it runs once in sweepEvery.
func (d *delivery) sweep(now time.Time) {
	d.swept = now
	since := now.Add(-d.store.ttl)
	for _, l := range d.lanes {
		if !l.working && !l.slot.IsSet() && l.used.Before(since) {
			d.forget(l)
		}
	}
}

// askAbout asks the triggers about the actions of an entry. A match makes the conversation
// of the session due immediately, because its moment passes. Triggers run under the
// delivery's mutex, so a slow one delays the product's whole delivery.
//
// For a linked session only the actions of its conversation count. Entries from before the
// load may name no conversation, so all of their actions count.
func (d *delivery) askAbout(e *eventlog.Entry, core *assistance.Core) {
	batch, err := e.Decode()
	if err != nil || batch == nil {
		return
	}
	w, now := &d.watch, d.store.now()
	w.expire(now)
	known := w.session(e.SessionID)
	var conversationID string // of the session's link
	if of := d.bySession[e.SessionID]; len(of) > 0 && e.ID.Compare(d.loaded) > 0 {
		conversationID = of[len(of)-1].link().ConversationID
	}
	for _, a := range batch.Actions {
		if conversationID != "" && a.ConversationID != conversationID {
			continue // somebody else's
		}
		known.acted = tracing.ActionOf(known.id, &a.Action).Start
		d.decide(known, func(m assistance.Machine, s assistance.Session) assistance.Decision {
			return core.Act(&known.window, m, s, a.Action, now)
		})
	}
	w.keep(known, now, len(d.bySession[e.SessionID]) > 0)
}

// reset forgets all sessions. From then on the core, nil for none, fills the windows. Another
// core, after a change of the configuration, starts with empty ones.
func (w *watch) reset(core *assistance.Core) {
	w.core, w.asks = core, schedule.Agenda[*watched]{}
	w.sessions = fair.New(&fair.Options{MaxBytes: maxWatched}, func(e *fair.Entry[string, *watched]) {
		w.asks.Remove(&e.Value.again)
	})
}

// session returns a session, and creates it if it is unknown: keep must follow.
func (w *watch) session(id string) *watched {
	if known, ok := w.sessions.Get("", id); ok {
		return known
	}
	known := &watched{id: strings.Clone(id)}
	known.again.Value = known
	return known
}

// keep makes a session the one that acted last, and forgets others beyond the product's bound:
// sessions with a conversation after all others.
func (w *watch) keep(known *watched, now time.Time, linked bool) {
	bytes := fair.Size(unsafe.Sizeof(*known)) + fair.Size(len(known.id)) + known.window.Bytes()
	w.sessions.Put("", known.id, known, fair.Item{Bytes: bytes, Due: now.Add(watchSpan).UnixNano(), Last: linked})
	w.sessions.Trim("")
}

// expire forgets sessions whose windows are empty by now.
func (w *watch) expire(now time.Time) {
	for e := w.sessions.Due(now.UnixNano()); e != nil; e = w.sessions.Due(now.UnixNano()) {
		w.forget(e.Key())
	}
}

// forget removes a session: no trigger is asked about it any more.
func (w *watch) forget(sessionID string) {
	if w.sessions == nil {
		return
	}
	if e := w.sessions.Find("", sessionID); e != nil {
		w.asks.Remove(&e.Value.again)
		e.Remove()
	}
}

// reportBytes reports the sessions' share of the memory for all products.
func (w *watch) reportBytes() {
	if w.sessions != nil {
		w.share.Set(w.sessions.Bytes(""), w.sessions.Len() > 0)
	}
}

// unwatch forgets all sessions at the end of follow, which frees their memory for other
// products.
func (d *delivery) unwatch() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch.reset(nil)
	d.watch.reportBytes()
}

// balance forgets sessions while all products' sessions together exceed the total, each time of
// the product that holds most. The caller holds no delivery's mutex.
func balance(watches *fair.Shares[*delivery]) {
	for d, over := watches.Excess(); over; d, over = watches.Excess() {
		d.mu.Lock()
		d.watch.sessions.Evict("")
		d.watch.reportBytes()
		d.mu.Unlock()
	}
}

// askTriggers asks the triggers that are due about sessions that have done nothing since. The
// caller holds the delivery's mutex.
func (d *delivery) askTriggers() {
	now := d.store.now()
	for known, ok := d.watch.asks.Pop(now); ok; known, ok = d.watch.asks.Pop(now) {
		due := known.again.Due()
		d.decide(known, func(m assistance.Machine, s assistance.Session) assistance.Decision {
			return d.watch.core.Ask(&known.window, m, s, due, now)
		})
	}
}

// decide has the core decide about a session and remembers the offer to be made. The decision
// uses the machine as this process last saw it; claim decides again with the stored one. Only
// the holder of the lease logs and counts a match without an offer, so that it counts once.
func (d *delivery) decide(known *watched, decide func(assistance.Machine, assistance.Session) assistance.Decision) {
	var m assistance.Machine
	s := assistance.Session{ProductID: d.productID, SessionID: known.id}
	var l *lane
	if of := d.bySession[known.id]; len(of) > 0 {
		l = of[len(of)-1]
		s.ConversationID = l.link().ConversationID
		if l.memo != nil && l.memo.machine != nil {
			m = *l.memo.machine
		}
	}
	decision := decide(m, s)
	if decision.Again.IsZero() {
		d.watch.asks.Remove(&known.again)
	} else if d.watch.asks.Set(&known.again, decision.Again) {
		d.wake.Signal()
	}
	if l == nil || decision.Reason == assistance.NoMatch {
		return
	}
	match := &offering{Matched: decision.Match, session: known.id, newest: tracing.Action{SessionID: known.id,
		Start: known.acted}, at: time.Now()}
	reason := decision.Reason
	if s := l.session(known.id); s != nil && s.stranger && reason == assistance.Offered {
		reason = untrusted // and replaces no match of another session
	}
	if reason != assistance.Offered {
		if d.leading {
			d.assisted.decided(d.productID, l.link(), match, reason)
		}
		return
	}
	l.ensureMemo().match = match
	l.memo.again[offers] = time.Time{}
	d.lookAt(l, time.Now(), true)
}

// resolve starts to look for the sessions of waiting links if it is time: immediately after a
// new link, then once in resolveEvery. The oldest link comes first, so that it wins if two wait for
// one session. Expired links are forgotten; their documents expire by themselves.
func (d *delivery) resolve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.store.now()
	maps.DeleteFunc(d.waiting, func(_ string, w Waiting) bool { return now.Sub(w.At) > 2*MaxWait }) // expired
	if len(d.waiting) == 0 || time.Since(d.lookedFor) < resolveEvery {
		return
	}
	d.lookedFor = time.Now()
	links := slices.SortedFunc(maps.Values(d.waiting), func(a, b Waiting) int { return a.At.Compare(b.At) })
	d.spawn(func(ctx context.Context) error {
		if err := d.linker.resolve(ctx, d.productID, links); err != nil {
			return awaitStorage(ctx, d.logger, err)
		}
		return nil
	})
}

// decodeWaiting decodes the document of a waiting link, and reports false for a damaged one.
func decodeWaiting(value []byte) (w Waiting, ok bool) {
	return w, json.Unmarshal(value, &w) == nil && w.Conversation != ""
}
