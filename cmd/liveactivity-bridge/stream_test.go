package main_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// did is what somebody does in a session just now.
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

func TestStream_isMergedWithWhatIsReported(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Send(did("s1", "Click a"))
	s := follow(t, stream)
	s.await("s1", "Click a")
	s.report("s1", "Approve vendor", "")
	stream.Send(did("s1", "Click b"), did("s2", "Click x"))
	s.await("s1", "Click a", "Approve vendor", "Click b")
	s.await("s2", "Click x")
	assert.Contains(t, s.get("/context/s2", "Accept: text/plain"), "clicked x")
	assert.NotContains(t, s.get("/context/s1"), "ada@example.com")
	s.Kill()
	again := follow(t, stream)
	again.await("s1", "Click a", "Click b")
	again.Stop()
	assert.NotContains(t, again.Stdout.String()+again.Stderr.String(), "s3cr3t")
}

func TestStream_thatGoesWrongLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := follow(t, stream)
	stream.Send(did("s1", "a"))
	s.await("s1", "a")
	want := []string{"a"}
	for i, fault := range []func(){
		stream.Disconnect,
		func() { stream.Tear(40) },
		func() { stream.Refuse(http.StatusServiceUnavailable, 1); stream.Disconnect() },
		func() { stream.SendRaw(`{"type":"actions","session_id":"s1","actions":[7]}`) },
	} {
		title := fmt.Sprint("b", i)
		fault()
		stream.Send(did("s1", title))
		want = append(want, title)
		s.await("s1", want...)
	}
}

func TestStream_thatIsRefusedEndsIt(t *testing.T) {
	t.Parallel()
	type trial struct {
		*proctest.Process
		status int
	}
	var trials []trial
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		fromTheStart, later := newStream(t), newStream(t)
		fromTheStart.Refuse(status, -1)
		trials = append(trials, trial{command.Launch(t, nil, proctest.AnyPort, "--stream-url="+fromTheStart.URL(), "--token="+token, "--log-level=error"), status})

		s := follow(t, later, "--log-level=error")
		later.Send(did("s1", "a"))
		s.await("s1", "a")
		later.Refuse(status, -1)
		later.Disconnect()
		trials = append(trials, trial{s.Process, status})
	}
	for _, tr := range trials {
		assert.Equal(t, 1, tr.Wait(waittest.Patience))
		assert.Regexp(t, `^liveactivity-bridge: stream: the server refuses the stream: `+strconv.Itoa(tr.status)+` [A-Za-z ]+: [A-Z][^\n]+\n$`, tr.Stderr.String())
		assert.NotContains(t, tr.Stderr.String(), "s3cr3t")
	}
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

const report = `{"session_id":"s1","title":"Approve vendor"}`

func TestStop_finishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"alone":         nil,
		"with a stream": {"--stream-url=" + newStream(t).URL(), "--token=" + token},
	} {
		for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				s := launch(t, nil, append(args, proctest.AnyPort)...)
				finish := proctest.UnderWay(t, s.url, "/demo/actions", report)
				s.Signal(sig)
				proctest.HangsUp(t, s.url)
				assert.False(t, s.HasExited(), "it waits for the request")
				assert.Equal(t, http.StatusAccepted, finish())
				assert.Zero(t, s.Wait(waittest.Patience), "%s", &s.Stderr)
				assert.NotContains(t, s.Stderr.String(), "cut off")
			})
		}
	}
}

func TestStop_aSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, proctest.AnyPort)
	proctest.UnderWay(t, s.url, "/demo/actions", report)
	s.Signal(syscall.SIGTERM)
	proctest.HangsUp(t, s.url)
	assert.Equal(t, -1, s.SignalUntilExit(syscall.SIGTERM), "it is ended by the signal")
}

func TestStop_doesNotWaitForTheStream(t *testing.T) {
	t.Parallel()
	silent := newStream(t)
	silent.Stall()
	for _, s := range []*service{follow(t, silent), launch(t, elsewhere)} {
		begun := time.Now()
		s.Stop()
		assert.Less(t, time.Since(begun), serve.ShutdownTime)
	}
}
