package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/llmtest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// newModel returns a model that answers "The user is busy." until it gets another answer.
func newModel(t *testing.T) *llmtest.Server {
	t.Helper()
	return llmtest.New(t, llmtest.Say("The user is busy."))
}

// awaitQuestions waits until the model was asked n times.
func awaitQuestions(t *testing.T, model *llmtest.Server, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the model is asked %d times", n), func() bool { return len(model.Asked()) == n })
}

// followWith starts a retriever of the stream whose summaries, one for three
// actions, the model writes.
func followWith(t *testing.T, m *llmtest.Server, s *streamtest.Server, args ...string) *service {
	t.Helper()
	return launch(t, []string{"OPENAI_BASE_URL=" + m.BaseURL(), "OPENAI_API_KEY=" + openAIKey},
		append([]string{proctest.AnyPort, "--stream-url=" + s.URL(), "--token=" + token, "--threshold=3",
			"--llm-model=llama3.2"}, args...)...)
}

// The key goes to the model only, and not to the stream.
func TestModel_keyReachesTheEndpointOnly(t *testing.T) {
	t.Parallel()
	stream, model := newStream(t), newModel(t)
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
	s.await("s1", "The user is busy.")
	dump := <-seen
	assert.Contains(t, dump, token)
	assert.NotContains(t, dump, openAIKey)
	for _, q := range model.Asked() {
		assert.Equal(t, "Bearer "+openAIKey, q.Authorization)
		assert.Equal(t, "llama3.2", q.Body["model"])
		assert.Contains(t, fmt.Sprint(q.Body), "User clicked a")
		assert.NotContains(t, fmt.Sprint(q), token)
	}
}

func TestModel_atWorkDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	model, stream := newModel(t), newStream(t)
	model.AnswerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := followWith(t, model, stream)
	stream.Send(did("s1", "", "a", "b", "c"))
	awaitQuestions(t, model, 1)
	begun := time.Now()
	s.Stop()
	assert.Less(t, time.Since(begun), serve.ShutdownTime)
}
