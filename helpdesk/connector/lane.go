package connector

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// lane is a conversation in memory: its sessions and its due times. It is small, because a desk
// that is away has a lane for every conversation. Its delivery's mutex guards it.
//
//	idle      the slot is unset: nothing is due, and sweep forgets the lane in time
//	due       the slot is in an agenda of the account: in its own, or in the one of its turns
//	          if only strangers' notes are due
//	working   popDue has popped the slot. Nothing makes the lane due: news is recorded in from,
//	          otherDue and ownDue, and decides where back, done or drop puts the lane
//
// A lane with failures stays due in the agenda at the time of its next attempt; nothing else
// records that time.
type lane struct {
	key      string // of its link
	account  *account
	sessions []laneSession
	slot     schedule.Slot[*lane] // in an agenda of the account
	from     eventlog.ID          // nothing to write was appended up to here; zero if all is written

	since     time.Time // when the oldest unwritten action came; zero if there is none
	used      time.Time // when something last happened
	calm      time.Time // no note of actions is due before; zero if none was ever accepted
	settles   time.Time // nor before its sessions have been quiet, even if something else is due
	otherDue  time.Time // when something else is due; zero for nothing
	erasures  int       // erasures of its sessions seen so far
	working   bool
	ownDue    bool // something other than strangers' notes is due
	inTurns   bool // the slot is for the agenda of the account's turns
	servesOwn bool // the job does something other than strangers' notes
	// memo is nil until part of it is needed; see ensureMemo.
	memo *memo
}

// laneSession is a session of a lane.
type laneSession struct {
	id       string
	after    eventlog.ID // everything up to here is written; zero while that is unknown
	linkedAt int         // as in the document; newLink until that is read
	stranger bool        // only a stranger has linked it
}

// memo is the part of a lane that few lanes need: inputs of next that are in no document. A
// server that takes over asks the desk or the model again.
type memo struct {
	machine *assistance.Machine // as it was last seen; nil for the initial one
	// match is the newest offer that triggers ask for, until a job claims it.
	match *offering
	// draft is the result of the last model call for a summary, until its note is written: without
	// text the model has failed, and Upto is the number of actions that it was asked about. answer
	// is the result of the last call for a reply: a step of kindReply or kindDrop, which nobody
	// modifies. modelRuns means that a call is running.
	draft     *writing
	answer    *step
	modelRuns bool
	// theirs are the IDs of messages that the desk has confirmed as the requester's.
	theirs   []string
	failures [classes]int       // in a row
	again    [classes]time.Time // when failed steps are due again
	refused  time.Time          // when the desk last refused a request; see isOwn
}

func (l *lane) link() Link { return linkOf(l.key) }

// session returns the session with that ID, or nil.
func (l *lane) session(id string) *laneSession {
	for i := range l.sessions {
		if l.sessions[i].id == id {
			return &l.sessions[i]
		}
	}
	return nil
}

// readFrom records that there is something to write after the ID.
func (l *lane) readFrom(id eventlog.ID) {
	l.from = eventlog.Earlier(cmp.Or(l.from, id), id)
}

// isOverdue reports whether a note should have been written long ago: its last attempt failed, or
// its due time passed parkedAfter ago and nothing works on it.
func (l *lane) isOverdue(now time.Time) bool {
	return !l.since.IsZero() && (l.noteFailures() > 0 || !l.working && l.slot.Due().Before(now.Add(-parkedAfter)))
}

// parkedAfter is by how much a note has to be late to count as overdue.
const parkedAfter = 5 * time.Second

// put makes a lane due at that time, earlier or later than before. It moves the slot to the
// agenda that ownDue calls for. While the lane is being worked on put does nothing: the end of the
// job makes it due.
func (d *delivery) put(l *lane, due time.Time) {
	if l.working {
		return
	}
	if l.inTurns == l.ownDue {
		l.agenda().Remove(&l.slot)
		l.inTurns = !l.ownDue
	}
	if l.agenda().Set(&l.slot, due) {
		d.wake.Signal()
	}
}

// agenda returns the agenda that holds the lane's slot if the slot is set.
func (l *lane) agenda() *schedule.Agenda[*lane] {
	if l.inTurns {
		return &l.account.turns.lanes
	}
	return &l.account.lanes
}

// lookAt makes a lane due at that time for something other than actions, such as a change
// of its document; own is false for a change by a stranger. It never delays a lane. While
// the lane is being worked on it records the time, and the lane is due again right after
// the job.
func (d *delivery) lookAt(l *lane, at time.Time, own bool) {
	l.used, l.otherDue = time.Now(), sooner(l.otherDue, at)
	moves := own && !l.ownDue
	l.ownDue = l.ownDue || own
	if moves || !l.slot.IsSet() || l.slot.Due().After(at) {
		d.put(l, at)
	}
}

// arrived records that a session has something to write after the ID, and when it was appended.
// The lane is due once its sessions have been quiet for the debounce time, but not before the
// calm after its last note is over. A lane that is already due keeps its place in the queue; one
// that has failed keeps the time of its next attempt.
func (d *delivery) arrived(l *lane, s *laneSession, after eventlog.ID, appended, now time.Time,
	debounce time.Duration) {
	l.used = now
	l.readFrom(after)
	moves := !l.working && !l.ownDue && !s.stranger
	if moves { // it no longer waits for the strangers' turn
		l.since, l.otherDue = time.Time{}, time.Time{}
	}
	if l.since.IsZero() {
		l.since = appended
	}
	l.ownDue = l.ownDue || !s.stranger
	quiet := l.quiet(now, debounce)
	switch isSet := l.slot.IsSet(); {
	case l.working: // the end of the job makes it due
		l.settles = quiet
		return
	case l.noteFailures() > 0:
		if moves && isSet {
			d.put(l, l.slot.Due())
		}
		return
	case isSet && !moves && !l.slot.Due().After(now): // it keeps its place
		return
	}
	l.settles = quiet
	d.put(l, sooner(quiet, l.otherDue))
}

// quiet returns when the actions of a lane are due if one was added now. The longest wait for
// quiet counts from since.
func (l *lane) quiet(now time.Time, debounce time.Duration) time.Time {
	return schedule.Later(schedule.Quiet(l.since, now, debounce), l.calm)
}

// newLink is the linkedAt of a link whose document was not read yet: it is the session's newest.
const newLink = math.MaxInt

// join lets a session's entries wake the lane. It reports whether they did not wake it
// before: then everything after the session's cursor has to be read. The lanes of a
// session are in the order of its links. Triggers offer help in the conversation of the
// last one; the others still get the actions that belong to them. If after is zero, the
// cursor stays unknown until the next job sets it.
func (d *delivery) join(l *lane, sessionID string, linkedAt int, after eventlog.ID, stranger bool) (fresh bool) {
	s := l.session(sessionID)
	if s == nil {
		l.sessions = append(l.sessions, laneSession{id: sessionID})
		s = &l.sessions[len(l.sessions)-1]
	}
	s.linkedAt, s.stranger = linkedAt, stranger
	d.order(l, sessionID)
	fresh = s.after == eventlog.ID{}
	if fresh {
		s.after = after
	}
	return fresh
}

// order moves a lane to its place among the lanes of a session. A new link goes behind an equal
// one.
func (d *delivery) order(l *lane, sessionID string) {
	of := d.bySession[sessionID]
	var newest *lane
	if len(of) > 0 {
		newest = of[len(of)-1]
	}
	if s := l.session(sessionID); s.linkedAt == newLink || !slices.Contains(of, l) {
		of = append(slices.DeleteFunc(of, func(o *lane) bool { return o == l }), l)
	}
	slices.SortStableFunc(of, func(a, b *lane) int {
		return cmp.Compare(a.session(sessionID).linkedAt, b.session(sessionID).linkedAt)
	})
	d.bySession[sessionID] = of
	if newest != nil && newest != of[len(of)-1] {
		d.watch.forget(sessionID) // triggers do not see another person's actions
	}
}

// lane returns the lane of a conversation and creates it if there is none. The caller holds mu.
func (d *delivery) lane(of Link, now time.Time) *lane {
	key := of.key()
	l, ok := d.lanes[key]
	if !ok {
		l = &lane{key: key, account: d.account(of.Desk), used: now}
		l.slot.Value = l
		d.lanes[key] = l
	}
	return l
}

// account returns the account of a desk and creates it, in the state answers, if there is none.
// The caller holds mu. Accounts are never removed: a product has few.
func (d *delivery) account(desk string) *account {
	a, ok := d.accounts[desk]
	if !ok {
		a = &account{desk: desk}
		d.accounts[desk] = a
	}
	return a
}

// forget removes a lane that is not being worked on, due or not. The actions that led to an offer
// in its conversation lead to none in the session's next one. The caller holds mu.
func (d *delivery) forget(l *lane) {
	l.agenda().Remove(&l.slot)
	delete(d.lanes, l.key)
	for _, s := range l.sessions {
		of := d.bySession[s.id]
		if n := len(of); n > 0 && of[n-1] == l {
			d.watch.forget(s.id) // an earlier link may be another person's
		}
		if d.bySession[s.id] = slices.DeleteFunc(of, func(o *lane) bool { return o == l }); len(d.bySession[s.id]) == 0 {
			delete(d.bySession, s.id)
		}
	}
}

// drop ends the work on a lane whose conversation no longer exists, and forgets it. If a session
// has joined the conversation again in the meantime, the lane is due immediately, and its
// document is read again.
func (d *delivery) drop(l *lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.end(true)
	if l.from != (eventlog.ID{}) || !l.otherDue.IsZero() {
		d.put(l, time.Now())
		return
	}
	d.forget(l)
}

// ensureMemo returns the lane's memo, and creates it if there is none.
func (l *lane) ensureMemo() *memo {
	if l.memo == nil {
		l.memo = &memo{}
	}
	return l.memo
}

// noteFailures returns how many notes of the lane have failed in a row.
func (l *lane) noteFailures() int {
	if l.memo == nil {
		return 0
	}
	return l.memo.failures[notes]
}

// isProven reports whether the desk has ever accepted a note of the lane's actions.
func (l *lane) isProven() bool { return !l.calm.IsZero() }

// fail counts a failure of a class and returns the pause before the next attempt: the class's
// back-off, but at least wait and at most most. It reports whether the failure is the first in a row.
func (m *memo) fail(c class, wait, most time.Duration) (first bool, pause time.Duration) {
	m.failures[c]++
	pause = min(max(backoffs[c].After(m.failures[c]), wait), most)
	m.again[c] = time.Now().Add(pause)
	return m.failures[c] == 1, pause
}

// noted records that a note was written, and until when there is no further one. With isLast no
// action that the job found is left. Entries that the note covers no longer wake the lane, unless
// the session was linked again in the meantime.
func (l *lane) noted(w *writing, calm time.Time, isLast bool) {
	if isLast {
		l.since = time.Time{}
		if l.from != (eventlog.ID{}) { // news came while the job worked
			l.since = time.Now()
		}
	}
	if s := l.session(w.Session); s != nil && w.Count > 0 {
		if l.calm = calm; s.after != (eventlog.ID{}) {
			s.after = w.To.After
		}
	}
	if l.memo != nil && w.Summary != nil {
		l.memo.draft = nil
	}
}

// back ends the job unfinished: the lane is due again at that time, or earlier for news that
// came in the meantime. The next job reads the log from where this one did; the cursor in the
// document excludes the actions of settled notes.
func (j *job) back(due time.Time) {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	l := j.lane
	if j.from != (eventlog.ID{}) {
		l.readFrom(j.from)
	}
	l.end(false)
	l.otherDue = cmp.Or(l.otherDue, due)
	j.d.put(l, sooner(due, l.otherDue))
}

// backIn ends the job unfinished: the lane is due after the pause. Without one it keeps its place
// among the lanes that wait for the account.
func (j *job) backIn(pause time.Duration) {
	if pause > 0 {
		j.back(time.Now().Add(pause))
		return
	}
	j.back(j.lane.slot.Due())
}

// done ends the job: everything that was found and need not wait is done. The lane is due
// again when there is more, or when next has said so: at due, or at own for anything
// other than strangers' notes. waits means that strangers' notes wait for their turn.
//
//	news came, or a scan ended early        due now
//	found actions or the outbox wait        due when next says; the log is read again from the
//	                                        same position
//	entries came while the job worked       due after the debounce time, counted from now
//	nothing                                 due when next says, or idle
//
// The failures in a row end, unless the time of the next attempt is still to come: then the lane is
// due at that time, even if no note is left to write.
func (j *job) done(due, own time.Time, waits bool) {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	l, now := j.lane, time.Now()
	l.end(true)
	asked := !l.otherDue.IsZero() // while it was worked on
	l.used, l.ownDue = now, l.ownDue || !own.IsZero()
	if due = sooner(due, own); waits && l.ownDue {
		due = sooner(own, now.Add(turnPause))
	} else if waits {
		due = now
	}
	if m := l.memo; m != nil && m.again[notes].After(now) {
		due = sooner(due, m.again[notes])
	} else if m != nil {
		m.failures[notes], m.refused = 0, time.Time{}
	}
	l.otherDue = due
	held := j.isHeld()
	if held && j.from != (eventlog.ID{}) {
		l.readFrom(j.from)
	}
	more := asked
	for _, w := range j.wants {
		if w.more && !held {
			l.readFrom(w.reached)
			l.ownDue, more = l.ownDue || j.r.owned(), true
		}
	}
	switch {
	case more:
		j.d.put(l, now)
	case held:
		l.calm = j.calm()
		j.d.put(l, due)
	case l.from != (eventlog.ID{}):
		l.since = now
		j.d.put(l, sooner(l.quiet(now, j.product.Notes.Debounce), due))
	default:
		l.since = time.Time{}
		if !due.IsZero() {
			j.d.put(l, due)
		}
	}
}

// isHeld reports whether something that was found has to wait: a note in the outbox, or actions
// during the calm, a back-off or the turn of others.
func (j *job) isHeld() bool {
	return j.r.Writing != nil || slices.ContainsFunc(j.wants, func(w *want) bool { return len(keptOf(w.found)) > 0 })
}
