package connector

import (
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// kind is a kind of step.
type kind uint8

// The kinds of step. After a doubt, such as a lost answer or the death of a server,
// a note is looked for and then written again; a reply and an offer are looked for
// and never sent again; everything else may simply be repeated.
const (
	kindNote      kind = iota // of actions, or of a summary
	kindRedaction             // of the notes that a summary replaces
	kindDraft                 // a model is asked for a summary
	kindContact               // the desk is asked for the contact
	kindDrop                  // of a message that is not to be answered
	kindWhose                 // the desk is asked whether the contact wrote a message
	kindCompose               // a model is asked for the reply
	kindReply
	kindOffer
	kindFind   // of an offer in doubt
	kindRemove // of a conversation whose offer was ignored
	kindPass   // time has passed for the machine
)

// class groups the kinds of step that fail together: a retry delays the steps of its
// class and no others. So an answer never waits for a note, nor a note for an answer.
type class uint8

const (
	notes class = iota
	redactions
	answers
	contacts
	offers
	classes
)

func (k kind) class() class {
	switch k {
	case kindNote, kindDraft:
		return notes
	case kindRedaction:
		return redactions
	case kindContact:
		return contacts
	case kindOffer, kindFind, kindRemove, kindPass:
		return offers
	}
	return answers
}

// step is the next piece of work of a conversation. It is a decision made from one state of the
// document; store checks whether it still holds. Each kind uses the fields of its own group.
type step struct {
	kind  kind
	doubt bool // it may have taken effect already
	// strange means that the step is for a session that only a stranger has linked.
	strange bool

	writing *writing // of a note
	link    linkID   // of the session of a note, when the step was chosen
	want    *want    // the source of a note; nil for a summary, and in doubt
	covered int      // actions of want that the note covers, including the ones left out
	actions []activity.Action

	session string // of a draft
	upto    int    // actions that a draft covers
	redact  []string
	contact lookUp
	message message   // with its reply, if one is sent
	batch   []message // that are answered together, the message first
	outcome string    // of a message that is dropped
	match   *offering
	send    assistance.Send // of an offer that is claimed
	find    assistance.Find
	remove  assistance.Remove
}

// offering is a match of a trigger. It becomes an offer only when the conversation's machine has
// accepted it as a claim; until then any newer one replaces it.
type offering struct {
	assistance.Matched
	reason  assistance.Reason // if it is not Offered, the match is only logged and counted
	session string
	newest  tracing.Action // of the session's actions
	at      time.Time
}

// view is everything besides its document that determines the next step of a
// conversation. next does not modify it. Before settled, calm, strange and again,
// steps of the kinds concerned are not taken; zero means no such time.
type view struct {
	now        time.Time
	settled    time.Time // from then on, a write begun by an earlier owner is looked for
	calm       time.Time // no note of actions is begun before
	strange    time.Time // nor, before this, a note of a session that only a stranger has linked
	unfinished string    // the session whose actions did not fit into one note: calm and strange do not delay it
	memo                 // the lane's, with again by the log's clock

	desk  helpdesk.Desk
	can   helpdesk.Capabilities
	notes Notes
	wants []*want // the conversation's ranges of the log

	models  bool              // a model writes the summaries
	replies bool              // messages are answered
	rules   *assistance.Rules // nil without assistance
}

// next returns the next step for a conversation, or nil and when there may be one: due for any
// step, own for one that is no stranger's; zero means not before something happens. Together
// with a stranger's step, own is set as well. It is pure: it modifies none of its inputs, and
// equal inputs give equal results. The steps come in this order, the most urgent first:
//
//	nextOffer     the moment of an offer passes
//	nextContact   an answer needs to know the contact
//	nextAnswer    somebody waits for it
//	nextNote      the outbox, then notes of actions, summaries and redactions
//	nextTick      a time of the machine has come: an offer is ignored, or in doubt
//	nextStrange   the same as nextNote for sessions that only strangers have linked
//
// A step whose class waits for its next attempt is skipped, except for kindPass, which makes no
// request; due is the earliest of these times and the steps' own.
func (c *conversation) next(v *view) (s *step, due, own time.Time) {
	for _, of := range []func(*view) (*step, time.Time){c.nextOffer, c.nextContact, c.nextAnswer, c.nextNote, c.nextTick,
		c.nextStrange} {
		own = due // of the steps before this one: in the end, of all but nextStrange
		s, at := of(v)
		if s != nil {
			if at = v.again[s.kind.class()]; s.kind == kindPass || !at.After(v.now) {
				return s, due, own
			}
		}
		due = sooner(due, at)
	}
	return nil, due, own
}

// sooner returns the earlier of two times, where zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// nextOffer makes an offer from a match. The machine decides whether one may be made, when the
// step is stored.
func (c *conversation) nextOffer(v *view) (*step, time.Time) {
	if v.match == nil {
		return nil, time.Time{}
	}
	return &step{kind: kindOffer, match: v.match}, time.Time{}
}

// nextAnswer answers the oldest message if it is the requester's. The answer is
// composed from the sessions that the desk vouches for, if any. The first case that
// applies decides:
//
//	older than replyTTL            dropped as expired, in doubt or not
//	no replies, or no signatures   dropped
//	Begun is set                   the reply is in doubt: looked for, once it has had settleTime
//	Reply is set                   the desk has not accepted it: sent again unchanged
//	composed                       the step that compose has left: the reply is sent, or dropped
//	otherwise                      the desk is asked for the author, then a model for the reply,
//	                               and nothing until the result comes or the message expires
func (c *conversation) nextAnswer(v *view) (*step, time.Time) {
	if len(c.Messages) == 0 {
		return nil, time.Time{}
	}
	m := c.Messages[0]
	drop := func(outcome string) (*step, time.Time) {
		return &step{kind: kindDrop, message: m, outcome: outcome}, time.Time{}
	}
	switch {
	case v.now.Sub(m.At) > replyTTL:
		return drop("expired")
	case v.can.Replier == nil || !v.replies || v.can.Chats && len(v.can.SignedBy) == 0:
		return drop("dropped")
	case !m.Begun.IsZero():
		if at := schedule.Later(v.settled, m.Begun.Add(settleTime)); at.After(v.now) {
			return nil, at
		}
		return &step{kind: kindReply, message: m, doubt: true}, time.Time{}
	case m.Reply != "":
		return &step{kind: kindReply, message: m}, time.Time{}
	case v.answer != nil && v.answer.message.ID == m.ID:
		return v.answer, time.Time{}
	}
	return c.nextCompose(v)
}

// nextCompose has the oldest messages answered together, once the desk has confirmed each
// as the requester's and no model works for the conversation. A conversation has one model
// call at a time.
func (c *conversation) nextCompose(v *view) (*step, time.Time) {
	batch := c.together()
	m := batch[0]
	for _, each := range batch {
		if !slices.Contains(v.theirs, each.ID) {
			return &step{kind: kindWhose, message: each}, time.Time{}
		}
		if each.ID != m.ID {
			m.With = append(m.With, each.ID)
		}
	}
	if v.modelRuns {
		return nil, m.At.Add(replyTTL)
	}
	return &step{kind: kindCompose, message: m, batch: batch}, time.Time{}
}

// nextContact looks the contact up. perform asks the desk only for as long as a link would wait.
func (c *conversation) nextContact(v *view) (*step, time.Time) {
	if c.Contact == nil {
		return nil, time.Time{}
	}
	return &step{kind: kindContact, contact: *c.Contact}, time.Time{}
}

// nextNote writes notes, except of sessions that only strangers have linked.
func (c *conversation) nextNote(v *view) (*step, time.Time) { return c.nextNoteOf(v, false) }

// nextStrange writes notes of sessions that only strangers have linked. A draft takes no turn,
// because it makes no request to the desk.
func (c *conversation) nextStrange(v *view) (*step, time.Time) {
	s, due := c.nextNoteOf(v, true)
	if s != nil {
		s.strange = s.kind != kindDraft
	}
	return s, due
}

// nextNoteOf finishes the note in the outbox, which is a stranger's if only strangers have
// linked the conversation. Without one it writes a note of actions or a due summary, either of
// the sessions that only strangers have linked or of the others, or redacts the notes that a
// summary replaces or that are of an erased person.
//
// The note in the outbox waits until settled, because an earlier owner's request may still be in
// flight. A note of this owner has already waited for its back-off, which is no shorter. The
// calm delays a note of actions, and any summary behind it, but not the remaining actions that
// did not fit into one note.
func (c *conversation) nextNoteOf(v *view, strange bool) (*step, time.Time) {
	switch {
	case c.Writing != nil && c.owned() == strange:
		return nil, time.Time{}
	case c.Writing != nil && v.settled.After(v.now):
		return nil, v.settled
	case c.Writing != nil:
		return &step{kind: kindNote, writing: c.Writing, doubt: true}, time.Time{}
	}
	if s := c.nextActions(v, strange); s != nil {
		calm := v.calm
		if strange {
			calm = schedule.Later(calm, v.strange)
		}
		if calm.After(v.now) && v.unfinished != s.want.ID {
			return nil, calm
		}
		return s, time.Time{}
	}
	if s := c.nextSummary(v, strange); s != nil || !strange && !c.owned() && len(c.Sessions) > 0 {
		return s, time.Time{}
	}
	return c.nextRedaction(v), time.Time{}
}

// nextRedaction redacts a note. If the desk cannot redact, it forgets all notes to be redacted.
func (c *conversation) nextRedaction(v *view) *step {
	switch {
	case len(c.Redact) == 0:
		return nil
	case v.can.Redactor == nil:
		return &step{kind: kindRedaction, redact: c.Redact}
	}
	return &step{kind: kindRedaction, redact: c.Redact[:1]}
}

// nextActions writes a note of the actions of one session: the unfinished one if it has
// any, or else the one that has waited longest. The note takes as many actions as
// fit. The step is nil if there is no action to write.
func (c *conversation) nextActions(v *view, strange bool) *step {
	var w *want
	var first eventlog.ID // the entry of its first action to write
	for _, other := range v.wants {
		s := c.sessionOf(other.ID, other.UserID)
		i := slices.IndexFunc(other.found, func(f found) bool { return f.kept })
		if i < 0 || s == nil || s.linkID() != other.linkID() || (s.by() == byStranger) != strange {
			continue
		}
		entry := other.found[i].entry
		if w == nil || other.ID == v.unfinished || w.ID != v.unfinished && entry.Compare(first) < 0 {
			w, first = other, entry
		}
	}
	if w == nil {
		return nil
	}
	n, actions, text := fill(v.desk, w.ID, w.found, v.notes.Bin)
	return &step{kind: kindNote, link: w.linkID(), want: w, covered: n, actions: actions,
		writing: &writing{Session: w.ID, UserID: w.UserID, Text: text, Begun: v.now, First: first,
			To: endOf(w.found[:n]), Count: len(actions), Trimmed: w.trimmed}}
}

// endOf returns the position after the last action that a note shows. Actions that are left out behind
// it may belong to the session's next link, and only count as seen.
func endOf(covered []found) cursor {
	last := len(covered) - 1
	for !covered[last].kept {
		last--
	}
	to := covered[last].after
	to.Next = covered[len(covered)-1].after.Next
	return to
}

// nextSummary posts a summary of a session that has enough actions in notes that no summary
// covers, or asks a model for one. Without a model the digest is the summary. A finished draft
// is posted whether or not a summary is still due.
func (c *conversation) nextSummary(v *view, strange bool) *step {
	if v.notes.SummaryThreshold <= 0 {
		return nil
	}
	draft := v.draft
	if draft != nil && c.sessionOf(draft.Session, draft.UserID) == nil {
		draft = nil
	}
	for i := range c.Sessions {
		s := &c.Sessions[i]
		due := s.unsummed() >= v.notes.SummaryThreshold
		switch {
		case (s.by() == byStranger) != strange:
		case draft != nil && draft.Summary.Text != "" && draft.Session == s.ID:
			return s.summarize(*draft.Summary, v.now)
		case due && v.models && !v.modelRuns && s.mayDraft(draft):
			return &step{kind: kindDraft, session: s.ID, upto: s.Written}
		case due && !v.models && s.Digest != nil:
			return s.summarize(sessionSummary{Upto: s.Written, Text: s.Digest.String()}, v.now)
		}
	}
	return nil
}

// mayDraft reports whether a model may be asked for a summary of the session after the last draft,
// nil for none. After a failure it may not before the session's next note.
func (s *session) mayDraft(last *writing) bool {
	return last == nil || last.Summary.Text == "" && (last.Session != s.ID || last.Summary.Upto < s.Written)
}

// summarize returns the step that posts a summary of a session. A summary with the same text as
// the one before it needs no note.
func (s *session) summarize(done sessionSummary, now time.Time) *step {
	w := &writing{Session: s.ID, UserID: s.UserID, Begun: now, Summary: &done}
	if s.Summary == nil || s.Summary.Text != done.Text {
		w.Text = helpdesk.SummaryText(s.ID, now, done.Text)
	}
	return &step{kind: kindNote, link: s.linkID(), writing: w}
}

// nextTick reports to the machine that its due time has come. It tries the event on a copy of
// the machine and returns the step for the effect that needs the desk. The stored machine moves
// when the step is performed or settled.
func (c *conversation) nextTick(v *view) (*step, time.Time) {
	if v.rules == nil {
		return nil, time.Time{}
	}
	m := c.machine()
	due, ok := v.rules.Due(m)
	switch {
	case !ok:
		return nil, time.Time{}
	case due.After(v.now):
		return nil, due
	}
	_, effects, _ := v.rules.Step(m, v.now, assistance.Tick{}) // never fails
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Find:
			return &step{kind: kindFind, find: effect}, time.Time{}
		case assistance.Remove:
			return &step{kind: kindRemove, remove: effect}, time.Time{}
		}
	}
	return &step{kind: kindPass}, time.Time{}
}

// fill returns the text of a note with as many of the actions as fit, the actions it shows, and
// the number n that it covers. At least one must be kept. Actions that are left out count in n, even
// right after the last that fits.
func fill(desk helpdesk.Desk, sessionID string, all []found, bin time.Duration) (n int, actions []activity.Action,
	text string) {
	kept := keptOf(all)
	fit, text := helpdesk.FirstNote(desk, sessionID, kept, bin)
	for room := fit; n < len(all) && (room > 0 || !all[n].kept); n++ {
		if all[n].kept {
			room--
		}
	}
	return n, kept[:fit], text
}

// keptOf returns the actions that are not left out.
func keptOf(all []found) (actions []activity.Action) {
	for _, f := range all {
		if f.kept {
			actions = append(actions, f.Action)
		}
	}
	return actions
}

// without returns a list without the strings of another.
func without(list, removed []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(removed, s) })
}
