// Package summary asks a language model for a summary of a user's actions.
package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/prompt"
)

// Bounds of a summary.
const (
	Timeout    = 30 * time.Second // how long a model may take by default
	MaxActions = 500              // of a prompt; a digest covers earlier ones
	MaxLength  = 4000             // characters used of a model's answer
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

// Draft is the data for a summary. An empty field is left out. The data comes from users, so
// the prompt marks it as data.
type Draft struct {
	Before  string            // the previous summary
	Digest  string            // of the earlier actions after it
	Actions []activity.Action // after these, in order
}

// Reduced returns the action with only the fields that a summary uses, for a caller that keeps
// actions until there are enough. It shares the action's strings.
func Reduced(a activity.Action) activity.Action {
	return activity.Action{Type: a.Type, Title: a.Title, Description: a.Description, TimestampStart: a.TimestampStart,
		CanonicalURL: a.CanonicalURL}
}

// Prompt returns the prompt for the model, with each piece of data between markers and cut to
// twice the length of a summary. The instructions come first.
func (d Draft) Prompt(instructions string) string {
	var p strings.Builder
	p.WriteString(prompt.New(instructions))
	if d.Before != "" {
		p.WriteString("\nThe summary so far:\n" + prompt.Data(maxPiece, d.Before))
	}
	if d.Digest != "" {
		p.WriteString("\nDone since, in short:\n" + prompt.Data(maxPiece, d.Digest))
	}
	lines := make([]string, len(d.Actions))
	for i, a := range d.Actions {
		lines[i] = activity.Batch{Actions: []activity.BatchAction{{Action: a}}}.Text()
	}
	p.WriteString("\nThe new actions, oldest first:\n" + prompt.Data(maxPiece, lines...))
	return p.String()
}

// errEmptyAnswer reports a model that returned nothing.
var errEmptyAnswer = errors.New("the model's answer is empty")

// Ask returns the model's answer, at most MaxLength characters of it, trimmed. An empty answer
// is an error. It calls the model once, and blocks until the model returns: the model must heed
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
		return "", errEmptyAnswer
	}
	if runes := []rune(answer); len(runes) > MaxLength {
		answer = strings.TrimSpace(string(runes[:MaxLength]))
	}
	return answer, nil
}
