package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
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
	t              *testing.T
	server         *streamtest.Server
	stdout, stderr *os.File
}

// start runs the example until the test ends, with a language model at that URL
// unless it is empty.
func start(t *testing.T, modelURL string, args ...string) *program {
	t.Helper()
	t.Setenv("OPENAI_API_KEY", map[bool]string{true: "sk-test"}[modelURL != ""])
	t.Setenv("OPENAI_BASE_URL", modelURL)
	server, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	p := &program{t: t, server: server}
	t.Cleanup(p.server.Close)
	stdout, stderr := p.pipe(&p.stdout), p.pipe(&p.stderr)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	args = append([]string{"--stream-url", p.server.URL(), "--token", p.server.Token(), "--debounce", "0s"}, args...)
	go func() { done <- run(ctx, args, stdout, stderr) }()
	t.Cleanup(func() {
		stop()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	return p
}

// pipe opens a pipe, sets r to its reading end and returns the other one. The buffer is larger than
// any output here.
func (p *program) pipe(r **os.File) (w *os.File) {
	p.t.Helper()
	var err error
	*r, w, err = os.Pipe()
	require.NoError(p.t, err)
	return w
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

// model is a fake endpoint of OpenAI's form.
type model struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	fails  bool
	called int
	prompt string        // the newest one
	hold   chan struct{} // it answers when this is closed
	asked  chan struct{} // gets a value at every call
}

func newModelServer(t *testing.T) *model {
	m := &model{t: t, hold: make(chan struct{}), asked: make(chan struct{}, 10)}
	close(m.hold)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	assert.NoError(m.t, json.NewDecoder(r.Body).Decode(&question))
	assert.Equal(m.t, "POST /v1/chat/completions", r.Method+" "+r.URL.Path)
	assert.Equal(m.t, "Bearer sk-test", r.Header.Get("Authorization"))
	assert.Equal(m.t, "tiny", question.Model)
	assert.Len(m.t, question.Messages, 1)
	m.mu.Lock()
	m.called++
	m.prompt = question.Messages[0].Content
	fails, hold, called := m.fails, m.hold, m.called
	m.mu.Unlock()
	m.asked <- struct{}{}
	<-hold
	if fails {
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"Summary number %d."}}]}`, called)
}

// set makes the model fail or not, and hold its answers back or not.
func (m *model) set(fails bool, hold chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.hold = fails, hold
}

func (m *model) lastPrompt() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prompt
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
	m := newModelServer(t)
	p := start(t, m.url, "--threshold", "2", "--llm-model", "tiny")
	p.server.Send(viewed("s1", "pricing", "checkout"))
	first := note("s1", line("pricing"), line("checkout")) + "summary of s1, in place of 2 actions\nSummary number 1.\n\n"
	p.prints(first)
	prompt := m.lastPrompt()
	assert.Contains(t, prompt, "User landed on the checkout page")

	p.server.Send(viewed("s1", "help", "billing"))
	p.prints(note("s1", line("help"), line("billing")), "summary of s1, in place of 2 actions\nSummary number 2.\n\n")
	prompt = m.lastPrompt()
	assert.Contains(t, prompt, "Summary number 1.", "a summary builds on the one before")
}

// Actions that come while the model is at work stay as notes.
func TestRun_keepsActionsThatNoSummaryCovers(t *testing.T) {
	m := newModelServer(t)
	hold := make(chan struct{})
	m.set(false, hold)
	p := start(t, m.url, "--threshold", "2", "--llm-model", "tiny")
	p.server.Send(viewed("s1", "pricing", "checkout"))
	<-m.asked
	p.server.Send(viewed("s1", "help"))
	notes := note("s1", line("pricing"), line("checkout")) + note("s1", line("help"))
	p.prints(notes)
	close(hold)
	p.prints("summary of s1, in place of 2 actions\nSummary number 1.\n", line("help"), "\n")
}

// A model that fails costs nothing: it is asked again at the next batch.
func TestRun_losesNothingWhenTheModelFails(t *testing.T) {
	m := newModelServer(t)
	m.set(true, m.hold)
	p := start(t, m.url, "--threshold", "2", "--llm-model", "tiny")
	p.server.Send(viewed("s1", "pricing", "checkout"))
	for log := bufio.NewScanner(p.stderr); log.Scan() && !strings.Contains(log.Text(), "session was not summarized"); {
	}
	m.set(false, m.hold)
	p.server.Send(viewed("s1", "help"))
	p.prints(note("s1", line("pricing"), line("checkout")), note("s1", line("help")),
		"summary of s1, in place of 3 actions\nSummary number 2.\n\n")
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
