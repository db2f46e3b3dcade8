package connector

import (
	"strings"
	"time"
	"unsafe"

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
)

// watch holds the input of triggers: the sessions of a product that were active within
// watchSpan. The delivery's mutex guards it. It begins with a reset.
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

// askAbout asks the triggers about the actions of an entry. A match makes the conversation
// of the session due immediately, because its moment passes. Triggers run under the
// delivery's mutex, so a slow one delays the product's whole delivery.
//
// For a linked session only the actions of its conversation count, for any other only the ones
// that name none: a conversation that is gone has used up its own. Entries from before the
// load may be from before the link; then their actions may name no conversation. They happen
// when the log received them, so that a time to ask again may have come during a restart.
func (d *delivery) askAbout(e *eventlog.Entry, core *assistance.Core) {
	batch, err := e.Decode()
	if err != nil || batch == nil {
		return
	}
	w, now := &d.watch, d.store.now()
	w.expire(now)
	known, at, isOld := w.session(e.SessionID), now, e.ID.Compare(d.loaded) <= 0
	if isOld {
		at = schedule.Earlier(e.ID.Time(), now)
	}
	var conversationID string // of the session's link
	linkedAt := 0             // actions from there on name it
	if of := d.bySession[e.SessionID]; len(of) > 0 {
		l := of[len(of)-1]
		conversationID = l.link().ConversationID
		if first := l.session(e.SessionID).linkedAt; isOld && first != newLink {
			linkedAt = first
		}
	}
	for _, a := range batch.Actions {
		if a.ConversationID != conversationID && (a.ConversationID != "" || a.Index >= linkedAt) {
			w.asks.Remove(&known.again) // it is another conversation's, or somebody else's: the user has left
			continue
		}
		known.acted = tracing.ActionOf(known.id, &a.Action).Start
		d.decide(known, at, func(m assistance.Machine, s assistance.Session) assistance.Decision {
			return core.Act(&known.window, m, s, a.Action, at)
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
	if e := w.sessions.Find("", sessionID); e != nil {
		w.asks.Remove(&e.Value.again)
		e.Remove()
	}
}

// reportBytes reports the sessions' share of the memory for all products.
func (w *watch) reportBytes() { w.share.Set(w.sessions.Bytes(""), w.sessions.Len() > 0) }

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

// askTriggers asks the triggers that are due about sessions that have done nothing since, but not while
// the session's later actions may be still to be read. The caller holds the delivery's mutex.
func (d *delivery) askTriggers() {
	if d.behind {
		return
	}
	now := d.store.now()
	for known, ok := d.watch.asks.Pop(now); ok; known, ok = d.watch.asks.Pop(now) {
		due := known.again.Due()
		d.decide(known, now, func(m assistance.Machine, s assistance.Session) assistance.Decision {
			return d.watch.core.Ask(&known.window, m, s, due, now)
		})
	}
}

// decide has the core decide about a session and remembers the offer to be made. The decision
// uses the machine as this process last saw it; claimOffer decides again with the stored one. Only
// the holder of the lease logs and counts a match without an offer, so that it counts once: if nobody
// holds it, claimOffer does, but not for a stranger.
func (d *delivery) decide(known *watched, at time.Time,
	decide func(assistance.Machine, assistance.Session) assistance.Decision) {
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
	if l == nil || decision.Reason == assistance.NoMatch || d.config.rules(l.account.desk) == nil {
		return
	}
	match := &offering{Matched: decision.Match, reason: decision.Reason, session: known.id,
		newest: tracing.Action{SessionID: known.id, Start: known.acted}, at: d.store.hostTime(at)}
	if s := l.session(known.id); s != nil && s.stranger {
		match.reason = untrusted // and replaces no match of another session
	}
	switch {
	case match.reason == assistance.Offered:
		l.ensureMemo().again[offers] = time.Time{}
	case d.spawn != nil: // the lease is held
		d.assisted.decided(d.productID, l.link(), match, match.reason)
		return
	case match.reason == untrusted || l.memo != nil && l.memo.match != nil:
		return
	}
	l.ensureMemo().match = match
	d.lookAt(l, time.Now(), true)
}
