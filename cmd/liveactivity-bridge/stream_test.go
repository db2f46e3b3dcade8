package main_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// did returns a batch of a session's actions, all of just now.
func did(sessionID string, titles ...string) activity.Batch {
	b := activity.Batch{SessionID: sessionID, Email: "ada@example.com"}
	for i, title := range titles {
		a := activity.Action{Type: activity.TypeClick, Title: title, Description: "User clicked " + title,
			TimestampStart: activity.Seconds(time.Now().Add(time.Duration(i) * time.Microsecond))}
		b.Actions = append(b.Actions, activity.BatchAction{Action: a})
	}
	return b
}

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
	s := follow(t, stream)
	assert.Equal(t, http.StatusServiceUnavailable, s.readiness())
	s.get("/healthz")
	s.report("s1", "Approve vendor", "") // it works meanwhile
	waittest.Until(t, "it is ready", func() bool { return s.readiness() == http.StatusOK })

	alone := launch(t, nil, proctest.AnyPort)
	assert.Equal(t, http.StatusOK, alone.readiness(), "without a stream it needs none")
}
