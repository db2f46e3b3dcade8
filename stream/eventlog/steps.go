package eventlog

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/feed"
)

// owner is the subject of a group of events: one of the fields is set. Events of a user outside any
// session form a group of that user, and an event with neither is a group of its own.
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

// timed returns an event with its time of arrival by the clock of the log, and with a time. host is now
// by this process's clock, engine by the log's.
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

// group appends the events without duplicates to grouped, timed: one group after the other in the
// order of appearance, and each group in the order of its stamps.
func group(grouped, events []activity.Event, host, engine time.Time) []activity.Event {
	type place struct {
		group int
		at    time.Time
		event *activity.Event
	}
	places := make([]place, 0, len(events))
	seen, groups := make(map[feed.Key]struct{}, len(events)), make(map[owner]int, len(events))
	for i := range events {
		key, of := feed.KeyOf(events[i].ID), ownerOf(&events[i])
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = struct{}{}
		if _, ok := groups[of]; !ok {
			groups[of] = len(groups)
		}
		places = append(places, place{groups[of], timed(events[i], host, engine).Time, &events[i]})
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.group, b.group), a.at.Compare(b.at))
	})
	grouped = slices.Grow(grouped, len(places))
	for _, p := range places {
		grouped = append(grouped, timed(*p.event, host, engine))
	}
	return grouped
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

// steps divides grouped events into steps. A step is valid until the next one. Its events are then
// released, so that memory holds a large request only once: the recorded part in the log, the rest
// here.
func steps(grouped []activity.Event) iter.Seq[*step] {
	return func(yield func(*step) bool) {
		var s step
		var last owner // of the previous part
		for len(grouped) > 0 {
			clear(s.parts)
			s.parts, s.events = s.parts[:0], grouped[:min(maxEvents, len(grouped))]
			for at := 0; at < len(s.events); {
				of, all := ownerOf(&grouped[at]), firstGroup(grouped[at:])
				n := min(len(all), len(s.events)-at)
				s.parts = append(s.parts, part{owner: of, first: of != last, events: all[:n], rest: all[n:]})
				at, last = at+n, of
			}
			if !yield(&s) {
				return
			}
			clear(s.events)
			grouped = grouped[len(s.events):]
		}
	}
}

// firstGroup returns the events that belong to the group of the first one.
func firstGroup(grouped []activity.Event) []activity.Event {
	of := ownerOf(&grouped[0])
	for n := range grouped {
		if ownerOf(&grouped[n]) != of {
			return grouped[:n]
		}
	}
	return grouped
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

// turns returns the keys of the sessions, and of the users outside any, that the step changes. Only
// one request of a recorder works on a key at a time; requests to other servers collide as conflicts
// of documents.
func (s *step) turns(productID string) []string {
	turns := make([]string, 0, len(s.parts))
	for i := range s.parts {
		switch of := &s.parts[i].owner; {
		case of.sessionID != "":
			turns = append(turns, productID+"\x00session\x00"+of.sessionID)
		case of.user != "":
			turns = append(turns, productID+"\x00user\x00"+of.user)
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

// part is the part of a group that one step records. Its rest follows its events in memory, which
// no attempt changes. Each attempt sets the result again, but seen only grows.
type part struct {
	owner
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
		whole, _ = book.Settle(p.sessionID, p.events[:len(p.events)+len(p.rest)])
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
