package main_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/llmtest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// newModel returns a model that answers "The user is busy." until it gets another answer.
func newModel(t *testing.T) *llmtest.Server {
	t.Helper()
	return llmtest.New(t, llmtest.Say("The user is busy."))
}

func TestModel_atWorkDoesNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	model, stream := newModel(t), newStream(t)
	model.AnswerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := launch(t, []string{"OPENAI_BASE_URL=" + model.BaseURL()}, proctest.AnyPort, "--stream-url="+stream.URL(),
		"--token="+token, "--threshold=3", "--llm-model=llama3.2")
	stream.Send(did("s1", "", "a", "b", "c"))
	waittest.Until(t, "the model is asked", func() bool { return len(model.Asked()) == 1 })
	begun := time.Now()
	s.Stop()
	assert.Less(t, time.Since(begun), serve.ShutdownTime)
}
