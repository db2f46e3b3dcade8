package redislog

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// follow hears what other servers append until ctx ends. The client subscribes
// again by itself whenever it loses the connection.
func (l *Log) follow(ctx context.Context) {
	client := l.await(ctx)
	if client == nil {
		return
	}
	subscription := client.Subscribe(ctx, channel(l.opts.Prefix))
	defer context.AfterFunc(ctx, func() { _ = subscription.Close() })()
	defer l.following.Store(false)
	for message := range subscription.ChannelWithSubscriptions() {
		switch m := message.(type) {
		case *redis.Subscription:
			l.subscribed()
		case *redis.Message:
			l.notice(m.Payload)
		}
	}
}

// await returns the client as soon as there is one, or nil when ctx has ended.
func (l *Log) await(ctx context.Context) *redis.ClusterClient {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for logged := false; ; {
		client, err := l.redis(ctx)
		if err == nil || ctx.Err() != nil {
			return client
		}
		if !logged {
			l.opts.Logger.Warn("cannot subscribe to Redis", "err", err)
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// subscribed wakes all readers: what was published before is unknown.
func (l *Log) subscribed() {
	if l.following.Swap(true) {
		l.opts.Logger.Info("subscribed to Redis again")
	}
	for _, p := range l.all() {
		p.wake()
	}
}

// notice reads a message: the newest ID of a product, and the product's id.
// After a hyphen it is the newest ID that was dropped.
func (l *Log) notice(payload string) {
	text, productID, _ := strings.Cut(payload, " ")
	text, dropped := strings.CutPrefix(text, "-")
	id, err := eventlog.ParseID(text)
	if err != nil {
		return // it is not a message of this package
	}
	l.mu.Lock()
	p := l.products[productID]
	l.mu.Unlock()
	if p == nil {
		return
	}
	if dropped {
		p.dropUpTo(id)
	}
	p.announce(id)
}

// pollInterval is how long a reader waits for an entry whose message is lost.
const pollInterval = time.Second

// poll asks Redis for the newest IDs of all products that readers wait for,
// again and again until ctx ends.
func (l *Log) poll(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.measure(ctx)
		for some := range slices.Chunk(l.watched(), maxPolled) {
			l.pollOnce(ctx, some)
		}
	}
}

// maxPolled is how many products one round trip asks about.
const maxPolled = 256

// watched returns the products that readers have waited for.
func (l *Log) watched() []*product {
	return slices.DeleteFunc(l.all(), func(p *product) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.watched
	})
}

// pollOnce asks about some products. Where Redis does not answer, readers do
// not learn anything either.
func (l *Log) pollOnce(ctx context.Context, products []*product) {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return
	}
	began, pipe := time.Now(), client.Pipeline()
	states := make([]*redis.SliceCmd, len(products))
	for i, p := range products {
		states[i] = pipe.HMGet(ctx, p.keys.meta, "newest", "floor")
	}
	_, err = pipe.Exec(ctx)
	l.lost(err)
	for i, p := range products {
		state, err := states[i].Result()
		if err != nil {
			continue
		}
		newest, errNewest := parseID(state[0])
		trimmedTo, errTrimmed := parseID(state[1])
		if errNewest == nil && errTrimmed == nil {
			p.dropUpTo(trimmedTo)
			p.polled(newest, began)
		}
	}
}
