// Package summary gets a summary of a user's actions from a language model.
package summary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/prompt"
)

// Limits of a summary.
const (
	Timeout    = 30 * time.Second // default time for a model's answer
	MaxActions = 500              // per prompt; a digest covers earlier ones
	MaxLength  = 4000             // characters kept of a model's answer
	maxPiece   = 2 * MaxLength    // characters of one piece of data
)

// DefaultInstructions begin the prompt.
const DefaultInstructions = `You keep the summary of what one user is doing in an app. A support agent or an ` +
	`assistant reads it before talking to the user.

Write one summary that takes the place of the summary so far and covers the new actions as well.
- At most 120 words of plain text: no headings, no lists, no markup.
- In chronological order. Say last where the user is now and what the user did there.
- Keep what is in the summary so far and still matters; nothing else will remember it.
- Say only what the data shows. Do not guess at reasons, and do not address the user.
- Answer with the summary and nothing else.`

// History holds the actions of a session that no summary covers yet, in order. It can be
// stored as JSON. Copies may share memory: a method changes only the History on which it is
// called. The zero History is empty.
type History struct {
	Recent []Action         `json:"recent,omitempty"` // the newest, for a model
	Digest *activity.Digest `json:"digest,omitempty"` // of earlier actions; nil for none
}

// Action is the part of an action that a summary uses.
type Action struct {
	At    float64 `json:"at"` // start, in epoch seconds
	Type  string  `json:"type"`
	Title string  `json:"title,omitempty"`
	Text  string  `json:"text"` // its sentence
	URL   string  `json:"url,omitempty"`
}

// Add adds an action. It moves none into the digest; see Keep.
func (h *History) Add(a activity.Action) {
	h.Recent = append(h.Recent, Action{a.TimestampStart, a.Type, a.Title, a.Sentence(), a.CanonicalURL})
}

// Replace replaces a click with the same click that has arrived again with its marks, and reports
// whether the click is among the newest.
func (h *History) Replace(a activity.Action) bool {
	i := slices.IndexFunc(h.Recent, func(of Action) bool {
		before := of.action()
		return a.TakesPlace(&before)
	})
	if i >= 0 {
		h.Recent = slices.Clone(h.Recent)
		h.Recent[i].Text = a.Sentence()
	}
	return i >= 0
}

// Keep moves all but the newest n actions into the digest.
func (h *History) Keep(n int) {
	excess := len(h.Recent) - n
	if excess <= 0 {
		return
	}
	h.Digest = h.Digest.Clone()
	for _, a := range h.Recent[:excess] {
		h.Digest.Add(a.action())
	}
	h.Recent = append([]Action(nil), h.Recent[excess:]...)
}

// Cover drops the actions that the next summary does not need, after a summary of all except the
// later actions. If the summary was extracted from the actions, the digest stays, since the next
// one continues from it: extracted states this of the summary, or of a history without recent
// actions. A model receives the text of its last summary instead.
func (h *History) Cover(later int, extracted bool) {
	switch covered := len(h.Recent) - later; {
	case extracted || len(h.Recent) == 0:
		h.Keep(later)
	case covered >= 0: // otherwise the digest also has later actions
		h.Recent, h.Digest = append([]Action(nil), h.Recent[covered:]...), nil
	}
}

// Extract returns a summary made only from the actions, or "" if there are none.
func (h History) Extract() string {
	h.Keep(0)
	return h.Digest.Clone().String()
}

// action returns the action with the fields that a text or digest uses.
func (a Action) action() activity.Action {
	return activity.Action{Type: a.Type, Title: a.Title, Description: a.Text, TimestampStart: a.At, CanonicalURL: a.URL}
}

// Prompt returns the prompt for the model's summary of the history and, unless it is empty, of the
// previous summary. The data comes from users, so each piece is placed between markers and cut to
// twice the length of a summary. The instructions come first.
func (h History) Prompt(instructions, before string) string {
	var p strings.Builder
	p.WriteString(prompt.New(instructions))
	if before != "" {
		p.WriteString("\nThe summary so far:\n" + prompt.Data(maxPiece, before))
	}
	if digest := h.Digest.Clone().String(); digest != "" {
		p.WriteString("\nDone since, in short:\n" + prompt.Data(maxPiece, digest))
	}
	lines := make([]string, len(h.Recent))
	for i, a := range h.Recent {
		lines[i] = activity.Batch{Actions: []activity.BatchAction{{Action: a.action()}}}.Text()
	}
	p.WriteString("\nThe new actions, oldest first:\n" + prompt.Data(maxPiece, lines...))
	return p.String()
}

// Ask returns the model's answer, trimmed and cut to MaxLength characters. An empty answer is
// an error. It calls the model once, and blocks until the model returns: the model must respect
// the context, which ends after timeout.
func Ask(ctx context.Context, model func(ctx context.Context, prompt string) (string, error), timeout time.Duration,
	prompt string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := model(ctx, prompt)
	if err != nil {
		return "", fmt.Errorf("ask the model: %w", err)
	}
	answer = strings.TrimSpace(answer)
	if answer == "" {
		return "", errors.New("the model's answer is empty")
	}
	if runes := []rune(answer); len(runes) > MaxLength {
		answer = strings.TrimSpace(string(runes[:MaxLength]))
	}
	return answer, nil
}
