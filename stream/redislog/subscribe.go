package redislog

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/stream"
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
func (l *Log) notice(payload string) {
	text, productID, ok := strings.Cut(payload, " ")
	id, err := stream.ParseID(text)
	if !ok || err != nil {
		return // it is nobody's of this package
	}
	l.mu.Lock()
	p := l.products[productID]
	l.mu.Unlock()
	if p != nil {
		p.hear(id)
	}
}
