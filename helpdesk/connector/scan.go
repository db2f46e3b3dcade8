package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// want is a range of a session's actions in the log, for its conversation. A scan fills
// it: then found has every action of the range in log order, including the ones left out,
// and at is the position after the last. It takes about room bytes of text.
type want struct {
	session                    // as in the document
	conversationID string      // actions since the link name it
	at             cursor      // moves with the scan
	from           eventlog.ID // where to read from: nothing wanted is before
	room           int         // bytes of text that it still takes

	found    []found
	clicks   map[click][]int // places in found, during the scan
	visitors map[string]bool // whom entries of the range identify: whether as the link's user
	trimmed  int             // actions that the log no longer holds
	gap      bool            // entries after the cursor were trimmed, of any session
	more     bool            // the scan ended early: there is more from reached on
	reached  eventlog.ID     // all that is wanted up to here was found
}

// found is an action and the position after it. The action has only the fields that a note or a
// summary needs. It is kept if it is to be written: it belongs to the conversation, is not too
// old, and no later action replaces it.
type found struct {
	activity.Action
	after cursor
	entry eventlog.ID
	user  string
	kept  bool // not left out
	alien bool // left out in the end, unless its user turns out to be the session's visitor
}

// click identifies actions of which a marked one replaces the others; see
// [activity.Action.TakesPlace].
type click struct {
	user, typ, title string
	start            float64
}

// Bounds of a scan.
const (
	// maxScan bounds one read of the log for conversations that are far behind, in
	// bytes, so that it delays the others only briefly.
	maxScan = 16 << 20
	// maxText is approximately how much text is taken for one session: a note of
	// the largest size that desks accept.
	maxText     = 96 << 10
	scanEntries = 256
	lineExtra   = 8 // bytes of a line in addition to its sentence
)

// scan reads the wanted ranges, in one pass over ranges that are near each other. It stops
// at the end of the log.
//
// Each entry is read once for all wants that cover it, so a thousand conversations that are
// behind cost one pass. If a want is left with more set, a later scan has to read the rest
// of its range. After an error the wants may be partly filled and must not be used. The
// slice is not changed.
func scan(ctx context.Context, log eventlog.Log, productID string, wants []*want) error {
	waiting := slices.SortedFunc(slices.Values(wants), func(a, b *want) int { return a.from.Compare(b.from) })
	into := make([]eventlog.Entry, scanEntries)
	for len(waiting) > 0 {
		p := pass{wants: waiting, open: map[string][]*want{}}
		if err := p.read(ctx, log, productID, into); err != nil {
			return fmt.Errorf("connector: read the log: %w", err)
		}
		waiting = p.wants
	}
	for _, w := range wants {
		w.decide()
	}
	return nil
}

// pass is one pass over a part of the log. A want waits until the pass reaches its start, and is
// then open until it takes no more or the pass ends.
type pass struct {
	wants []*want            // not reached yet, in the order of their starts
	open  map[string][]*want // by session: the open ones
}

// admit opens the wants that begin before the entry with that ID. IDs must not decrease from
// call to call.
func (p *pass) admit(id eventlog.ID) {
	for len(p.wants) > 0 && p.wants[0].from.Compare(id) < 0 {
		of := p.wants[0].ID
		p.open[of] = append(p.open[of], p.wants[0])
		p.wants = p.wants[1:]
	}
}

// take gives an entry to the open wants of its session. A session without open wants is removed
// from the map: read ignores its further entries.
func (p *pass) take(e *eventlog.Entry) {
	open := slices.DeleteFunc(p.open[e.SessionID], func(w *want) bool { return !w.take(e) })
	if p.open[e.SessionID] = open; len(open) == 0 {
		delete(p.open, e.SessionID)
	}
}

// each calls see with each open want.
func (p *pass) each(see func(*want)) {
	for _, open := range p.open {
		for _, w := range open {
			see(w)
		}
	}
}

// read reads from the start of the first want until none is open, at most maxScan bytes. At the
// end of the log no want is left waiting. If the pass ends before that, wants that are still
// open have more.
//
// A trimmed range is skipped, and the wants that reach into it are marked. The entries are the
// log's memory; into holds none of them after the call.
func (p *pass) read(ctx context.Context, log eventlog.Log, productID string, into []eventlog.Entry) error {
	at := p.wants[0].from
	for read, begun := 0, false; read < maxScan && (!begun || len(p.open) > 0); begun = true {
		n, err := log.Read(ctx, productID, at, into)
		var gap *eventlog.GapError
		switch {
		case errors.As(err, &gap):
			p.admit(gap.TrimmedTo)
			p.each(func(w *want) { w.gap = w.gap || w.at.After.Compare(gap.TrimmedTo) < 0 })
			at = gap.TrimmedTo
			continue
		case err != nil && !errors.Is(err, eventlog.ErrClosed):
			return err
		case n == 0:
			p.wants = nil
			return nil
		}
		for i := range into[:n] {
			e := &into[i]
			read += len(e.Data)
			p.admit(e.ID)
			if p.open[e.SessionID] != nil {
				p.take(e)
			}
		}
		at = into[n-1].ID
		clear(into[:n])
	}
	p.each(func(w *want) { w.more, w.reached = true, at })
	return nil
}

// take adds the wanted actions of one of the session's entries. It reports false if it
// takes no more. The entries must come in order. An entry that the cursor has passed is
// skipped, and so is one that cannot be decoded: a note never waits for it.
func (w *want) take(e *eventlog.Entry) bool {
	if e.ID.Compare(w.at.After) <= 0 {
		return true
	}
	if w.room == 0 {
		w.more, w.reached = true, e.ID.Previous()
		return false
	}
	if who, err := e.DecodeIdentity(); err == nil && who != nil {
		w.identify(who)
		return true
	}
	b, err := e.Decode()
	if err != nil || b == nil {
		return true // nothing for notes
	}
	w.takeActions(e.ID, b)
	return true
}

// takeActions adds the actions of an entry, except actions before the cursor, which may be
// inside the entry. After a gap it counts the actions missing between the cursor and the
// first one; without a gap they belong to others and were skipped. A marked click replaces
// the same click without its mark.
func (w *want) takeActions(id eventlog.ID, b *activity.Batch) {
	actions, skip := b.Actions, 0
	if w.at.Inside == id {
		skip = min(w.at.Actions, len(actions))
	}
	for skip > 0 && actions[skip-1].Index >= w.at.Next { // an erasure has removed some before the cursor
		skip--
	}
	if skip >= len(actions) {
		return
	}
	if next := w.at.Next; w.gap && next > 0 && actions[skip].Index > next {
		w.trimmed += actions[skip].Index - next
	}
	next := w.at.Next
	for i := skip; i < len(actions); i++ {
		next = max(next, actions[i].Index+1) // a click that comes again keeps its index
		f := found{Action: reduced(actions[i].Action), entry: id, user: actions[i].UserID,
			kept:  actions[i].TimestampStart >= w.Since && w.has(&actions[i]),
			after: cursor{After: w.at.After, Inside: id, Actions: i + 1, Next: next}}
		if i == len(actions)-1 {
			f.after = cursor{After: id, Next: f.after.Next}
		}
		f.alien = w.isAlien(&actions[i], b)
		w.add(f, len(actions[i].Marks) > 0)
	}
	w.at = w.found[len(w.found)-1].after
}

// reduced returns the action with only the fields of notes and summaries. It shares the action's
// strings.
func reduced(a activity.Action) activity.Action {
	return activity.Action{Type: a.Type, Title: a.Title, Description: a.Description, TimestampStart: a.TimestampStart,
		CanonicalURL: a.CanonicalURL}
}

// add adds an action, which replaces the same click if it is marked. Its cost does not depend on
// how many were found.
func (w *want) add(f found, marked bool) {
	as := click{f.user, f.Type, f.Title, f.TimestampStart}
	if marked {
		for _, at := range w.clicks[as] {
			w.found[at].kept = false
		}
		delete(w.clicks, as)
	}
	if f.kept {
		if w.clicks == nil {
			w.clicks = map[click][]int{}
		}
		w.clicks[as] = append(w.clicks[as], len(w.found))
		w.room = max(0, w.room-len(f.Sentence())-lineExtra)
	}
	w.found = append(w.found, f)
}
