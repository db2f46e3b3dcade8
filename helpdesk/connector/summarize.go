package connector

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/summary"
)

// maxModels is how many summaries a model is asked for at the same time.
const maxModels = 4

// draft is a summary that a model has made of a session.
type draft struct {
	session string
	summed
}

// recalled returns how many actions of a session are kept for a model.
func (j *job) recalled() int {
	if j.opts.Model == nil {
		return 0
	}
	return maxRecent
}

// sumUp posts a summary of each session that has enough actions in notes and in no
// summary. A model is asked for it by the way, so that nothing waits for the model.
func (j *job) sumUp(ctx context.Context) error {
	if j.notes.SummaryThreshold <= 0 {
		return nil
	}
	drafted := j.takeDraft()
	for i := range j.conv.Sessions {
		s := j.conv.Sessions[i]
		switch {
		case drafted != nil && drafted.session == s.ID:
			if err := j.postSummary(ctx, s.ID, drafted.summed); err != nil {
				j.keepDraft(drafted)
				return err
			}
		case s.unsummed() < j.notes.SummaryThreshold:
		case j.opts.Model != nil:
			j.askModel(s)
		case s.Digest != nil:
			if err := j.postSummary(ctx, s.ID, summed{s.Written, s.Digest.String()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *job) postSummary(ctx context.Context, sessionID string, done summed) error {
	w := &writing{Session: sessionID, Begun: time.Now(), Summary: &done}
	if err := j.begun(ctx, w); err != nil {
		return err
	}
	return j.post(ctx, helpdesk.SummaryText(sessionID, w.Begun, done.Text), nil)
}

// askModel lets the model make a summary of a session, unless it makes one for the
// conversation already. The conversation is due when the summary is there. After a
// failure the model is asked again with the next note.
func (j *job) askModel(s session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lane
	if l.summarizing || j.drafts[l] != nil {
		return
	}
	l.summarizing = true
	prompt := s.draft().Prompt(summary.DefaultInstructions)
	j.spawn(func(ctx context.Context) error {
		text, err := j.answer(ctx, prompt)
		if err != nil && ctx.Err() == nil {
			j.logger.Warn("session was not summarized; retrying at its next note", "session_id", s.ID, "err", err)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		l.summarizing = false
		if err == nil {
			j.drafts[l] = &draft{s.ID, summed{s.Written, text}}
			if l.index == idle {
				l.queue.put(l, time.Now())
			}
		}
		return ctx.Err()
	})
}

// draft returns what a model is given of a session.
func (s *session) draft() summary.Draft {
	var d summary.Draft
	if s.Summary != nil {
		d.Before = s.Summary.Text
	}
	if s.Digest != nil {
		d.Digest = s.Digest.String()
	}
	d.Actions = make([]activity.Action, len(s.Recent))
	for i, r := range s.Recent {
		d.Actions[i] = r.action()
	}
	return d
}

// answer asks the model when it is its turn.
func (c *Connector) answer(ctx context.Context, prompt string) (string, error) {
	select {
	case c.models <- struct{}{}:
		defer func() { <-c.models }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return summary.Ask(ctx, c.opts.Model, summary.Timeout, prompt)
}

// takeDraft returns the summary that a model has made for the conversation, or nil.
func (j *job) takeDraft() *draft {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.drafts[j.lane]
	delete(j.drafts, j.lane)
	return d
}

// keepDraft keeps a summary that was not posted for the next job, unless it is
// stored as being written.
func (j *job) keepDraft(d *draft) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lane.refused {
		j.drafts[j.lane] = d
	}
}
