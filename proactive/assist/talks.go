package assist

import (
	"container/heap"
	"time"

	"github.com/liveactivity/liveactivity/internal/assistance"
)

// session is what is kept of a session: of those that did something within
// assistance.WindowSpan.
type session struct {
	id     string
	window assistance.Window
	talk   *talk // of the conversation that it is linked to; nil for none
	newest time.Time
	again  appointment // when the core wants to be asked
}

// talk is what is kept of a conversation: of those that have a session here, or
// whose machine needs a tick.
type talk struct {
	conversation
	machine  assistance.Machine // as it was last seen
	known    bool               // machine was seen
	sessions int
	failures int
	busy     bool      // something is in flight, and ticks wait
	due      time.Time // when the machine needs a tick; zero for never
	tick     appointment
}

// appointment is a time in an agenda, of a session or of a talk.
type appointment struct {
	at      time.Time
	place   int // in the agenda, counted from 1; zero for none
	session *session
	talk    *talk
}

// agenda is a heap of appointments, the earliest first.
type agenda []*appointment

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}
func (a *agenda) Push(x any) {
	*a = append(*a, x.(*appointment))
	x.(*appointment).place = len(*a)
}
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = nil
	*a = (*a)[:len(*a)-1]
	last.place = 0
	return last
}

// set moves an appointment to a time, zero for never.
func (a *agenda) set(x *appointment, at time.Time) {
	x.at = at
	switch {
	case at.IsZero() && x.place > 0:
		heap.Remove(a, x.place-1)
	case at.IsZero():
	case x.place > 0:
		heap.Fix(a, x.place-1)
	default:
		heap.Push(a, x)
	}
}

// next takes out an appointment that is due, nil for none.
func (a *agenda) next(now time.Time) *appointment {
	if len(*a) == 0 || (*a)[0].at.After(now) {
		return nil
	}
	return heap.Pop(a).(*appointment)
}

// session returns what is kept of a session that does something now.
func (s *shift) session(id string, now time.Time) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.sessions[id]
	if !ok {
		known = &session{id: id}
		known.again.session = known
		s.sessions[id] = known
	}
	known.newest = now
	return known
}

// conversationOf returns the conversation that a session is linked to, zero for
// none.
func (s *shift) conversationOf(known *session) conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.talk == nil {
		return conversation{}
	}
	return known.talk.conversation
}

// join links a session to a conversation, or to none if that is zero, and reports
// whether the conversation's machine is still to be read.
func (s *shift) join(known *session, c conversation) (unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := known.talk
	known.talk = nil
	if c.id != "" {
		known.talk = s.talk(c)
		unread = !known.talk.known
		known.talk.sessions++
	}
	if former != nil {
		former.sessions--
		s.arrange(former)
	}
	return unread
}

// change changes what is kept of a conversation.
func (s *shift) change(c conversation, change func(t *talk)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.talk(c)
	change(t)
	s.arrange(t)
}

// talk returns what is kept of a conversation. The caller holds the lock and
// arranges it.
func (s *shift) talk(c conversation) *talk {
	t := s.talks[c]
	if t == nil {
		t = &talk{conversation: c}
		t.tick.talk = t
		s.talks[c] = t
	}
	return t
}

// arrange puts a talk that has changed in its place, or forgets it. The caller
// holds the lock.
func (s *shift) arrange(t *talk) {
	at := t.due
	if t.busy {
		at = time.Time{}
	}
	s.ticks.set(&t.tick, at)
	if t.sessions == 0 && t.due.IsZero() && !t.busy {
		delete(s.talks, t.conversation)
	}
}

// keep remembers a machine, and when it needs a tick.
func (s *shift) keep(c conversation, m assistance.Machine) { s.learn(c, m, true) }

// learn is keep; where a machine is known already it makes no difference, unless
// this one is newer.
func (s *shift) learn(c conversation, m assistance.Machine, newer bool) {
	at, ticks := s.rules(c).Due(m, s.now())
	if !ticks {
		at = time.Time{}
	}
	s.change(c, func(t *talk) {
		if newer || !t.known {
			t.machine, t.known, t.due = m, true, at
		}
	})
}

// doubt has a machine read again soon: it is not known what is stored.
func (s *shift) doubt(c conversation) {
	soon := s.now().Add(firstRetry)
	s.change(c, func(t *talk) {
		if t.due.IsZero() || t.due.After(soon) {
			t.due = soon
		}
	})
}

// begin lets ticks of a conversation wait until it is settled.
func (s *shift) begin(c conversation) {
	s.change(c, func(t *talk) { t.busy = true })
}

// release gives back a conversation that dueAt returned: nothing was done.
func (s *shift) release(c conversation) {
	s.change(c, func(t *talk) { t.busy = false })
}

// settled ends what began with begin or a tick. What did not succeed, or is due
// nevertheless, is repeated after a back-off.
func (s *shift) settled(c conversation, ok bool) {
	now := s.now()
	s.change(c, func(t *talk) {
		t.busy = false
		due := !t.due.IsZero() && !t.due.After(now)
		switch {
		case ok && !due:
			t.failures = 0
		case due:
			t.due = now.Add(min(firstRetry<<min(t.failures, 10), lastRetry))
			t.failures++
		}
	})
}

// decide asks the core about a session.
func (s *shift) decide(known *session, decide func(assistance.Machine, assistance.Session) assistance.Decision) (conversation, assistance.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c conversation
	var m assistance.Machine
	if known.talk != nil {
		c, m = known.talk.conversation, known.talk.machine
	}
	d := decide(m, assistance.Session{ProductID: s.productID, SessionID: known.id, ConversationID: c.id})
	s.asks.set(&known.again, d.Again)
	return c, d
}

// dueAt returns the sessions that the core wants to be asked about, each with the
// time that it named, and the conversations whose machines need a tick: those are
// begun with. It forgets sessions that are over.
func (s *shift) dueAt(now time.Time) (sessions map[*session]time.Time, conversations []conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.looked) { // the clock was set back: all that is due has to be computed anew
		for _, x := range s.ticks {
			x.at, x.talk.due = now, now
		}
	}
	s.looked = now
	if now.Sub(s.swept).Abs() >= sweepEvery {
		s.swept = now
		s.sweep(now)
	}
	sessions = map[*session]time.Time{}
	for x := s.asks.next(now); x != nil; x = s.asks.next(now) {
		sessions[x.session] = x.at
	}
	for x := s.ticks.next(now); x != nil; x = s.ticks.next(now) {
		x.talk.busy = true
		conversations = append(conversations, x.talk.conversation)
	}
	return sessions, conversations
}

// sweep forgets sessions whose windows are empty by now. The caller holds the lock.
func (s *shift) sweep(now time.Time) {
	for id, known := range s.sessions {
		if now.Sub(known.newest) <= assistance.WindowSpan {
			continue
		}
		delete(s.sessions, id)
		s.asks.set(&known.again, time.Time{})
		if t := known.talk; t != nil {
			t.sessions--
			s.arrange(t)
		}
	}
}
