package servercmd

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// playback replays a product's log and prints the decisions in time order. It keeps only
// recently active sessions and the lines of one playbackStep, so its memory does not grow with
// the log. Its clock is the log's: an entry happens at the time of its ID, whenever the actions
// began.
type playback struct {
	productID string
	core      *assistance.Core
	rests     time.Duration // a session idle for this long is like a new one if it is not busy
	out       *bufio.Writer

	sessions    map[string]*played
	lines       []line    // not printed yet
	oldest, now time.Time // times of the first and the newest entry
	settled     time.Time // everything until then has been printed

	actions   int
	unmatched int             // actions without a match
	outcomes  map[outcome]int // counts of all decisions, printed or not
}

// played is a session being replayed as if it were linked to its own conversation.
type played struct {
	replay *assistance.Replay
	newest time.Time
	busy   time.Time // until then an offer is shown, or its trigger cools down
}

// line is a decision about a matching trigger.
type line struct {
	at              time.Time
	sessionID, page string
	outcome
}

// playbackStep is the span of time that is settled in one call: lines are sorted within a
// step, because sessions are replayed one by one.
const playbackStep = 10 * time.Second

// newPlayback returns a playback with the triggers that the configuration selects from the
// built-in and the added ones. The caller flushes out.
func newPlayback(productID string, config *proactive.Config, added []proactive.Trigger, out *bufio.Writer) (
	*playback, error,
) {
	triggers, err := config.Select(added...)
	if err != nil {
		return nil, err
	}
	return &playback{
		productID: productID, core: assistance.NewCore(config, triggers...), rests: assistance.WindowSpan, out: out,
		sessions: map[string]*played{}, outcomes: map[outcome]int{},
	}, nil
}

// run replays the whole log, and then lets [assistance.WindowSpan] pass for the sessions at
// its end. It skips entries that the log no longer has.
func (p *playback) run(ctx context.Context, log eventlog.Log) error {
	for page, err := range eventlog.Pages(ctx, log, p.productID) {
		if err != nil {
			return fmt.Errorf("--data-dir: %w", err)
		}
		for _, entry := range page {
			p.take(entry)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	p.settle(p.now.Add(assistance.WindowSpan))
	return nil
}

// take replays an entry's actions at the time when the service received them. It skips other
// kinds of entries, and actions outside sessions.
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
	actions := make([]activity.Action, len(batch.Actions))
	for i, a := range batch.Actions {
		actions[i] = a.Action
	}
	p.actions += len(actions)
	for _, d := range s.replay.Act(p.now, actions...) {
		if d.Reason == assistance.NoMatch {
			p.unmatched++
		}
	}
}

// begin begins the replay of a session, and turns its decisions into lines.
func (p *playback) begin(sessionID string) *played {
	s := &played{}
	session := assistance.Session{ProductID: p.productID, SessionID: sessionID, ConversationID: sessionID}
	s.replay = assistance.NewReplay(p.core, session,
		&assistance.ReplayOptions{Decided: func(now time.Time, d assistance.Decision) {
			o := outcome{d.Match.Result.TriggerID, d.Reason}
			p.outcomes[o]++
			until := now.Add(max(d.Match.Result.InteractionTimeout, d.Match.Result.Cooldown))
			if d.Reason == assistance.Offered && until.After(s.busy) {
				s.busy = until
			}
			p.lines = append(p.lines, line{at: now, sessionID: sessionID, page: d.Page, outcome: o})
		}})
	p.sessions[sessionID] = s
	return s
}

// settle lets time pass for all sessions, prints the decisions, and drops the sessions that
// can have no more.
func (p *playback) settle(to time.Time) {
	for id, s := range p.sessions {
		s.replay.Pass(to)
		if to.Sub(s.newest) > p.rests && to.After(s.busy) {
			delete(p.sessions, id)
		}
	}
	slices.SortStableFunc(p.lines, func(a, b line) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.sessionID, b.sessionID))
	})
	for _, l := range p.lines {
		fmt.Fprintf(p.out, "  %s  %-9s  %s  session %s  %s\n",
			stamp(l.at), l.reason, l.trigger, printable(l.sessionID), printable(l.page))
	}
	p.lines, p.settled = p.lines[:0], to
}

// stamp formats a time for output.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
