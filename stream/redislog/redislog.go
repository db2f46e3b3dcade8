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

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// Defaults of [Options].
const (
	DefaultPrefix    = "liveactivity"
	DefaultTailBytes = 16 << 20
)

// Options of a [Log]. A zero field means its default. All servers on one Redis
// must have the same Retention, MaxEvents and Prefix.
type Options struct {
	// Retention of the log and of what users did. MaxBytes, which defaults to
	// stream.DefaultLastingMaxBytes, bounds the log of each product in Redis.
	Retention stream.Retention
	MaxEvents int          // actions kept per user; activity.DefaultMaxEvents
	TailBytes int64        // most that a product's newest entries cost in this process; DefaultTailBytes
	Prefix    string       // of every key and channel in Redis, without braces; DefaultPrefix
	TLS       *tls.Config  // for rediss URLs; nil for the system's authorities
	Logger    *slog.Logger // of what goes wrong with Redis; nil for none
}

func (o *Options) withDefaults() Options {
	var set Options
	if o != nil {
		set = *o
	}
	set.Retention = set.Retention.WithDefaults(stream.DefaultLastingMaxBytes)
	if set.MaxEvents <= 0 {
		set.MaxEvents = activity.DefaultMaxEvents
	}
	if set.TailBytes <= 0 {
		set.TailBytes = DefaultTailBytes
	}
	set.Prefix = cmp.Or(set.Prefix, DefaultPrefix)
	if set.Logger == nil {
		set.Logger = slog.New(slog.DiscardHandler)
	}
	return set
}

// Log is a [stream.Log] in Redis. Its methods are safe for concurrent use.
type Log struct {
	opts     Options
	client   *redis.ClusterClient
	topology *topology

	// subscription is the number of the subscription to what other servers
	// append, zero while there is none.
	subscription  atomic.Uint64
	subscriptions uint64 // so far; of the goroutine that subscribes

	// appending is held for reading by every Append under way, and for writing
	// while closed changes.
	appending sync.RWMutex
	closed    atomic.Bool

	mu       sync.Mutex
	products map[string]*product
}

var _ stream.Log = (*Log)(nil)

// Open returns the log in the Redis at a URL. It fails for a URL or options
// that cannot be right, and does not connect: Redis may come and go at any
// time. Release frees what the log holds.
func Open(url string, opts *Options) (*Log, error) {
	o := opts.withDefaults()
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, errors.New("redislog: the prefix must not contain braces")
	}
	target, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if target.options.TLSConfig != nil && o.TLS != nil {
		config := o.TLS.Clone()
		config.ServerName = cmp.Or(config.ServerName, target.options.TLSConfig.ServerName)
		target.options.TLSConfig = config
	}
	l := &Log{opts: o, products: map[string]*product{}}
	l.topology = newTopology(target)
	l.client = newClient(target, l.topology)
	return l, nil
}

// Run follows what other servers append, until ctx ends. Then nothing of it is
// left, and it returns nil. It must run for Changed to hear of other servers;
// whatever Redis does, it goes on. Run it once.
func (l *Log) Run(ctx context.Context) error {
	l.follow(ctx)
	return nil
}

// Expire frees what is too old in the memory of this process; in Redis it goes
// by itself. Reading and appending do so too; call it now and then for products
// where nothing happens.
func (l *Log) Expire() {
	for _, p := range l.all() {
		p.expire()
	}
}

// product returns the product of that id, which begins here if it is new.
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

// all returns the products that this process has had to do with.
func (l *Log) all() []*product {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.products))
}

// callTimeout is how long a call to Redis may take, with everything that the
// client does to get through.
const callTimeout = 4 * time.Second

// Ping returns nil when every master of Redis answers, and one can be written
// to.
func (l *Log) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := l.client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.Ping(ctx).Err()
	})
	if err == nil {
		err = l.client.Set(ctx, l.opts.Prefix+":ping", "", callTimeout).Err()
	}
	return failed("ping", err)
}

// failed says what could not be done.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redislog: %s: %w", what, err)
}

// Close implements [stream.Log] for this process: it waits for the appends
// under way, and takes no more. Other processes go on, and readers here end
// with what was appended before. Documents and activity can be used until
// Release.
func (l *Log) Close() error {
	l.appending.Lock()
	l.closed.Store(true)
	l.appending.Unlock()
	for _, p := range l.all() {
		p.close()
	}
	return nil
}

// Release closes the log and its connections. Every other call fails from then
// on. It is called last, after Run and the readers have ended.
func (l *Log) Release() error {
	return errors.Join(l.Close(), failed("release", l.client.Close()))
}
