package durability_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/redistest"
)

// Three servers of the release before on one Redis are replaced one after the other by
// servers of this version, and these in turn, while clients send without pause through a
// balancer that repeats a request only where that is safe. None of their requests fails.
func TestKill_rollingRestart(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newStorm(t, 3, "--redis-url="+redis.URL())
	s.balancer = &balancer{storm: s}
	for _, sv := range s.servers {
		sv.path = depstest.Predecessor(t)
	}
	k := &redisKiller{storm: s, rng: s.dice.generator(), nodes: []*redistest.Server{redis}}
	k.startAll()
	s.send(4)
	s.follow(2)
	s.register(250 * time.Millisecond)
	s.probe()
	var slowest time.Duration
	for range rollings {
		for i := range k.lives {
			slowest = max(slowest, k.replace(i))
		}
	}
	s.end()
	s.audit()
	t.Logf("%d restarts, the slowest stop took %s; %d requests went on to another server; %s",
		rollings*len(k.lives), slowest.Round(time.Millisecond), s.balancer.moved.Load(), s)
}

// rollings is how often all the servers are replaced.
const rollings = 3

// replace stops a server, starts one of this version, waits until it takes requests, and
// returns how long the stop took.
func (k *redisKiller) replace(i int) time.Duration {
	s, sv := k.storm, k.storm.servers[i]
	s.pause(upTo(k.rng, 300*time.Millisecond))
	began := time.Now()
	s.require(k.lives[i].terminate())
	took := time.Since(began)
	sv.path = command.Path()
	k.lives[i] = s.start(sv)
	s.require(k.lives[i].ready(s.ctx))
	s.require(s.isReady(sv))
	return took
}

// isReady waits until a server says that it is ready.
func (s *storm) isReady(sv *server) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		a, err := s.ask(s.ctx, sv, s.timeout, http.MethodGet, "/readyz", "")
		if err == nil && a.status == http.StatusOK {
			return nil
		}
		s.pause(time.Millisecond)
	}
	return fmt.Errorf("%s: it does not get ready", sv.name)
}

// balancer gives the requests to the servers in turn. To the next server it
// goes on only when one refuses or closes the connection before it has
// answered anything, or answers 503 with Retry-After.
type balancer struct {
	storm *storm
	turn  atomic.Uint64
	moved atomic.Int64
}

// ask sends a request, and fails when it may not be sent to another server or
// every server has had it. It also says where it went.
func (b *balancer) ask(timeout time.Duration, method, path, body string, headers ...string) (a answer, where string, err error) {
	turn, n := b.turn.Add(1), uint64(len(b.storm.servers))
	for i := range n {
		sv := b.storm.servers[(turn+i)%n]
		where = strings.TrimSpace(where + " " + sv.name)
		var answered atomic.Bool // the trace is called for a request that was given up, too
		ctx := httptrace.WithClientTrace(b.storm.ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { answered.Store(true) }})
		a, err = b.storm.ask(ctx, sv, timeout, method, path, body, headers...)
		isRefused := err != nil && !answered.Load() && isClosed(err)
		if !isRefused && (err != nil || !a.isAway()) {
			return a, where, err
		}
		if err != nil {
			where += " (" + err.Error() + ")"
		} else {
			where += " (" + a.String() + ")"
		}
		where += ","
		b.moved.Add(1)
	}
	return a, where, errors.Join(errNobody, err)
}

// errNobody says that no server takes a request.
var errNobody = errors.New("no server takes it")

// isClosed reports whether an error says that the connection could not be had,
// or was closed, which the client may notice while it writes.
func isClosed(err error) bool {
	for _, closed := range []error{errDown, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, net.ErrClosed} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return strings.Contains(err.Error(), "server closed idle connection")
}
