package servercmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// playback replays the log of a product and prints the decisions in the order of time. It holds
// the sessions that did something lately, and the lines of playbackStep, so its memory does not
// grow with the log. The clock is the log's: an entry happens at the time of its ID, whenever
// the actions began.
type playback struct {
	productID string
	core      *assistance.Core
	rests     time.Duration // a session that did nothing for so long is like a new one
	out       *bufio.Writer

	sessions    map[string]*played
	lines       []line    // that are not printed yet
	oldest, now time.Time // of the first and the newest entry
	settled     time.Time // everything until then is decided and printed

	actions   int
	unmatched int             // of the actions
	outcomes  map[outcome]int // all that were decided, printed or not
}

// played is a session that is being replayed, as if it were linked to a conversation of its
// own.
type played struct {
	replay *assistance.Replay
	page   string // of its newest action
	newest time.Time
}

// line is a decision for which a trigger matched.
type line struct {
	at              time.Time
	sessionID, page string
	outcome
}

// playbackStep is how much time is settled at once: lines are sorted within a step, since
// sessions are replayed one by one.
const playbackStep = 10 * time.Second

// newPlayback returns a playback with the triggers that the configuration selects among the
// built-in and the added ones. out is flushed by the caller.
func newPlayback(productID string, config *proactive.Config, added []proactive.Trigger, out *bufio.Writer) (
	*playback, error,
) {
	triggers, err := config.Select(added...)
	if err != nil {
		return nil, err
	}
	core, err := assistance.NewCore(config, triggers...)
	if err != nil {
		return nil, err
	}
	return &playback{
		productID: productID, core: core, rests: core.Rest(), out: out,
		sessions: map[string]*played{}, outcomes: map[outcome]int{},
	}, nil
}

// run replays the whole log as it is now, and then lets [assistance.WindowSpan] pass for the
// sessions at its end. Entries that are gone are passed over.
func (p *playback) run(ctx context.Context, log eventlog.Log) error {
	var into [256]eventlog.Entry
	for after := (eventlog.ID{}); ; {
		n, err := log.Read(ctx, p.productID, after, into[:])
		var gap *eventlog.GapError
		switch {
		case errors.As(err, &gap):
			after = gap.TrimmedTo
			continue
		case err != nil:
			return fmt.Errorf("--data-dir: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case n == 0:
			p.settle(p.now.Add(assistance.WindowSpan))
			return nil
		}
		for _, entry := range into[:n] {
			p.take(entry)
		}
		after = into[n-1].ID
	}
}

// take replays the actions of an entry, at the time when the service got them. Entries of any
// other kind, and actions outside sessions, are passed over.
func (p *playback) take(e eventlog.Entry) {
	batch, err := e.Decode()
	if err != nil || batch == nil || batch.SessionID == "" {
		return
	}
	p.now = e.ID.Time()
	if p.oldest.IsZero() {
		p.oldest = p.now
	}
	if p.now.Sub(p.settled) >= playbackStep {
		p.settle(p.now.Truncate(playbackStep))
	}
	s, ok := p.sessions[batch.SessionID]
	if !ok {
		s = p.begin(batch.SessionID)
	}
	s.newest = p.now
	for _, a := range batch.Actions {
		s.replay.Pass(p.now) // of what was due before, the page is the one before
		s.page = cmp.Or(a.CanonicalURL, s.page)
		p.actions++
		if s.replay.Act(a.Action, p.now).Reason == assistance.NoMatch {
			p.unmatched++
		}
	}
}

// begin begins the replay of a session, whose decisions become lines.
func (p *playback) begin(sessionID string) *played {
	s := &played{}
	session := assistance.Session{ProductID: p.productID, SessionID: sessionID, ConversationID: sessionID}
	s.replay = assistance.NewReplay(p.core, session,
		&assistance.ReplayOptions{Decided: func(now time.Time, d assistance.Decision) {
			o := outcome{d.Match.Result.TriggerID, d.Reason}
			p.outcomes[o]++
			p.lines = append(p.lines, line{at: now, sessionID: sessionID, page: s.page, outcome: o})
		}})
	p.sessions[sessionID] = s
	return s
}

// settle lets the time pass for all sessions, prints the decisions, and forgets the sessions
// that can have no more.
func (p *playback) settle(to time.Time) {
	for id, s := range p.sessions {
		s.replay.Pass(to)
		if to.Sub(s.newest) > p.rests {
			delete(p.sessions, id)
		}
	}
	slices.SortStableFunc(p.lines, func(a, b line) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.sessionID, b.sessionID))
	})
	for _, l := range p.lines {
		fmt.Fprintf(p.out, "  %s  %-9s  %s  session %s  %s\n",
			stamp(l.at), l.reason, l.trigger, plain(l.sessionID), plain(l.page))
	}
	p.lines, p.settled = p.lines[:0], to
}

// stamp returns a time as it is printed.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// plain returns a text that came from outside as one word of a line, in quotes
// where it would not be.
func plain(text string) string {
	quoted := strconv.Quote(text)
	if text != "" && quoted == `"`+text+`"` && !strings.Contains(text, " ") {
		return text
	}
	return quoted
}
