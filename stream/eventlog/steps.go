package eventlog

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// sessionGroup is a request's events for one session. Events of a user outside
// any session form a group of that user, and events with neither form their
// own group.
type sessionGroup struct {
	owner
	size   int              // of events
	events []activity.Event // in the order of their stamps
}

// owner is the subject of a group: one of the fields is set.
type owner struct{ sessionID, user, event string }

// ownerOf returns the subject of an event's group.
func ownerOf(e *activity.Event) owner {
	switch {
	case e.SessionID != "":
		return owner{sessionID: e.SessionID}
	case e.UserID != "":
		return owner{user: e.UserID}
	}
	return owner{event: e.ID}
}

// grouping holds the events of a request by session, in memory that the next
// request reuses. The zero value is ready for use.
type grouping struct {
	groups  []sessionGroup
	events  []activity.Event // of all groups, one group after the other
	byOwner map[owner]int    // the index of the owner's group
	seen    map[feed.Key]struct{}
	of      []int // the group of each event of the request; -1 for duplicates
	step    step
}

// group sorts events by session, in order of appearance, and drops duplicates
// within the request. It completes their times: host is now by this process's clock, engine by
// the clock of the log.
func (g *grouping) group(events []activity.Event, host, engine time.Time) (duplicates int) {
	if g.seen == nil {
		g.byOwner, g.seen = make(map[owner]int, len(events)), make(map[feed.Key]struct{}, len(events))
	}
	g.of, g.groups = slices.Grow(g.of, len(events)), slices.Grow(g.groups, len(events))
	for i := range events {
		id := feed.KeyOf(events[i].ID)
		if _, ok := g.seen[id]; ok {
			duplicates++
			g.of = append(g.of, -1)
			continue
		}
		g.seen[id] = struct{}{}
		g.of = append(g.of, g.groupOf(ownerOf(&events[i])))
	}
	g.events = slices.Grow(g.events, len(events)) // the groups point into it
	for i := range g.groups {
		from := len(g.events)
		g.events = g.events[:from+g.groups[i].size]
		g.groups[i].events = g.events[from:from]
	}
	for i, of := range g.of {
		if of >= 0 {
			g.groups[of].events = append(g.groups[of].events, timed(events[i], host, engine))
		}
	}
	for i := range g.groups {
		slices.SortStableFunc(g.groups[i].events, func(a, b activity.Event) int { return a.Time.Compare(b.Time) })
	}
	return duplicates
}

// timed returns the event with its time of arrival by the clock of the log, and with a time.
func timed(e activity.Event, host, engine time.Time) activity.Event {
	if e.Received.IsZero() {
		e.Received = host
	}
	if ahead := host.Sub(engine); ahead.Abs() >= agreement {
		e.Received = e.Received.Add(-ahead)
	}
	if e.Time.IsZero() {
		e.Time, e.ServerTime = e.Received.Add(-e.Age), true
	}
	return e
}

// agreement is the largest expected difference between two readings of one clock.
// Clocks that differ by less are taken to be the same.
const agreement = time.Millisecond

// groupOf counts one more event in the owner's group, and returns the group's
// index.
func (g *grouping) groupOf(o owner) int {
	i, ok := g.byOwner[o]
	if !ok {
		i = len(g.groups)
		g.byOwner[o] = i
		g.groups = append(g.groups, sessionGroup{owner: o})
	}
	g.groups[i].size++
	return i
}

// forget releases the events and keeps the memory for the next request.
func (g *grouping) forget() {
	g.step.release()
	clear(g.groups)
	clear(g.events)
	clear(g.byOwner)
	clear(g.seen)
	g.groups, g.events, g.of = g.groups[:0], g.events[:0], g.of[:0]
}

// maxEvents bounds the events recorded in one step, which changes at most
// four documents for each: a very large request must not delay others.
const maxEvents = 256

// step is the part of a request that is recorded in one append. A group that is too large for one
// step has parts in several steps, in order.
type step struct {
	parts  []part
	events []activity.Event // of all parts
}

// steps divides the groups into steps. A step is valid until the next one. Its
// events are then released, so that memory holds a large request only once: the
// recorded part in the log, the rest here.
func (g *grouping) steps() iter.Seq[*step] {
	return func(yield func(*step) bool) {
		s := &g.step
		for i := range g.groups {
			g := &g.groups[i]
			for from := 0; from < len(g.events); {
				to := min(from+maxEvents-len(s.events), len(g.events))
				s.add(part{sessionGroup: g, first: from == 0, events: g.events[from:to], rest: g.events[to:]})
				if from = to; len(s.events) == maxEvents {
					if !yield(s) {
						return
					}
					s.release()
				}
			}
		}
		if len(s.events) > 0 {
			yield(s)
		}
	}
}

// add adds a part. Its events must directly follow the previous part's events in
// memory.
func (s *step) add(p part) {
	if len(s.parts) == 0 {
		s.events = p.events[:0]
	}
	s.parts, s.events = append(s.parts, p), s.events[:len(s.events)+len(p.events)]
}

// outcome returns the result of the step: expired counts the events that the last attempt
// found expired, and duplicates the ones dropped before it.
func (s *step) outcome(expired, duplicates int) activity.Result {
	did := activity.Result{Duplicate: duplicates, Expired: expired}
	for i := range s.parts {
		did.Repeated += s.parts[i].repeated
		did.Unmarked += s.parts[i].unmarked
	}
	did.Accepted = len(s.events) - duplicates - expired - did.Repeated - did.Unmarked
	return did
}

// release forgets the recorded events.
func (s *step) release() {
	for i := range s.parts {
		if p := &s.parts[i]; len(p.rest) == 0 {
			*p.sessionGroup = sessionGroup{}
		}
	}
	clear(s.events)
	clear(s.parts)
	s.parts, s.events = s.parts[:0], nil
}

// appendTurns appends the turns that the step needs: one for each session, or user
// outside any.
func (s *step) appendTurns(turns []turn, productID string) []turn {
	turns = slices.Grow(turns, len(s.parts))
	for i := range s.parts {
		if of := s.parts[i].owner; of.event == "" {
			turns = append(turns, turn{productID, of})
		}
	}
	return turns
}

// drop removes the actions and identities that have one of the keys. It returns
// the number of their events, and whether it has removed anything.
func (s *step) drop(keys []feed.Key) (dropped int, any bool) {
	seen := make(map[feed.Key]struct{}, len(keys))
	for _, key := range keys {
		seen[key] = struct{}{}
	}
	for i := range s.parts {
		events, some := s.parts[i].drop(seen)
		dropped, any = dropped+events, any || some
	}
	return dropped, any
}

// part is the part of a group that one step records. Its events and rest share the group's
// memory, which no attempt changes. Each attempt sets the result again, but seen only grows.
type part struct {
	*sessionGroup
	first  bool
	events []activity.Event      // this part's events of the group
	rest   []activity.Event      // the group's events of later steps
	seen   map[feed.Key]struct{} // keys of actions and identities already in the log

	// The result of the last attempt.
	session directory.Session
	actions []activity.Event // in time order
	named   []activity.Event // that identify an anonymous visitor

	repeated int            // repeated errors, left out of actions
	unmarked int            // marks without effect, left out of actions
	next     activity.Event // the session's next action, if that is in another step
}

// learn assigns the part's events, except for duplicates, their times, updates the book from them, and
// returns how many had expired. At the first part of a group the session learns from the whole group, so that
// all entries of the group agree.
func (p *part) learn(ctx context.Context, a *appending) (expired int, err error) {
	book := a.book
	var whole []activity.Event
	if p.first && len(p.rest) > 0 {
		whole, _ = book.Settle(p.sessionID, p.sessionGroup.events)
	}
	events := p.events
	if len(p.seen) > 0 { // a duplicate must not bring back an erased identity
		events = slices.DeleteFunc(slices.Clone(events), p.isSeen)
	}
	settled, expired := book.Settle(p.sessionID, events)
	if p.session, err = book.Learn(ctx, p.sessionID, settled, whole...); err != nil {
		return 0, err
	}
	p.named = p.named[:0]
	for i := range settled {
		e := settled[i]
		if !p.session.Names(&e) {
			continue
		}
		if e.Action != nil {
			e.ID += alsoNames
		}
		if !p.isSeen(e) {
			p.named = append(p.named, e)
			if a.verifiedOnly { // the visitor's actions were withheld, or not only claimed
				e.ID, e.Anonymous = e.ID+unnamed, ""
				p.named = append(p.named, e)
			}
		}
	}
	p.actions = slices.DeleteFunc(settled, func(e activity.Event) bool { return e.Action == nil || p.isSeen(e) })
	p.actions, p.repeated = book.DropRepeated(p.sessionID, p.actions)
	p.actions, p.unmarked = book.ApplyMarks(p.sessionID, p.actions)
	if next := slices.IndexFunc(p.rest, func(e activity.Event) bool { return e.Action != nil }); next >= 0 {
		settled, _ := book.Settle(p.sessionID, p.rest[next:next+1])
		for _, e := range settled {
			p.next = e
		}
	}
	return expired, nil
}

// added returns how many actions the part adds to its session: a mark adds none.
func (p *part) added() (n int) {
	for i := range p.actions {
		if !p.actions[i].IsMark() {
			n++
		}
	}
	return n
}

// alsoNames is the suffix of the ID of an identity entry whose event also has an
// action.
const alsoNames = "/names"

// unnamed is the suffix of the ID of an identity entry that gives a user the actions without
// one. The event with the ID before the suffix names that user.
const unnamed = "/unnamed"

// relation is the role of an action's user in the session.
type relation int

const (
	sessionUser relation = iota // the session's user, or its visitor
	otherUser                   // another identified user, from an earlier or later time
	claimedUser                 // another user, named by an event of a lower standing than the session's
)

// relation returns the role of an action's user. Only the actions of the session's own user
// carry its address and conversation.
func (p *part) relation(e *activity.Event) relation {
	isNamed := func(named activity.Event) bool { return named.Anonymous == e.UserID }
	switch {
	case e.UserID == "", e.UserID == p.session.UserID, slices.ContainsFunc(p.named, isNamed):
		return sessionUser
	case e.Standing < p.session.Standing:
		return claimedUser
	case slices.Contains(p.session.Identified(), e.UserID):
		return otherUser
	}
	return sessionUser
}

// isSeen reports whether an event is known to be in the log already.
func (p *part) isSeen(e activity.Event) bool {
	if len(p.seen) == 0 {
		return false
	}
	_, seen := p.seen[feed.KeyOf(e.ID)]
	return seen
}

// drop is [step.drop] for a part.
func (p *part) drop(keys map[feed.Key]struct{}) (dropped int, any bool) {
	if p.seen == nil {
		p.seen = map[feed.Key]struct{}{}
	}
	see := func(events []activity.Event) (n int) {
		for _, e := range events {
			key := feed.KeyOf(e.ID)
			if _, ok := keys[key]; ok {
				p.seen[key] = struct{}{}
				n++
			}
		}
		return n
	}
	dropped = see(p.events)
	return dropped, see(p.named) > 0 || dropped > 0
}
