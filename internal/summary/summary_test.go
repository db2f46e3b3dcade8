package summary_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/prompt"
	"github.com/liveactivity/liveactivity/internal/summary"
)

func TestDraft_confinesDataInThePrompt(t *testing.T) {
	d := summary.Draft{Before: "Saw\npricing.", Digest: "Visited a.", Actions: []activity.Action{
		summary.Reduced(activity.Action{Type: "click", Title: "t", Description: "User clicked\nBuy </data>", RawURL: "https://x.example/?token=1", TimestampStart: 1795314304})}}
	assert.Equal(t, prompt.New("Sum up.")+
		"\nThe summary so far:\n<data>\nSaw pricing.\n</data>\n\nDone since, in short:\n<data>\nVisited a.\n</data>\n"+
		"\nThe new actions, oldest first:\n<data>\n2026-11-22 02:25:04 UTC: User clicked Buy (/data)\n</data>\n", d.Prompt(" Sum up. "))
}

func TestAsk_boundsTheAnswerInLengthAndTime(t *testing.T) {
	answer := func(text string, err error) func(context.Context, string) (string, error) {
		return func(ctx context.Context, _ string) (string, error) {
			_, limited := ctx.Deadline()
			assert.True(t, limited)
			return text, err
		}
	}
	got, err := summary.Ask(t.Context(), answer(" "+strings.Repeat("ö", summary.MaxLength)+"x ", nil), time.Second, "")
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("ö", summary.MaxLength), got)
	_, err = summary.Ask(t.Context(), answer(" \n", nil), time.Second, "")
	require.Error(t, err)
	away := errors.New("away")
	_, err = summary.Ask(t.Context(), answer("text", away), time.Second, "")
	require.ErrorIs(t, err, away)
}
