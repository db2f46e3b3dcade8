package redislog

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Stats implements [eventlog.Log].
func (l *Log) Stats() map[string]eventlog.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), networkTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return nil
	}
	products := l.all()
	lengths, states := make([]*redis.IntCmd, len(products)), make([]*redis.SliceCmd, len(products))
	pipe := client.Pipeline()
	for i, p := range products {
		lengths[i] = pipe.XLen(ctx, p.keys.log)
		states[i] = pipe.HMGet(ctx, p.keys.meta, "bytes", "dropped")
	}
	_, _ = pipe.Exec(ctx) // every command has its own error
	all := make(map[string]eventlog.Stats, len(products))
	for i, p := range products {
		length, err := lengths[i].Result()
		if err != nil || states[i].Err() != nil {
			continue
		}
		s := eventlog.Stats{Entries: int(length), Dropped: number(states[i].Val()[1])}
		if length > 0 { // else they have expired and are not counted yet
			s.Bytes = number(states[i].Val()[0])
		}
		all[p.id] = s
	}
	return all
}

// Storage implements [eventlog.Log].
func (l *Log) Storage(ctx context.Context, productID string) (eventlog.Storage, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return eventlog.Storage{}, failed("storage", err)
	}
	k := keysOf(l.opts.Prefix, productID)
	pipe := client.Pipeline()
	length := pipe.XLen(ctx, k.log)
	sizes := pipe.HMGet(ctx, k.meta, "bytes", "docs", "acts")
	if _, err := pipe.Exec(ctx); err != nil {
		return eventlog.Storage{}, failed("storage", err)
	}
	s := eventlog.Storage{Engine: "redis", LogMaxBytes: l.opts.Retention.MaxBytes, StateMaxBytes: l.opts.Retention.StateMaxBytes,
		StateBytes: number(sizes.Val()[1]) + number(sizes.Val()[2])}
	if length.Val() > 0 { // else the entries have expired and are not counted yet
		s.LogBytes = number(sizes.Val()[0])
	}
	return s, nil
}

// number reads a number of a reply; what is none counts as zero.
func number(value any) int64 {
	text, _ := value.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
