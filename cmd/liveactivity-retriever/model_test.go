package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// model is an OpenAI-compatible endpoint that keeps what it is asked.
type model struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []question
	answer http.HandlerFunc
}

// question is a request that a model was sent.
type question struct{ path, authorization, body string }

// newModel returns a model that answers "The user is busy." until it is given
// otherwise.
func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{answer: say("The user is busy.")}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process is gone
	}
	m.mu.Lock()
	m.asked = append(m.asked, question{r.URL.Path, r.Header.Get("Authorization"), string(body)})
	answer := m.answer
	m.mu.Unlock()
	answer(w, r)
}

// answerWith changes how the model answers.
func (m *model) answerWith(answer http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

// questions returns what the model was asked.
func (m *model) questions() []question {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// awaitQuestions waits until the model was asked n times.
func (m *model) awaitQuestions(t *testing.T, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the model is asked %d times", n), func() bool { return len(m.questions()) == n })
}

// say answers with a text.
func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
	}
}

// hang answers nothing until the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// followWith starts a retriever of the stream whose summaries, one for three
// actions, the model writes.
func followWith(t *testing.T, m *model, s *streamtest.Server, args ...string) *service {
	t.Helper()
	return launch(t, []string{"OPENAI_BASE_URL=" + m.URL + "/v1", "OPENAI_API_KEY=" + openAIKey},
		append([]string{proctest.AnyPort, "--stream-url=" + s.URL(), "--token=" + token, "--threshold=3", "--llm-model=llama3.2"}, args...)...)
}

func TestModel_writesTheSummary(t *testing.T) {
	t.Parallel()
	model, stream := newModel(t), newStream(t)
	model.answerWith(say(" Ada exported a report.\n"))
	s := followWith(t, model, stream)
	stream.Send(did("s1", "", "a", "b"), did("s1", "", "c"), did("s2", "", "a"))
	s.await("s1", "Ada exported a report.")
	s.await("s2", "a")
	questions := model.questions()
	require.Len(t, questions, 1)
	assert.Equal(t, "/v1/chat/completions", questions[0].path)
	assert.Equal(t, "Bearer "+openAIKey, questions[0].authorization)
	for _, want := range []string{`"llama3.2"`, "User clicked a", "User clicked b", "User clicked c"} {
		assert.Contains(t, questions[0].body, want)
	}

	model.answerWith(say("Ada left."))
	stream.Send(did("s1", "", "d", "e", "f"))
	s.await("s1", "Ada left.")
	assert.Contains(t, model.questions()[1].body, "Ada exported a report.", "one summary builds on the other")
	s.Stop()
	assert.NotContains(t, s.Stdout.String()+s.Stderr.String(), "s3cr3t")
}

// The key goes to the model and nowhere else: not to the stream, and not to
// where the model's endpoint sends one.
func TestModel_keyReachesTheEndpointOnly(t *testing.T) {
	t.Parallel()
	stream, elsewhere, model := newStream(t), newModel(t), newModel(t)
	model.answerWith(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	target, err := url.Parse(stream.URL())
	require.NoError(t, err)
	target.Path = ""
	seen := make(chan string, 1)
	front := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		dump, _ := httputil.DumpRequest(r.In, false)
		seen <- string(dump)
		r.SetURL(target)
	}})
	t.Cleanup(front.Close)
	s := followWith(t, model, stream, "--stream-url="+front.URL+"/stream/acme")
	t.Cleanup(s.Kill)
	stream.Send(did("s1", "", "a", "b", "c"))
	model.awaitQuestions(t, 1)
	s.await("s1", "a", "b", "c")
	waittest.Until(t, "the failure is logged", func() bool { return strings.Contains(s.Stderr.String(), "not summarized") })
	assert.Empty(t, elsewhere.questions(), "a redirect is not followed")
	dump := <-seen
	assert.Contains(t, dump, token)
	assert.NotContains(t, dump, openAIKey)
	for _, q := range model.questions() {
		assert.NotContains(t, fmt.Sprint(q), token)
	}
	model.answerWith(say("At last."))
	stream.Send(did("s1", "", "d"))
	s.await("s1", "At last.")
	assert.NotContains(t, s.Stderr.String(), "s3cr3t")
}

func TestModel_atWorkDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	model, stream := newModel(t), newStream(t)
	model.answerWith(hang)
	s := followWith(t, model, stream)
	stream.Send(did("s1", "", "a", "b", "c"))
	model.awaitQuestions(t, 1)
	begun := time.Now()
	s.Stop()
	assert.Less(t, time.Since(begun), serve.ShutdownTime)
}
