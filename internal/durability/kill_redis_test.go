package durability_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/redistest"
)

// Servers share one Redis. They are killed, and so is Redis, which is also
// paused; clients go from server to server, even with one and the same
// request. Whatever any server has acknowledged is there, once and in order,
// on all of them.
func TestKill_redis(t *testing.T) {
	// With everysec, Redis acknowledges what it has not even written while
	// an fsync takes long.
	always := []string{"--appendfsync", "always"}
	single := func(t *testing.T) []*redistest.Server { return []*redistest.Server{redistest.Start(t, always...)} }
	cluster := func(t *testing.T) []*redistest.Server { return redistest.Cluster(t, always...) }
	for _, test := range []struct {
		name    string
		servers int
		start   func(*testing.T) []*redistest.Server
		faults  uint64
	}{
		{"2 servers", 2, single, defaultFaults},
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
	for _, node := range nodes {
		s.redis = append(s.redis, node.Addr)
	}
	k := &redisKiller{storm: s, rng: s.dice.generator(), nodes: nodes}
	k.startAll()
	s.fill(1, fillPages)
	s.send(4)
	s.follow(2)
	s.register(250 * time.Millisecond)
	s.probe()
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
	t.Logf("%d faults in %s; killed: servers %d times, Redis %d times; %s", faults, took.Round(time.Second/10), k.kills, k.redisKills, s)
}

// longPause is longer than servers wait for Redis.
const longPause = 5 * time.Second

// redisKiller kills the servers of a storm, and their Redis.
type redisKiller struct {
	storm      *storm
	rng        *rand.Rand
	nodes      []*redistest.Server // of Redis
	lives      []*life
	kills      int
	redisKills int
}

// startAll starts the servers and waits until they listen.
func (k *redisKiller) startAll() {
	k.lives = nil
	for _, sv := range k.storm.servers {
		k.lives = append(k.lives, k.storm.start(sv))
	}
	for _, l := range k.lives {
		k.storm.require(l.ready(k.storm.ctx))
	}
}

func (k *redisKiller) killAll() {
	for _, l := range k.lives {
		k.storm.require(l.kill())
		k.kills++
	}
}

func (k *redisKiller) terminateAll() {
	for _, l := range k.lives {
		k.storm.require(l.ready(k.storm.ctx))
		k.storm.require(l.terminate())
	}
}

// fault does one thing that may happen.
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
		k.killRedis(func() { k.storm.pause(upTo(k.rng, 300*time.Millisecond)) })
	case p < 18: // both
		k.killRedis(k.killServer)
	default:
		k.pauseRedis(k.node(), upTo(k.rng, 800*time.Millisecond))
	}
}

// killServer kills a server, which may be starting, and soon starts it again.
func (k *redisKiller) killServer() {
	i := k.rng.IntN(len(k.lives))
	k.storm.require(k.lives[i].kill())
	k.kills++
	k.storm.pause(upTo(k.rng, 100*time.Millisecond))
	k.lives[i] = k.storm.start(k.storm.servers[i])
}

// stopServer asks a server to stop, and starts it again.
func (k *redisKiller) stopServer() {
	i := k.rng.IntN(len(k.lives))
	k.storm.require(k.lives[i].ready(k.storm.ctx))
	k.storm.require(k.lives[i].terminate())
	k.lives[i] = k.storm.start(k.storm.servers[i])
}

// node returns a node of Redis.
func (k *redisKiller) node() *redistest.Server { return k.nodes[k.rng.IntN(len(k.nodes))] }

// killRedis kills a node and starts it again. What happens meanwhile is given.
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
	k.storm.pause(d / 2)
	if k.rng.IntN(3) == 0 {
		k.killServer()
	}
	k.storm.pause(d / 2)
}

// audit waits until no sender is active, kills all servers, so that nothing is
// in flight, and compares what is there then with the truth.
func (k *redisKiller) audit() {
	k.storm.calm.Lock()
	defer k.storm.calm.Unlock()
	k.killAll()
	k.startAll()
	k.storm.audit()
}

// A product is known at every server as soon as its registration at one of
// them is acknowledged, also while others ask for products that there are not,
// and at a server that has just begun.
func TestServers_knowARegistrationAtOnce(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 2, "--redis-url="+redistest.Start(t).URL())
	k := &redisKiller{storm: s, rng: s.dice.generator()}
	k.startAll()
	s.others.Go(func() {
		for s.ctx.Err() == nil {
			_, _ = s.ask(s.ctx, s.servers[1], s.timeout, http.MethodPost, "/webhook/nobodys", "{}")
			_, _ = s.ask(s.ctx, s.servers[1], s.timeout, http.MethodGet, lookupPath("ada"), "", "Authorization: Bearer nobodys")
		}
	})
	for n := range 20 {
		s.require(k.lives[1].kill())
		k.lives[1] = s.start(s.servers[1])
		s.require(k.lives[1].ready(s.ctx))
		s.pause(upTo(k.rng, 20*time.Millisecond))
		body := fmt.Sprintf(`{"product_id":"product-%d"}`, n)
		a, err := s.ask(s.ctx, s.servers[0], s.timeout, http.MethodPost, "/admin/products", body, "X-Admin-Key: "+adminKey)
		s.require(err)
		require.Equal(t, http.StatusCreated, a.status, "%s", a)
		p := registered{server: s.servers[0].name}
		s.require(json.Unmarshal(a.body, &p))
		for _, call := range []struct{ method, path, header string }{
			{http.MethodPost, p.webhookPath(), p.secret()},
			{http.MethodGet, p.lookupPath(), p.bearer()},
		} {
			a, err := s.ask(s.ctx, s.servers[1], s.timeout, call.method, call.path, "[]", call.header)
			s.require(err)
			require.Equal(t, http.StatusOK, a.status, "%s %s at %s: %s", call.method, call.path, s.servers[1].name, a)
		}
	}
}
