package redislog

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// pulse is how long the subscription may be silent before it is asked whether
// it is still there, and how long the answer may take.
const pulse = 2 * time.Second

// Pauses before subscribing again: the first, and the longest.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// follow keeps a subscription until ctx ends.
func (l *Log) follow(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		before := l.subscriptions
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		l.lost(err)
		if l.subscriptions != before {
			l.opts.Logger.Warn("lost the subscription to Redis", "err", err)
			pause = firstPause
		} else if pause == firstPause {
			l.opts.Logger.Warn("cannot subscribe to Redis", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

var errSilent = errors.New("redislog: the subscription does not answer")

// listen subscribes and passes on what it hears. It returns why it ended.
func (l *Log) listen(ctx context.Context) error {
	sub := l.client.Subscribe(ctx, channel(l.opts.Prefix))
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	defer l.subscription.Store(0)
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(ctx, pulse)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
		case !errors.As(err, &timeout) || !timeout.Timeout():
			return err
		case asked:
			return errSilent
		default:
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			asked = true
		}
		switch m := message.(type) {
		case *redis.Subscription:
			l.subscribed()
		case *redis.Message:
			l.notice(m.Payload)
		}
	}
}

// subscribed wakes everybody: nobody knows what was published before.
func (l *Log) subscribed() {
	l.subscriptions++
	l.subscription.Store(l.subscriptions)
	if l.subscriptions > 1 {
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
		return // it is nobody's of this package
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
	p.hear(id)
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

// watched returns the products that somebody has waited for.
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
	pipe := l.client.Pipeline()
	states := make([]*redis.SliceCmd, len(products))
	for i, p := range products {
		states[i] = pipe.HMGet(ctx, p.keys.meta, "newest", "floor")
	}
	_, _ = pipe.Exec(ctx) // every command has its own error
	for i, p := range products {
		state, err := states[i].Result()
		if err != nil {
			continue
		}
		newest, errNewest := parseID(state[0])
		floor, errFloor := parseID(state[1])
		if errNewest == nil && errFloor == nil {
			p.dropUpTo(floor)
			p.hear(newest)
		}
	}
}
