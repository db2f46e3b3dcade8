package redislog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// clock holds the difference between this process's clock and the clock of Redis, as
// last measured. local is set once, to a clock that runs as steadily as Redis's.
type clock struct {
	local func() time.Time
	ahead atomic.Int64 // nanoseconds; negative for behind
}

// Now returns the time of the clock of Redis, which IDs are taken from. That clock
// was last measured when a connection was made or, while Run is running, within the
// last second. An [eventlog.Recorder] uses this time, so that servers with
// different clocks agree.
func (l *Log) Now() time.Time { return l.clock.local().Add(-time.Duration(l.clock.ahead.Load())) }

// steady returns a clock that starts with the wall clock and that no later step of it moves: the
// difference from Redis stays as measured. Its times have no monotonic part, so their distance from
// the wall clock's shows the steps.
func steady() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Round(0).Add(time.Since(start)) }
}

// measure reads the time of Redis. Without an answer nothing changes. It stores the least
// possible difference, so that a slow answer does not make clocks differ that may agree.
func (c *clock) measure(ctx context.Context, ask func(context.Context) *redis.TimeCmd) {
	before := c.local()
	there, err := ask(ctx).Result()
	if err == nil {
		c.ahead.Store(int64(ahead(before, c.local(), there)))
	}
}

// ahead returns how far, at least, a clock is ahead of another one that was read
// between two readings of the first. It is zero if the clocks may agree.
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
