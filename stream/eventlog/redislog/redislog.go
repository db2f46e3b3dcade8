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
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// Defaults of [Options].
const (
	DefaultPrefix    = "liveactivity"
	DefaultTailBytes = 8 << 20
)

// Options of a [Log]. A zero field means its default. All servers on one Redis
// must have the same Retention, MaxEvents and Prefix.
type Options struct {
	// Retention of the log and of users' actions. MaxBytes, which defaults to
	// eventlog.DefaultLastingMaxBytes, bounds the log of each product in Redis;
	// TotalBytes the cost of all products' newest entries in this process together.
	Retention eventlog.Retention
	MaxEvents int          // actions kept per user; recent.DefaultMaxEvents
	TailBytes int64        // most that a product's newest entries cost in this process; DefaultTailBytes
	Prefix    string       // of every key and channel in Redis, without braces; DefaultPrefix
	TLS       *tls.Config  // for rediss URLs; nil for the system's authorities
	Logger    *slog.Logger // of failures of Redis; slog.Default() for nil
}

// withDefaults returns a copy of the options, nil for none, with their zero fields set. It adds
// the mistakes to wrong.
func (o *Options) withDefaults(wrong *options.Mistakes) Options {
	var set Options
	if o != nil {
		set = *o
	}
	var err error
	set.Retention, err = engine.WithDefaults(set.Retention,
		eventlog.DefaultLastingMaxBytes, eventlog.DefaultLastingStateMaxBytes)
	wrong.Add(err)
	set.MaxEvents = options.Default(wrong, "MaxEvents", set.MaxEvents, recent.DefaultMaxEvents)
	set.TailBytes = options.Default(wrong, "TailBytes", set.TailBytes, DefaultTailBytes)
	wrong.Require(!strings.ContainsAny(set.Prefix, "{}"), "Prefix", "must not contain braces")
	set.Prefix = cmp.Or(set.Prefix, DefaultPrefix)
	if set.Logger == nil {
		set.Logger = slog.Default()
	}
	return set
}

// Log is an [eventlog.Log] in Redis. Its methods are safe for concurrent use.
//
// mu guards products, to which a product is added when it is first asked for and from which
// none is removed. It is never held together with a product's lock.
type Log struct {
	opts   Options
	target target
	client atomic.Pointer[redis.ClusterClient] // see redis
	clock  clock

	following atomic.Pointer[time.Time] // messages of other servers are received since then; nil for not
	closed    atomic.Bool               // no commit that begins now appends

	complained atomic.Int64 // in Unix nanoseconds: when a failure to connect was logged last

	shares *fair.Shares[*product] // of the bytes of all tails

	mu       sync.Mutex
	products map[string]*product
}

var _ eventlog.Log = (*Log)(nil)

// Open returns the log in the Redis at a URL. It fails for a URL or options
// that cannot be right, and does not connect: Redis may be unavailable at any
// time. It reports all invalid arguments at once. Release frees it.
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
	return &Log{opts: o, target: target, clock: clock{local: time.Now},
		shares: fair.NewShares[*product](o.Retention.TotalBytes), products: map[string]*product{}}, nil
}

// Run implements [eventlog.Log]. It hears of other servers' entries, removes expired data from
// Redis, and survives any failure of Redis. Nothing has to be read back. While it does not run,
// a read at the end of a log asks Redis, and a reader that waits hears of this process's
// entries only.
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

// Expire implements [eventlog.Log] for the memory of this process. In Redis, expired data go by
// themselves. It asks Redis nothing and never fails.
func (l *Log) Expire(context.Context) error {
	for _, p := range l.all() {
		p.mu.Lock()
		p.expire()
		p.mu.Unlock()
	}
	return nil
}

// product returns the product of that ID, which begins here if it is new. Redis is not asked.
// The product stays for the life of the log.
func (l *Log) product(id string) *product {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = newProduct(l, id)
		l.products[id] = p
	}
	return p
}

// all returns the products that this process has had to do with, in no order.
func (l *Log) all() []*product {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.products))
}

// callTimeout is how long a call to Redis may take, with everything that the
// client does to get through.
const callTimeout = 3 * time.Second

// Ping returns nil when every master of Redis can be written to. A server that is too old is a
// *VersionError. It writes to keys named PREFIX:ping:N, which expire by themselves.
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

// pingBytes is how much Ping writes, as much as a usual commit: where there is
// room for less, nothing can be written.
const pingBytes = 16 << 10

// pingNames is among how many keys Ping looks for one of each master. A master without slots has
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

// Close implements [eventlog.Log] for this process: it waits for the appends
// in flight, and accepts no more. Other processes go on, and readers here end
// with the last entry before. Documents and activity can be used until
// Release.
func (l *Log) Close() error {
	l.closed.Store(true)
	for _, p := range l.all() {
		_ = p.commit(context.Background(), &commit{}) // those in flight come first
		p.mu.Lock()
		p.close()
		p.mu.Unlock()
	}
	return nil
}

// Release closes the log and its connections. Every other call fails from then on. It is called
// last, after Run and the readers have ended.
func (l *Log) Release() error {
	l.client.CompareAndSwap(nil, l.newClient("")) // so that no call makes one
	return errors.Join(l.Close(), failed("release", l.client.Load().Close()))
}
