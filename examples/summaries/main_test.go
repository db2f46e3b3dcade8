package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// viewed returns the streamed batch of page views that come together.
func viewed(sessionID string, pages ...string) activity.Batch {
	b := activity.Batch{SessionID: sessionID}
	for _, page := range pages {
		view := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/"+page)
		view.TimestampStart = activity.Seconds(time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC))
		b.Actions = append(b.Actions, activity.BatchAction{Action: view})
	}
	return b
}

// line returns the printed line of a page view.
func line(page string) string {
	return fmt.Sprintf("2026-11-22 02:15:04 UTC: User landed on the %s page (https://app.example.com/%s)\n", page, page)
}

func note(sessionID string, lines ...string) string {
	return "note on " + sessionID + "\n" + strings.Join(lines, "") + "\n"
}

// program is the example at work.
type program struct {
	t      *testing.T
	server *streamtest.Server
	stdout io.Reader
}

// start runs the example until the test ends, with a language model at that URL
// unless it is empty.
func start(t *testing.T, modelURL string, args ...string) *program {
	t.Helper()
	t.Setenv("OPENAI_API_KEY", map[bool]string{true: "sk-test"}[modelURL != ""])
	t.Setenv("OPENAI_BASE_URL", modelURL)
	server, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	stdout, w, err := os.Pipe() // its buffer is larger than any output here
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	args = append([]string{"--stream-url", server.URL(), "--token", server.Token(), "--debounce", "0s"}, args...)
	go func() { done <- run(ctx, args, w, io.Discard) }()
	t.Cleanup(func() {
		stop()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	return &program{t, server, stdout}
}

// prints checks the next printed text.
func (p *program) prints(parts ...string) {
	p.t.Helper()
	want := strings.Join(parts, "")
	got := make([]byte, len(want))
	_, err := io.ReadFull(p.stdout, got)
	require.NoError(p.t, err)
	require.Equal(p.t, want, string(got))
}

// newModelServer returns the URL of a fake endpoint of OpenAI's form, which sends its prompts to the channel.
func newModelServer(t *testing.T) (url string, prompts <-chan string) {
	asked := make(chan string, 10)
	answered := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&question))
		assert.Equal(t, "POST /v1/chat/completions", r.Method+" "+r.URL.Path)
		assert.Equal(t, "Bearer sk-test", r.Header.Get("Authorization"))
		assert.Equal(t, "tiny", question.Model)
		assert.Len(t, question.Messages, 1)
		asked <- question.Messages[0].Content
		answered++
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"Summary number %d."}}]}`, answered)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", asked
}

func TestRun_sumsUpWithoutAModel(t *testing.T) {
	p := start(t, "", "--threshold", "2")
	p.server.Send(viewed("s1", "pricing", "checkout"))
	first := note("s1", line("pricing"), line("checkout")) +
		"summary of s1, in place of 2 actions\nVisited pricing and checkout.\n\n"
	p.prints(first)
	p.server.Send(viewed("s2", "help")) // a session of its own
	p.prints(note("s2", line("help")))
}

func TestRun_sumsUpWithAModel(t *testing.T) {
	url, prompts := newModelServer(t)
	p := start(t, url, "--threshold", "2", "--llm-model", "tiny")
	p.server.Send(viewed("s1", "pricing", "checkout"))
	p.prints(note("s1", line("pricing"), line("checkout")), "summary of s1, in place of 2 actions\nSummary number 1.\n\n")
	assert.Contains(t, <-prompts, "User landed on the checkout page")
	p.server.Send(viewed("s1", "help", "billing"))
	p.prints(note("s1", line("help"), line("billing")), "summary of s1, in place of 2 actions\nSummary number 2.\n\n")
	assert.Contains(t, <-prompts, "Summary number 1.", "a summary builds on the one before")
}

func TestRun_forgetsErasedSessions(t *testing.T) {
	p := start(t, "", "--threshold", "2")
	p.server.Send(viewed("s1", "pricing"))
	p.prints(note("s1", line("pricing")))
	p.server.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1"}})
	p.server.Send(viewed("s1", "help", "billing"))
	p.prints(note("s1", line("help"), line("billing")),
		"summary of s1, in place of 2 actions\nVisited help and billing.\n\n")
}

func TestRun_endsWhenRefused(t *testing.T) {
	server, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	defer server.Close()
	err = run(t.Context(), []string{"--stream-url", server.URL(), "--token", "wrong"}, io.Discard, io.Discard)
	var refused *stream.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.Status)
}
