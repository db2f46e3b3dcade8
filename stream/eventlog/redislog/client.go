package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// target is what a URL says.
type target struct {
	options  redis.ClusterOptions
	database int
}

// errURL says what a URL must look like. What is wrong with one is not
// repeated: it may be the password.
var errURL = errors.New("redislog: the URL must look like redis://USER:PASSWORD@HOST:PORT/DATABASE or rediss://… for TLS; " +
	"special characters of the password must be percent-encoded")

// parseURL reads a URL. Its errors do not contain the password.
func parseURL(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" || u.Opaque != "" || u.Fragment != "" {
		return target{}, errURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, errURL
	}
	for _, addr := range query["addr"] {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || !isPort(port) {
			return target{}, errors.New("redislog: each addr in the URL must be HOST:PORT")
		}
	}
	if port := u.Port(); port != "" && !isPort(port) {
		return target{}, errors.New("redislog: the port in the URL must be a number from 1 to 65535")
	}
	var t target
	if path := strings.Trim(u.Path, "/"); path != "" {
		if t.database, err = strconv.Atoi(path); err != nil || t.database < 0 {
			return target{}, errURL
		}
	}
	u.Path, u.RawPath = "", ""
	options, err := redis.ParseClusterURL(u.String())
	if err != nil { // about a parameter
		return target{}, fmt.Errorf("redislog: %w", err)
	}
	if options.ReadOnly || options.RouteByLatency || options.RouteRandomly {
		return target{}, errors.New("redislog: replicas cannot be read: they lag behind")
	}
	t.options = *options
	return t, nil
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

// Defaults of what a URL may say. Redis is near, and a call that takes longer
// had better fail: callers repeat it.
const (
	networkTimeout = 2 * time.Second
	redirects      = 3
	poolSize       = 32
	reloadInterval = 10 * time.Second
)

// newClient returns a client for the topology found. It does not
// connect yet.
func newClient(t target, topology *topology, clock *clock) *redis.ClusterClient {
	o := t.options
	setDefaults(&o)
	o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if err := checkVersion(ctx, conn); err != nil {
			return err
		}
		clock.measure(ctx, conn.Time)
		return nil
	}
	o.ClusterSlots = topology.slots
	o.ClusterStateReloadInterval = reloadInterval
	o.NewClient = func(node *redis.Options) *redis.Client {
		node.DB = t.database
		return redis.NewClient(node)
	}
	silence()
	return redis.NewClusterClient(&o)
}

func setDefaults(o *redis.ClusterOptions) {
	for _, timeout := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout} {
		if *timeout == 0 {
			*timeout = networkTimeout
		}
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = redirects
	}
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	if o.PipelinePoolSize == 0 {
		o.PipelinePoolSize = -1 // the same connections for everything
	}
	if o.DialerRetries == 0 {
		o.DialerRetries = 1
	}
	o.Protocol = 2
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.DisableRoutingPolicies = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// silence keeps the client from writing to standard error: what fails is
// returned, and logged by the caller.
var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// topology finds out which node has which slots. A single server has all.
type topology struct {
	target target

	mu     sync.Mutex
	single string   // the address of what turned out to be a single server
	nodes  []string // of the cluster, when it was asked last
}

func newTopology(t target) *topology { return &topology{target: t} }

// slots asks the nodes one after another until one answers.
func (t *topology) slots(ctx context.Context) ([]redis.ClusterSlot, error) {
	t.mu.Lock()
	single, addrs := t.single, append(t.nodes[:len(t.nodes):len(t.nodes)], t.target.options.Addrs...)
	t.mu.Unlock()
	if single != "" {
		return allSlots(single), nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var failure error
	for _, addr := range addrs {
		slots, err := t.ask(ctx, addr)
		if err == nil {
			return slots, nil
		}
		if failure = err; ctx.Err() != nil {
			break
		}
	}
	return nil, failure
}

const lastSlot = 16383

func allSlots(addr string) []redis.ClusterSlot {
	return []redis.ClusterSlot{{End: lastSlot, Nodes: []redis.ClusterNode{{Addr: addr}}}}
}

// ask asks one node, on a separate connection.
func (t *topology) ask(ctx context.Context, addr string) ([]redis.ClusterSlot, error) {
	o := t.target.options
	setDefaults(&o)
	node := redis.NewClient(&redis.Options{
		Addr: addr, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		PoolSize: 1, PipelinePoolSize: -1, MaxRetries: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
		OnConnect: checkVersion,
	})
	defer node.Close()
	reply := redis.NewClusterSlotsCmd(ctx, "cluster", "slots") // Redis 6 knows no other way
	err := node.Process(ctx, reply)
	slots := reply.Val()
	switch {
	case isSingle(err) && len(t.target.options.Addrs) > 1:
		return nil, fmt.Errorf("the URL names several nodes, but %s is not in a cluster", addr)
	case isSingle(err):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.single = addr
		return allSlots(addr), nil
	case err != nil:
		return nil, err
	case len(slots) == 0:
		return nil, errors.New("the cluster has no slots")
	case t.target.database != 0:
		return nil, fmt.Errorf("a cluster has no database %d", t.target.database)
	}
	return t.learn(slots, addr), nil
}

// isSingle reports whether an answer to CLUSTER SLOTS is that of a server
// which is not part of a cluster, or does not say so.
func isSingle(err error) bool {
	return redis.HasErrorPrefix(err, "This instance has cluster support disabled") ||
		redis.HasErrorPrefix(err, "unknown command") || redis.HasErrorPrefix(err, "NOPERM")
}

// learn remembers the nodes, and completes addresses that a node cannot know
// of itself.
func (t *topology) learn(slots []redis.ClusterSlot, origin string) []redis.ClusterSlot {
	originHost, originPort, _ := net.SplitHostPort(origin) // it was dialed
	seen := map[string]bool{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes = nil
	for _, slot := range slots {
		for i := range slot.Nodes {
			host, port, err := net.SplitHostPort(slot.Nodes[i].Addr)
			if err != nil {
				continue
			}
			if host == "" || isLoopback(host) && !isLoopback(originHost) {
				host = originHost
			}
			if port == "0" {
				port = originPort
			}
			addr := net.JoinHostPort(host, port)
			slot.Nodes[i].Addr = addr
			if !seen[addr] {
				seen[addr] = true
				t.nodes = append(t.nodes, addr)
			}
		}
	}
	return slots
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
