package main_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// readiness returns the status of /readyz.
func (s *service) readiness() int {
	s.t.Helper()
	status, _ := proctest.Request(s.t, http.MethodGet, s.url+"/readyz", "")
	return status
}

func TestReadyz_isOnceTheStreamWasCaughtUpWith(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Refuse(http.StatusServiceUnavailable, 1)
	s := launch(t, nil, proctest.AnyPort, "--stream-url="+stream.URL(), "--token="+token)
	assert.Equal(t, http.StatusServiceUnavailable, s.readiness())
	s.get("/healthz")
	s.report("s1", "Approve vendor") // it works meanwhile
	waittest.Until(t, "it is ready", func() bool { return s.readiness() == http.StatusOK })

	alone := launch(t, nil, proctest.AnyPort)
	assert.Equal(t, http.StatusOK, alone.readiness(), "without a stream it needs none")
}
