package redislog

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A server learns of other servers' appends in two ways. While it is subscribed, since the time
// in following, each append is a message, and poll asks only about products that were quiet for
// long. While it is not, poll asks about every product with readers each second. Either way
// only IDs arrive: waiting readers then fetch the entries.

const (
	// pollInterval is the interval at which Redis is asked for news while there is no subscription.
	pollInterval = time.Second
	// maxPollInterval bounds the interval during a subscription: a product that was quiet for
	// some time is asked about again after as much time, since a message may be lost between
	// the nodes of a cluster.
	maxPollInterval = 10 * time.Minute
	// subscribeRetry is the pause before the next attempt to subscribe.
	subscribeRetry = 100 * time.Millisecond
	// pingInterval is how long a subscription may be silent before it is pinged, and how long that may take.
	pingInterval = 5 * time.Second
)

// follow receives announcements of other servers' entries until ctx ends, and subscribes again
// whenever it loses the connection. It logs the loss, but not each attempt after it.
func (l *Log) follow(ctx context.Context) {
	for first := true; ctx.Err() == nil; first = false {
		err := l.listen(ctx)
		if had := l.following.Swap(nil) != nil; (had || first) && ctx.Err() == nil {
			l.opts.Logger.Log(ctx, outage.Level(err, slog.LevelWarn),
				"not subscribed to Redis; asking for news every second", "err", err)
		}
		_ = schedule.Sleep(ctx, subscribeRetry)
	}
}

// listen subscribes and receives messages until the connection fails or ctx ends. A connection
// that is silent for pingInterval is pinged, and has failed if it stays silent for as long
// again.
func (l *Log) listen(ctx context.Context) error {
	client, err := l.redis(ctx)
	if err != nil {
		return err
	}
	subscription := client.Subscribe(ctx, channel(l.opts.Prefix))
	defer context.AfterFunc(ctx, func() { _ = subscription.Close() })()
	defer subscription.Close()
	for pinged := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, pingInterval)
		if err != nil && (pinged || !isTimeout(err)) {
			return err
		}
		if pinged = err != nil; pinged {
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
		}
		switch m := message.(type) {
		case *redis.Subscription:
			l.subscribed()
		case *redis.Message:
			l.notice(m.Payload)
		}
	}
}

// isTimeout reports whether nothing arrived in time, which does not end the subscription.
func isTimeout(err error) bool {
	var failure net.Error
	return errors.As(err, &failure) && failure.Timeout()
}

// subscribed records that messages are received from now on, and wakes all readers: earlier
// messages may have been missed. No product counts as current from then on, so the readers
// ask Redis.
func (l *Log) subscribed() {
	now := time.Now()
	l.following.Store(&now)
	l.opts.Logger.Debug("subscribed to Redis")
	for _, p := range l.products.All() {
		p.mu.Lock()
		p.tail.Notify()
		p.mu.Unlock()
	}
}

// notice reads a message: the newest ID of a product, and the product's ID. After a hyphen,
// the first is the ID up to which the product was dropped. Products that this process has not
// used are ignored. A message may arrive late or not at all.
func (l *Log) notice(payload string) {
	text, productID, _ := strings.Cut(payload, " ")
	text, dropped := strings.CutPrefix(text, "-")
	id, err := eventlog.ParseID(text)
	if err != nil {
		return // it is not a message of this package
	}
	p := l.products.Known(productID)
	if p == nil {
		return
	}
	trimmedTo := eventlog.ID{}
	if dropped {
		trimmedTo = id
	}
	p.announce(id, trimmedTo)
}

// poll asks Redis for the newest IDs of the products that are due, and for its time, every
// pollInterval until ctx ends.
func (l *Log) poll(ctx context.Context) {
	for schedule.Sleep(ctx, pollInterval) == nil {
		l.measure(ctx)
		for some := range slices.Chunk(l.due(time.Now()), maxPolled) {
			l.pollOnce(ctx, some)
		}
	}
}

// maxPolled is how many products one round trip asks about.
const maxPolled = 256

// due returns the products with readers that Redis has to be asked about. While messages are received, the intervals
// double with the time that a product has been quiet, so that idle products cause hardly any
// requests.
func (l *Log) due(now time.Time) []*product {
	following := l.following.Load() != nil
	return slices.DeleteFunc(l.products.All(), func(p *product) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		quiet := min(p.checkedAt.Sub(p.news), maxPollInterval)
		return !p.watched || following && now.Sub(p.checkedAt) < quiet
	})
}

// pollOnce asks about some products in one round trip. If Redis does not answer, nothing
// changes for readers.
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
		states[i] = pipe.HMGet(ctx, p.keys.of("meta"), "newest", "floor")
	}
	_, err = pipe.Exec(ctx)
	l.reloadAfter(err)
	for i, p := range products {
		state, err := states[i].Result()
		if err != nil {
			continue
		}
		newest, errNewest := parseID(state[0])
		trimmedTo, errTrimmed := parseID(state[1])
		if errNewest == nil && errTrimmed == nil {
			p.polled(newest, trimmedTo, began)
		}
	}
}
