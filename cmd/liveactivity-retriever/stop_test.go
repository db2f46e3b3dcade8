package main_test

import (
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const retrieval = `{"knowledge_id":"s1","query":"what did I do?","retrieval_setting":{"top_k":5,"score_threshold":0.5}}`

func TestStop_finishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			stream := newStream(t)
			s := follow(t, stream)
			stream.Send(did("s1", "", "a"))
			s.await("s1", "a")
			finish := proctest.UnderWay(t, s.url, "/retrieval", retrieval)
			s.Signal(sig)
			proctest.HangsUp(t, s.url)
			assert.False(t, s.HasExited(), "it waits for the request")
			assert.Equal(t, http.StatusOK, finish())
			assert.Zero(t, s.Wait(waittest.Patience), "%s", &s.Stderr)
			assert.NotContains(t, s.Stderr.String(), "cut off")
		})
	}
}

func TestStop_aSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	s := follow(t, newStream(t))
	proctest.UnderWay(t, s.url, "/retrieval", retrieval)
	s.Signal(syscall.SIGTERM)
	proctest.HangsUp(t, s.url)
	assert.Equal(t, -1, s.SignalUntilExit(syscall.SIGTERM), "it is ended by the signal")
}

// Neither a stream that is silent, nor one that refuses, nor one that is not
// there holds up a stop.
func TestStop_doesNotWaitForTheStream(t *testing.T) {
	t.Parallel()
	silent, overloaded := newStream(t), newStream(t)
	silent.Stall()
	overloaded.Refuse(http.StatusServiceUnavailable, -1)
	for name, s := range map[string]*service{
		"silent": follow(t, silent), "overloaded": follow(t, overloaded), "not there": launch(t, enough),
	} {
		begun := time.Now()
		s.Stop()
		assert.Less(t, time.Since(begun), serve.ShutdownTime, name)
	}
}
