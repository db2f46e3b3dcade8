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

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/redistest"
)

// Servers share one Redis. They are killed, and so is Redis, which is also paused. Clients go from server to server,
// even with the same request. Every server has everything that any server acknowledged, once and in order.
func TestKill_redis(t *testing.T) {
	// With everysec, Redis acknowledges data before it has written it, while an fsync takes long.
	always := []string{"--appendfsync", "always"}
	single := func(t *testing.T) []*redistest.Server { return []*redistest.Server{redistest.Start(t, always...)} }
	cluster := func(t *testing.T) []*redistest.Server { return redistest.Cluster(t, always...) }
	for _, test := range []struct {
		name    string
		servers int
		start   func(*testing.T) []*redistest.Server
		faults  uint64
	}{
		{"3 servers", 3, single, defaultFaults},
		{"2 servers on a cluster", 2, cluster, defaultFaults / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testKillRedis(t, test.servers, test.start(t), int(number(t, faultsVar, test.faults)))
		})
	}
}

func testKillRedis(t *testing.T, servers int, nodes []*redistest.Server, faults int) {
	s := newStorm(t, servers, "--redis-url="+nodes[0].URL())
	s.impatience = 300 * time.Millisecond
	k := &redisKiller{killer: newKiller(s), nodes: nodes}
	k.startAll()
	s.fill(1, fillPages)
	s.beginAll()
	began := time.Now()
	for n := range faults {
		k.fault()
		s.pause(upTo(k.rng, 250*time.Millisecond))
		if n == faults/2 {
			k.pauseRedis(k.node(), longPause)
			k.audit()
		}
	}
	took := time.Since(began)
	s.end()
	k.terminateAll()
	k.startAll()
	s.audit()
	t.Logf("%d faults in %s; killed: servers %d times, Redis %d times; %s", faults, took.Round(time.Second/10), k.kills,
		k.redisKills, s)
}

const (
	longPause = 5 * time.Second // longer than servers wait for Redis
	rollings  = 3               // times that all the servers are replaced
)

type redisKiller struct {
	*killer
	nodes      []*redistest.Server // of Redis
	redisKills int
}

func (k *redisKiller) fault() {
	switch p := k.rng.IntN(20); {
	case p < 11:
		k.killServer()
	case p < 13:
		k.stopServer()
	case p < 14:
		k.killAll()
		k.startAll()
	case p < 17:
		k.killRedis(func() { k.pause(upTo(k.rng, 300*time.Millisecond)) })
	case p < 18: // both
		k.killRedis(k.killServer)
	default:
		k.pauseRedis(k.node(), upTo(k.rng, 800*time.Millisecond))
	}
}

// killServer kills a server, which may be starting, and soon starts it again.
func (k *redisKiller) killServer() {
	i := k.rng.IntN(len(k.servers))
	k.kill(i)
	k.pause(upTo(k.rng, 100*time.Millisecond))
	k.restart(i)
}

// stopServer asks a server to stop, and starts it again.
func (k *redisKiller) stopServer() {
	i := k.rng.IntN(len(k.servers))
	k.ready(i)
	k.terminate(i)
	k.restart(i)
}

func (k *redisKiller) node() *redistest.Server { return k.nodes[k.rng.IntN(len(k.nodes))] }

// killRedis kills a node, runs meanwhile, and starts the node again.
func (k *redisKiller) killRedis(meanwhile func()) {
	node := k.node()
	node.Kill()
	k.redisKills++
	meanwhile()
	node.Restart()
}

// pauseRedis stops a node for a while, in which a server may be killed, too.
func (k *redisKiller) pauseRedis(node *redistest.Server, d time.Duration) {
	node.Pause()
	defer node.Resume()
	k.pause(d / 2)
	if k.rng.IntN(3) == 0 {
		k.killServer()
	}
	k.pause(d / 2)
}

// Three servers of the previous release on one Redis are replaced one after the other by servers of
// this version, and these in turn. Meanwhile clients send without pause through a balancer that
// repeats a request only where that is safe. None of their requests fails.
func TestKill_rollingRestart(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 3, "--redis-url="+redistest.Start(t).URL())
	s.balancer = &balancer{storm: s}
	for _, sv := range s.servers {
		sv.path = proctest.Predecessor(t).Path()
	}
	k := newKiller(s)
	k.startAll()
	s.beginAll()
	var slowest time.Duration
	for range rollings {
		for i := range k.servers {
			slowest = max(slowest, k.replace(i))
		}
	}
	s.end()
	s.audit()
	t.Logf("%d restarts, the slowest stop took %s; %d requests went on to another server; %s",
		rollings*len(k.servers), slowest.Round(time.Millisecond), s.balancer.moved.Load(), s)
}

// replace stops a server, starts one of this version, waits until it takes requests, and
// returns how long the stop took.
func (k *killer) replace(i int) time.Duration {
	k.pause(upTo(k.rng, 300*time.Millisecond))
	began := time.Now()
	k.terminate(i)
	took := time.Since(began)
	k.servers[i].path = command.Path()
	k.restart(i)
	k.ready(i)
	k.require(k.isReady(k.servers[i]))
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

// balancer gives the requests to the servers in turn. It goes on to the next server only when one
// refuses, closes the connection before any answer, or answers 503 with Retry-After.
type balancer struct {
	storm *storm
	turn  atomic.Uint64
	moved atomic.Int64
}

// ask sends a request. It fails when the request may not go to another server or every server has
// had it. It also returns the request's server.
func (b *balancer) ask(timeout time.Duration, method, path, body string,
	headers ...string) (a answer, where string, err error) {
	turn, n := b.turn.Add(1), uint64(len(b.storm.servers))
	for i := range n {
		sv := b.storm.servers[(turn+i)%n]
		where = strings.TrimSpace(where + " " + sv.name)
		var answered atomic.Bool // the trace is called for a request that was given up, too
		ctx := httptrace.WithClientTrace(b.storm.ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() {
			answered.Store(true)
		}})
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

var errNobody = errors.New("no server takes it")

// isClosed reports whether an error says that the connection failed or was closed, which the client
// may notice while it writes.
func isClosed(err error) bool {
	for _, closed := range []error{errDown, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF,
		net.ErrClosed} {
		if errors.Is(err, closed) {
			return true
		}
	}
	return strings.Contains(err.Error(), "server closed idle connection")
}
