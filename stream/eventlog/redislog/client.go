package redislog

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// target is a parsed URL. The database is selected on each node; a cluster has only
// database 0.
type target struct {
	options  redis.ClusterOptions
	database int
}

// errURL describes a URL's form. It does not quote the mistake, which may be the
// password.
var errURL = wrongURL("must look like redis://USER:PASSWORD@HOST:PORT/DATABASE or rediss://… for TLS; " +
	"special characters of the password must be percent-encoded")

// wrongURL returns the error of a URL. The problem must not contain any part of it that may be
// secret.
func wrongURL(problem string) error {
	return &option.Error{Package: "redislog", Option: "URL", Problem: problem}
}

// parseURL reads a URL. Its errors do not contain the password. It refuses parameters that
// let replicas be read, because a lookup after an append might not find it there.
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
			return target{}, wrongURL("must give each addr as HOST:PORT")
		}
	}
	if port := u.Port(); port != "" && !isPort(port) {
		return target{}, wrongURL("must have a port from 1 to 65535")
	}
	var t target
	if path := strings.Trim(u.Path, "/"); path != "" {
		if t.database, err = strconv.Atoi(path); err != nil || t.database < 0 {
			return target{}, errURL
		}
	}
	u.Path, u.RawPath = "", ""
	parsed, err := redis.ParseClusterURL(u.String())
	if err != nil { // about a parameter
		return target{}, wrongURL("has a parameter that cannot be right: " + err.Error())
	}
	if parsed.ReadOnly || parsed.RouteByLatency || parsed.RouteRandomly {
		return target{}, wrongURL("must not ask for replicas to be read: they lag behind")
	}
	t.options = *parsed
	setDefaults(&t.options)
	return t, nil
}

// isPort reports whether s is a port number that can be connected to.
func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

// Defaults of a URL's parameters. Redis is near, so a call that takes longer should fail:
// callers retry it. networkTimeout applies to each dial, read, write and wait for a free
// connection; redirects is how often a call follows a moved slot or is sent again; poolSize is
// the number of connections per node; the nodes of a cluster are looked up again every
// reloadInterval.
const (
	networkTimeout = 2 * time.Second
	redirects      = 3
	poolSize       = 32
	reloadInterval = 10 * time.Second
)

// redis returns the client. The first call that Redis answers makes it, because only then is
// it known whether there is a cluster. Concurrent calls each make one, and all use the first
// that is ready. The client reconnects on its own, and stays until renewAfter gives it up.
func (l *Log) redis(ctx context.Context) (*redis.ClusterClient, error) {
	if client := l.client.Load(); client != nil {
		return client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	single, err := l.probe(ctx)
	if err != nil {
		return nil, err
	}
	client := l.newClient(single)
	if err := l.checkFormat(ctx, client); err != nil {
		_ = client.Close()
		return nil, err
	}
	if l.client.CompareAndSwap(nil, client) {
		l.evictions.Do(func() { l.warnOfEviction(ctx, client) })
		return client, nil // renewAfter may have given it up by now
	}
	_ = client.Close() // another call was faster
	return l.redis(ctx)
}

// renewAfter gives up all connections if the error means that they lead to a replica. A master
// that is demoted keeps its connections, while the name in the URL may lead to the new master.
// Calls that use the connections have time to end.
func (l *Log) renewAfter(err error) {
	client := l.client.Load()
	if client == nil || !redis.IsReadOnlyError(err) || l.closed.Load() || !l.renewals.Due(callTimeout) {
		return
	}
	if l.client.CompareAndSwap(client, nil) {
		time.AfterFunc(callTimeout, func() { _ = client.Close() })
	}
}

// probe asks the nodes of the URL one after another until one answers, and returns its address
// if it is a single server, or "" for a cluster. A URL with several nodes cannot name a single
// server.
func (l *Log) probe(ctx context.Context) (single string, err error) {
	for _, addr := range l.target.options.Addrs {
		client := l.newClient(addr)
		var node *redis.Client
		if node, err = client.MasterForKey(ctx, ""); err == nil {
			err = node.Process(ctx, redis.NewClusterSlotsCmd(ctx, "cluster", "slots")) // Redis 6 has no CLUSTER SHARDS
		}
		_ = client.Close()
		switch {
		case isSingle(err) && len(l.target.options.Addrs) > 1:
			return "", fmt.Errorf("the URL names several nodes, but %s is not in a cluster", addr)
		case isSingle(err):
			return addr, nil
		case err == nil, ctx.Err() != nil:
			return "", err
		}
	}
	return "", err
}

// isSingle reports whether the answer to CLUSTER SLOTS comes from a server
// outside any cluster, or from one that does not say.
func isSingle(err error) bool {
	return redis.HasErrorPrefix(err, "This instance has cluster support disabled") ||
		redis.HasErrorPrefix(err, "unknown command") || redis.HasErrorPrefix(err, "NOPERM")
}

// lastSlot is the last of a cluster's hash slots.
const lastSlot = 16383

// newClient returns a client for the cluster, or for a single server, which it treats as a node
// with all slots. So there is only one kind of client, and every parameter of a URL has one
// meaning. newClient does not connect. Each new connection first asks its server for the
// version and the time, so no other command reaches a server that is too old, and the clock is
// known before the first entry.
func (l *Log) newClient(single string) *redis.ClusterClient {
	o := l.target.options
	o.Addrs = slices.Clone(o.Addrs) // because the client writes to it
	o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		if err := checkVersion(ctx, conn); err != nil {
			return err
		}
		l.clock.measure(ctx, conn.Time)
		return nil
	}
	if single != "" {
		o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: lastSlot, Nodes: []redis.ClusterNode{{Addr: single}}}}, nil
		}
	}
	o.ClusterStateReloadInterval = reloadInterval
	o.NewClient = func(node *redis.Options) *redis.Client {
		node.DB = l.target.database
		return redis.NewClient(node)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return l.dial(ctx, network, cmp.Or(single, addr)) // the client leaves out a single server's loopback host
	}
	return redis.NewClusterClient(&o)
}

// setDefaults sets the parameters that a URL leaves out, and some that it cannot change: calls
// end with their contexts, and a connection begins without commands for the client's name or
// for maintenance notifications.
func setDefaults(o *redis.ClusterOptions) {
	for _, timeout := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout} {
		*timeout = cmp.Or(*timeout, networkTimeout)
	}
	o.MaxRedirects = cmp.Or(o.MaxRedirects, redirects)
	o.PoolSize = cmp.Or(o.PoolSize, poolSize)
	o.PipelinePoolSize = cmp.Or(o.PipelinePoolSize, -1) // the same connections for everything
	o.DialerRetries = cmp.Or(o.DialerRetries, 1)
	o.Protocol = 2
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.DisableRoutingPolicies = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// dial connects to a node. It logs a failure, at most once in complainEvery, and returns a
// connection whose every use fails with that error, marked as reported. If dial returned the
// error, the client would write it to standard error, through a logger of the whole process.
func (l *Log) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: l.target.options.DialTimeout}
	dial := dialer.DialContext
	if config := l.target.options.TLSConfig; config != nil {
		dial = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	if !errors.Is(ctx.Err(), context.Canceled) && l.complaints.Due(complainEvery) {
		l.opts.Logger.Warn("cannot connect to Redis", "addr", addr, "err", err)
	}
	unconnected, _ := net.Pipe() // a pipe has deadlines
	return failedConn{unconnected, outage.Mark(err)}, nil
}

// complainEvery is the least time between two logged failures to connect, to any node.
const complainEvery = time.Minute

// failedConn stands for a connection that could not be made. It is one end of a pipe, for its
// deadlines and its Close; reads and writes return err immediately.
type failedConn struct {
	net.Conn
	err error
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }
