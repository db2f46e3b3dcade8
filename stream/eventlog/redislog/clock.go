package redislog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clock holds the difference between this process's clock and the one of Redis. The last
// measurement counts. local is set once.
type clock struct {
	local func() time.Time
	ahead atomic.Int64 // nanoseconds; negative for behind
}

// Now returns the time by the clock of Redis, which gives entries their IDs, as
// it was found when a connection was made or, while Run does, within the last
// second. A [eventlog.Recorder] goes by it, so that servers whose clocks differ
// are one.
func (l *Log) Now() time.Time {
	return l.clock.local().Add(-time.Duration(l.clock.ahead.Load()))
}

// measure reads the time of Redis. Without an answer nothing changes. The difference found is
// the least possible one: a slow answer makes no clock differ that may agree.
func (c *clock) measure(ctx context.Context, ask func(context.Context) *redis.TimeCmd) {
	before := c.local()
	there, err := ask(ctx).Result()
	if err == nil {
		c.ahead.Store(int64(ahead(before, c.local(), there)))
	}
}

// ahead returns by how much a clock must be ahead of another one, which was read
// between two readings of its own: zero where they may agree.
func ahead(before, after, there time.Time) time.Duration {
	switch {
	case there.Before(before):
		return before.Sub(there)
	case there.After(after):
		return after.Sub(there)
	}
	return 0
}

// measure measures the clock of any node, within networkTimeout.
func (l *Log) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	if client, err := l.redis(ctx); err == nil {
		l.clock.measure(ctx, client.Time)
	}
}
