package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// job is the work on one conversation, from when it is due until everything that
// was found for it is written or something fails.
type job struct {
	*partition
	lane  *lane
	gate  *gate
	desk  helpdesk.Desk
	notes Notes

	doc   document.Document
	conv  conversation // what doc says, or shall say
	from  eventlog.ID  // the lane's, when the job began
	wants []*want

	// resumes says that something was being written when the job began; it may be
	// there already.
	resumes bool
	trimmed int // actions before those of the next note that the log no longer holds
}

const (
	requestTime = 30 * time.Second // that a desk has at most; most have less by themselves
	settleTime  = 5 * time.Second  // before a desk is asked for a note whose answer was lost: it may still come to be
	firstRetry  = time.Second      // after a failure of one conversation
	lastRetry   = 30 * time.Second
	clockMargin = time.Minute // by which a desk's clock may be behind ours
)

// conversationID returns the conversation's id at its desk.
func (j *job) conversationID() string {
	_, id := splitKey(j.lane.key)
	return id
}

// prepare makes jobs of lanes: it reads their documents, and what they are to write
// from the log, at once. It fails only when the work on the partition must end.
func (p *partition) prepare(ctx context.Context, gate *gate, lanes []*lane, desk helpdesk.Desk, notes Notes) ([]*job, error) {
	// What is to be written is taken first: a session that joins while the documents
	// are read is not in them, and its lane is due again.
	all, names := make([]*job, len(lanes)), make([]string, len(lanes))
	for i, l := range lanes {
		all[i] = &job{partition: p, lane: l, gate: gate, desk: desk, notes: notes, from: p.take(l)}
		names[i] = documentName(l.key)
	}
	docs, err := p.docs.Get(ctx, p.productID, names...)
	if err != nil {
		endAll(all)
		return nil, p.storageFailed(ctx, err)
	}
	var jobs []*job
	var wants []*want
	for i, j := range all {
		j.doc = docs[i]
		if j.conv, err = decodeConversation(j.doc); err != nil || !j.doc.Exists() {
			p.drop(j.lane)
			continue
		}
		j.begin()
		jobs, wants = append(jobs, j), append(wants, j.wants...)
	}
	if err := p.scan(ctx, p.productID, wants); err != nil {
		endAll(jobs)
		return nil, p.storageFailed(ctx, err)
	}
	return jobs, nil
}

// take returns where the lane's unwritten entries begin, and makes them those of a
// job.
func (p *partition) take(l *lane) eventlog.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := l.from
	l.from = eventlog.ID{}
	return from
}

// endAll ends jobs that did nothing.
func endAll(jobs []*job) {
	for _, j := range jobs {
		j.end(time.Now())
	}
}

// begin finds out what to read for the job.
func (j *job) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lane.refused {
		j.conv.Writing = nil
	}
	j.resumes = j.conv.Writing != nil
	for i := range j.conv.Sessions { // one may have joined of which no notice was seen
		if s := &j.conv.Sessions[i]; j.join(j.lane, s) && (j.from == eventlog.ID{} || s.Cursor.After.Compare(j.from) < 0) {
			j.from = s.Cursor.After
		}
	}
	switch w := j.conv.Writing; {
	case w != nil && w.Summary != nil:
	case w != nil:
		if s := j.conv.session(w.Session); s != nil {
			j.wants = []*want{{session: s.ID, since: s.Since, at: w.From, to: w.To, from: w.First.Previous()}}
		}
	case j.from != eventlog.ID{}:
		for i := range j.conv.Sessions {
			s := &j.conv.Sessions[i]
			j.wants = append(j.wants, &want{session: s.ID, since: s.Since, at: s.Cursor, from: later(s.Cursor.After, j.from), room: maxText})
		}
	}
}

func later(a, b eventlog.ID) eventlog.ID {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// run works on the job to its end. It fails only when the work on the partition
// must end.
func (j *job) run(ctx context.Context) error {
	err := j.write(ctx)
	var paused *pausedError
	var lost *document.ConflictError
	switch {
	case errors.As(err, &lost), errors.Is(err, eventlog.ErrClosed), ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case errors.Is(err, errDropped):
		j.drop(j.lane)
	case helpdesk.IsGone(err):
		return j.gone(ctx, err)
	case errors.As(err, &paused):
		j.end(time.Now().Add(paused.wait))
	case err != nil:
		j.end(time.Now().Add(j.backOff(err)))
	default:
		j.done()
	}
	return nil
}

// write writes everything that the job found: what was being written when it
// began; or notes of actions, a summary that is ready, and redactions.
func (j *job) write(ctx context.Context) error {
	if j.conv.Writing != nil {
		return j.goOn(ctx)
	}
	for _, w := range j.wants {
		if w.gap && len(w.found) == 0 && !w.more {
			if err := j.countTrimmed(ctx, w); err != nil {
				return err
			}
		}
	}
	for _, w := range inOrder(j.wants) {
		if err := j.writeActions(ctx, w); err != nil {
			return err
		}
	}
	if err := j.sumUp(ctx); err != nil {
		return err
	}
	return j.redact(ctx)
}

// goOn finishes what was being written when the job began: it looks whether the
// note is there, where the desk can be read, and writes it otherwise.
func (j *job) goOn(ctx context.Context) error {
	w := j.conv.Writing
	var actions []found
	text := ""
	if w.Summary != nil {
		text = helpdesk.SummaryText(w.Session, w.Begun, w.Summary.Text)
	} else {
		for _, want := range j.wants {
			actions = append(actions, want.found...)
		}
		kept := keptOf(actions)
		j.trimmed = w.Count - len(kept)
		if len(kept) == 0 {
			return j.written(ctx, "", nil)
		}
		text = helpdesk.NoteText(w.Session, kept, w.Bin)
	}
	if finder, ok := j.desk.(helpdesk.Finder); ok {
		var id string
		var there bool
		err := j.request(ctx, func(ctx context.Context) (err error) {
			id, there, err = finder.FindNote(ctx, j.conversationID(), text, j.conv.LastNote, w.Begun.Add(-clockMargin))
			return err
		})
		if err != nil {
			return err
		}
		if there {
			return j.written(ctx, id, actions)
		}
	}
	return j.post(ctx, text, actions)
}

// writeActions writes the actions that were found for a session, in as few notes as
// they fit into.
func (j *job) writeActions(ctx context.Context, w *want) error {
	j.trimmed = w.trimmed
	for rest := w.found; len(rest) > 0; {
		n, text := j.fill(w.session, rest)
		actions := rest[:n]
		rest = rest[n:]
		if text == "" {
			continue
		}
		s := j.conv.session(w.session)
		writing := &writing{Session: w.session, From: s.Cursor, First: actions[0].entry, To: actions[n-1].after, Count: len(keptOf(actions)), Bin: j.notes.Bin, Begun: time.Now()}
		if err := j.begun(ctx, writing); err != nil {
			return err
		}
		if err := j.post(ctx, text, actions); err != nil {
			return err
		}
	}
	return nil
}

// fill returns the text of a note of the first n actions, as many as fit; "" where
// none of them is kept.
func (j *job) fill(sessionID string, actions []found) (n int, text string) {
	kept := keptOf(actions)
	if len(kept) == 0 {
		return len(actions), ""
	}
	room, text := helpdesk.FirstNote(j.desk, sessionID, kept, j.notes.Bin)
	for ; n < len(actions); n++ {
		if !actions[n].kept {
			continue
		}
		if room == 0 {
			break
		}
		room--
	}
	return n, text
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

// begun stores what is about to be written.
func (j *job) begun(ctx context.Context, w *writing) error {
	j.mu.Lock()
	j.lane.refused = false // of another note
	j.mu.Unlock()
	return j.update(ctx, func(c *conversation) { c.Writing = w })
}

// post writes the note that is stored as being written.
func (j *job) post(ctx context.Context, text string, actions []found) error {
	var id string
	err := j.request(ctx, func(ctx context.Context) (err error) {
		id, err = j.desk.Note(ctx, j.conversationID(), text)
		return err
	})
	var failed *helpdesk.APIError
	switch {
	case err == nil:
		return j.written(ctx, id, actions)
	case errors.As(err, &failed) && !failed.Gone && !failed.Temporary() && !failed.AccountWide():
		j.logger.Error("a note is left out, since the desk refuses it", "conversation_id", j.conversationID(), "err", err)
		j.lost("refused", len(keptOf(actions)))
		return j.written(ctx, "", actions)
	case ctx.Err() == nil && !j.resumes && !helpdesk.IsAmbiguous(err):
		j.mu.Lock()
		j.lane.refused = true
		j.mu.Unlock()
	}
	return err
}

// written stores that what was being written is there, under this id, or need not
// be written, for "".
func (j *job) written(ctx context.Context, id string, actions []found) error {
	w := j.conv.Writing
	if err := j.update(ctx, func(c *conversation) { c.written(id, keptOf(actions), j.recalled()) }); err != nil {
		return err
	}
	j.lost("trimmed", j.trimmed)
	j.trimmed = 0
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lane.refused = false
	for i := range j.lane.sessions {
		if s := &j.lane.sessions[i]; s.id == w.Session && w.Summary == nil {
			s.after = w.To.After
		}
	}
	if id == "" {
		return nil
	}
	kind, flow := "summary", activity.Flow{Summaries: 1}
	if w.Summary == nil {
		kind, flow = "actions", activity.Flow{Notes: 1}
	}
	j.opts.Meter.Count(j.productID, flow)
	j.metrics.notes.WithLabelValues(j.productID, j.lane.queue.desk, kind).Inc()
	if len(actions) > 0 {
		j.metrics.delay.WithLabelValues(j.productID, j.lane.queue.desk).Observe(time.Since(actions[0].entry.Time()).Seconds())
	}
	return nil
}

// redact redacts the notes that a summary has replaced.
func (j *job) redact(ctx context.Context) error {
	redactor, ok := j.desk.(helpdesk.Redactor)
	done := 0
	var err error
	for ; ok && err == nil && done < len(j.conv.Redact); done++ {
		err = j.request(ctx, func(ctx context.Context) error {
			return redactor.Redact(ctx, j.conversationID(), j.conv.Redact[done])
		})
		var failed *helpdesk.APIError
		if errors.As(err, &failed) && (!failed.Temporary() || failed.Gone) {
			j.logger.Warn("a note that a summary replaces is not redacted", "conversation_id", j.conversationID(), "err", err)
			err = nil
		}
		if err != nil {
			break
		}
	}
	if !ok {
		done = len(j.conv.Redact)
	}
	if done > 0 {
		first := j.conv.Redact[:done]
		if err := j.update(ctx, func(c *conversation) { c.Redact = without(c.Redact, first) }); err != nil {
			return err
		}
	}
	return err
}

// pausedError says that a request has to wait, for no failure.
type pausedError struct{ wait time.Duration }

// RetryAfter returns how long to wait at least.
func (e *pausedError) RetryAfter() time.Duration { return e.wait }

func (e *pausedError) Error() string { return fmt.Sprintf("connector: wait %s", e.wait) }

// request makes a request to the desk, unless that has to wait. Nothing is begun
// that the lease might not outlast.
func (j *job) request(ctx context.Context, do func(ctx context.Context) error) error {
	if !j.mayBegin() {
		return &pausedError{j.opts.LeaseTTL / 6}
	}
	if pacer, ok := j.desk.(helpdesk.Pacer); ok {
		if wait := pacer.Pause(""); wait > 0 {
			j.gate.pause(wait)
			return &pausedError{}
		}
		if wait := pacer.Pause(j.conversationID()); wait > 0 {
			return &pausedError{wait}
		}
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := do(limited)
	if ctx.Err() == nil {
		j.gate.observe(err, j.lane.queue.desk, j.logger)
	}
	return err
}

// observe learns from the outcome of a request how the account is.
func (g *gate) observe(err error, desk string, logger *slog.Logger) {
	var failed *helpdesk.APIError
	isAPI := errors.As(err, &failed)
	if err == nil || isAPI && !failed.AccountWide() {
		if away := g.answered(); away > 0 {
			logger.Info("the desk takes notes again", "desk", desk, "away", away.Round(time.Second))
		}
		return
	}
	if isAPI && failed.Status == 429 && failed.Wait > 0 {
		g.pause(failed.Wait)
		return
	}
	asked := time.Duration(0)
	if isAPI {
		asked = failed.Wait
	}
	if g.failed(asked) {
		logger.Warn("notes are late: "+because(err), "desk", desk, "err", err)
	}
}

// without returns a list without the strings of another.
func without(list, removed []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(removed, s) })
}
