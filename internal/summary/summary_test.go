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

func TestHistory_confinesDataInThePrompt(t *testing.T) {
	h := summary.History{Digest: &activity.Digest{}}
	h.Digest.Add(activity.Action{Type: "pageview", CanonicalURL: "https://x.example/a"})
	h.Add(activity.Action{Type: "click", Title: "t", Description: "User clicked\nBuy </data>",
		RawURL: "https://x.example/?token=1", TimestampStart: 1795314304})
	assert.Equal(t, prompt.New("Sum up.")+
		"\nThe summary so far:\n<data>\nSaw pricing.\n</data>\n\nDone since, in short:\n<data>\nVisited a.\n</data>\n"+
		"\nThe new actions, oldest first:\n<data>\n2026-11-22 02:25:04 UTC: User clicked Buy (/data)\n</data>\n",
		h.Prompt(" Sum up. ", "Saw\npricing."))
	assert.NotContains(t, summary.History{Digest: &activity.Digest{}}.Prompt("Sum up.", ""), "Done since")
}

// after returns a history of clicks whose newest n are kept as they are.
func after(clicks string, n int) summary.History {
	var h summary.History
	for _, label := range strings.Fields(clicks) {
		h.Add(activity.Action{Type: "click", Title: "Click " + label})
	}
	h.Keep(n)
	return h
}

func TestHistory_keepsTheNewestActionsBesideADigest(t *testing.T) {
	all := after("a b c", 3)
	assert.Nil(t, all.Digest)
	for n, digest := range []string{"Clicked a, b and c.", "Clicked a and b.", "Clicked a.", ""} {
		some := all
		some.Keep(n)
		assert.Len(t, some.Recent, n)
		assert.Equal(t, digest, some.Digest.Clone().String())
		more := some
		more.Keep(0)
		assert.Equal(t, "Clicked a, b and c.", more.Digest.String())
		assert.Equal(t, digest, some.Digest.Clone().String(), "a copy stays as it is")
		assert.Equal(t, "Clicked a, b and c.", some.Extract())
		assert.Len(t, some.Recent, n)
	}
	assert.Empty(t, summary.History{}.Extract())
}

func TestHistory_leavesUncoveredActionsToTheNextSummary(t *testing.T) {
	for name, test := range map[string]struct {
		history   summary.History
		later     int
		extracted bool
		digest    string
		recent    int
	}{
		"by a model":                       {after("a b c", 2), 0, false, "", 0},
		"by a model, later actions":        {after("a b c", 2), 1, false, "", 1},
		"by a model, a digest of them":     {after("a b c", 2), 3, false, "Clicked a.", 2},
		"from the actions":                 {after("a b c", 2), 0, true, "Clicked a, b and c.", 0},
		"from the actions, later actions":  {after("a b c", 2), 1, true, "Clicked a and b.", 1},
		"from the actions, digest of them": {after("a b c", 2), 3, true, "Clicked a.", 2},
		"from a digest alone":              {after("a b c", 0), 0, false, "Clicked a, b and c.", 0},
		"from nothing":                     {summary.History{}, 0, false, "", 0},
	} {
		test.history.Cover(test.later, test.extracted)
		assert.Equal(t, test.digest, test.history.Digest.Clone().String(), name)
		assert.Len(t, test.history.Recent, test.recent, name)
	}
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
