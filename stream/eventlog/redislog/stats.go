package redislog

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Stats implements [eventlog.Log], in one round trip. It is empty while Redis cannot be
// reached. Users is always zero.
func (l *Log) Stats() map[string]eventlog.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), networkTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return nil
	}
	products := l.products.All()
	all := make(map[string]eventlog.Stats, len(products))
	figures := make([]func() (figures, error), len(products))
	pipe := client.Pipeline()
	for i, p := range products {
		figures[i] = askFigures(ctx, pipe, p.keys)
	}
	_, _ = pipe.Exec(ctx) // every command has its own error
	for i, p := range products {
		if f, err := figures[i](); err == nil {
			all[p.id] = eventlog.Stats{Entries: int(f.entries), Bytes: f.log, Dropped: f.dropped}
		}
	}
	return all
}

// Storage implements [eventlog.Log]. The sizes are the sums that the scripts keep in meta, in
// bytes of the memory of Redis; expired data count until the sums are recomputed.
func (l *Log) Storage(ctx context.Context, productID string) (eventlog.Storage, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, err := l.redis(ctx)
	if err != nil {
		return eventlog.Storage{}, failed("storage", err)
	}
	pipe := client.Pipeline()
	answer := askFigures(ctx, pipe, keysOf(l.opts.Prefix, productID))
	_, _ = pipe.Exec(ctx) // every command has its own error
	f, err := answer()
	r := l.opts.Retention
	return eventlog.Storage{Engine: "redis", LogBytes: f.log, LogMaxBytes: r.MaxBytes,
		StateBytes: f.state, StateMaxBytes: r.StateMaxBytes}, failed("storage", err)
}

// figures are counts of a product, in bytes except for entries and dropped.
type figures struct{ entries, log, state, dropped int64 }

// askFigures asks for a product's figures. The function that it returns has the answer once
// the pipeline was executed. The pipeline is not a transaction: the figures may be from two
// instants.
func askFigures(ctx context.Context, pipe redis.Pipeliner, k keys) func() (figures, error) {
	entries, sizes := pipe.XLen(ctx, k.of("log")), pipe.HMGet(ctx, k.of("meta"), "bytes", "docs", "acts", "dropped")
	return func() (figures, error) {
		if err := errors.Join(entries.Err(), sizes.Err()); err != nil {
			return figures{}, err
		}
		v := sizes.Val()
		f := figures{entries.Val(), number(v[0]), number(v[1]) + number(v[2]), number(v[3])}
		if f.entries == 0 { // they have expired, but the sum still has them
			f.log = 0
		}
		return f, nil
	}
}

// number parses an integer from a reply. Anything else is zero.
func number(value any) int64 {
	text, _ := value.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
