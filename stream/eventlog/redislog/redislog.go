package redislog

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// Defaults of [Options].
const (
	DefaultPrefix    = "liveactivity"
	DefaultTailBytes = 8 << 20
)

// Options configures a [Log]. A zero field means its default. All servers on one
// Redis must have the same Retention, MaxEvents and Prefix.
type Options struct {
	// Retention of the log and of users' actions. MaxBytes, which defaults to
	// eventlog.DefaultLastingMaxBytes, bounds the log of each product in Redis;
	// TotalBytes bounds the memory of this process for the newest entries of all
	// products together.
	Retention eventlog.Retention
	MaxEvents int          // actions kept per user; recent.DefaultMaxEvents
	TailBytes int64        // of a product's newest entries in this process; DefaultTailBytes
	Prefix    string       // of every key and channel in Redis, without braces; DefaultPrefix
	TLS       *tls.Config  // for rediss URLs; nil for the system's authorities
	Logger    *slog.Logger // logs failures of Redis; slog.Default() for nil
}

// withDefaults returns a copy of the options, nil for none, with their zero fields set. It adds
// the mistakes to wrong.
func (o *Options) withDefaults(wrong *options.Mistakes) Options {
	set := *cmp.Or(o, &Options{})
	var err error
	set.Retention, err = engine.WithDefaults(set.Retention,
		eventlog.DefaultLastingMaxBytes, eventlog.DefaultLastingStateMaxBytes)
	wrong.Add(err)
	set.MaxEvents = options.Default(wrong, "MaxEvents", set.MaxEvents, recent.DefaultMaxEvents)
	set.TailBytes = options.Default(wrong, "TailBytes", set.TailBytes, DefaultTailBytes)
	wrong.Require(!strings.ContainsAny(set.Prefix, "{}"), "Prefix", "must not contain braces")
	set.Prefix = cmp.Or(set.Prefix, DefaultPrefix)
	set.Logger = cmp.Or(set.Logger, slog.Default())
	return set
}

// Log is an [eventlog.Log] in Redis. Its methods are safe for concurrent use.
type Log struct {
	opts   Options
	target target
	client atomic.Pointer[redis.ClusterClient] // see redis
	clock  clock

	following atomic.Pointer[time.Time] // when the subscription to other servers began; nil without one
	closed    atomic.Bool               // commits that begin now do not append

	complaints outage.Pace // of failures to connect
	renewals   outage.Pace // of the client
	evictions  sync.Once   // warns of a Redis that evicts keys

	shares   *fair.Shares[*product] // of the bytes of all tails
	products engine.Products[product]
}

var _ eventlog.Log = (*Log)(nil)

// Open returns the log in the Redis at a URL. It fails only for an invalid URL or
// invalid options, and does not connect: Redis may be unavailable at any time. It
// reports all invalid arguments at once. Release frees the log.
func Open(url string, opts *Options) (*Log, error) {
	wrong := options.Mistakes{Package: "redislog"}
	o := opts.withDefaults(&wrong)
	target, err := parseURL(url)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	if target.options.TLSConfig != nil && o.TLS != nil {
		config := o.TLS.Clone()
		config.ServerName = cmp.Or(config.ServerName, target.options.TLSConfig.ServerName)
		target.options.TLSConfig = config
	}
	return &Log{opts: o, target: target, clock: clock{local: steady()},
		shares: fair.NewShares[*product](o.Retention.TotalBytes)}, nil
}

// Run implements [eventlog.Log]. It receives announcements of other servers' entries, removes
// expired data from Redis, and survives any failure of Redis. There is no memory to restore.
// While Run is not running, a read at the end of a log asks Redis, and a waiting reader is
// woken only by this process's entries.
func (l *Log) Run(ctx context.Context, report func(eventlog.Progress)) error {
	if report != nil {
		report(eventlog.Progress{Done: true})
	}
	var running sync.WaitGroup
	running.Go(func() { l.poll(ctx) })
	running.Go(func() { l.tidy(ctx) })
	l.follow(ctx)
	running.Wait()
	return nil
}

// Expire implements [eventlog.Log] for the memory of this process. In Redis, expired data are
// removed without it. It does not call Redis, and never fails.
func (l *Log) Expire(context.Context) error {
	for _, p := range l.products.All() {
		p.mu.Lock()
		p.expire()
		p.mu.Unlock()
	}
	return nil
}

// product returns the product with that ID, and creates it in this process if it is new. It
// does not ask Redis. The product stays for the life of the log.
func (l *Log) product(id string) *product {
	return l.products.Get(id, func() *product { return newProduct(l, id) })
}

// callTimeout is how long a call to Redis may take, including all reconnects and
// retries of the client.
const callTimeout = 3 * time.Second

// Ping returns nil if every master of Redis can be written to, and a *VersionError if a server
// is too old. It writes to keys named PREFIX:ping:N, which expire on their own.
func (l *Log) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return failed("ping", err)
	}
	keys, err := l.pingKeys(ctx, client)
	if err != nil {
		return failed("ping", err)
	}
	value := make([]byte, pingBytes)
	var writing errgroup.Group
	for _, key := range keys {
		writing.Go(func() error { return client.Set(ctx, key, value, callTimeout).Err() })
	}
	return failed("ping", writing.Wait())
}

// pingBytes is how much Ping writes, as much as a usual commit: with less memory
// free, Redis cannot take a commit.
const pingBytes = 16 << 10

// pingNames is how many keys Ping tries, to find one for each master. A master without slots has
// none.
const pingNames = 1000

// pingKeys returns a key of each master that has slots.
func (l *Log) pingKeys(ctx context.Context, client *redis.ClusterClient) ([]string, error) {
	keys := map[*redis.Client]string{}
	for i := range pingNames {
		key := fmt.Sprintf("%s:ping:%d", l.opts.Prefix, i)
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		keys[master] = key
	}
	return slices.Collect(maps.Values(keys)), nil
}

// failed names the operation that failed, and wraps err. Nil stays nil.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redislog: %s: %w", what, err)
}

// Close implements [eventlog.Log] for this process: it waits for the appends in
// flight, and accepts no more. Other processes continue; readers in this one end
// after the last entry before Close. Documents and activity can be used until
// Release.
func (l *Log) Close() error {
	l.closed.Store(true)
	for _, p := range l.products.All() {
		_ = p.commit(context.Background(), &commit{}) // waits for the commits in flight
		p.mu.Lock()
		p.tail.Close()
		p.mu.Unlock()
	}
	return nil
}

// Release closes the log and its connections. Every later call fails. Call Release last, after
// Run and the readers have ended.
func (l *Log) Release() error {
	l.client.CompareAndSwap(nil, l.newClient("")) // so that no call makes one
	return errors.Join(l.Close(), failed("release", l.client.Load().Close()))
}
