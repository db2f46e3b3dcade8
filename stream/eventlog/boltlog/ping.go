package boltlog

import (
	"context"
	"fmt"
	"time"
)

// ping is the last finding of Ping. A finding holds for pingRetry in any case, so that many
// callers cost no more than one, and for pingEvery if neither it nor a commit since was a
// failure.
type ping struct {
	turn chan struct{} // of capacity 1; its holder may use the rest
	at   time.Time
	err  error
}

const (
	pingEvery  = 5 * time.Second // while nothing fails
	pingRetry  = time.Second     // while something does
	probeBytes = 256 << 10       // of an entry of common size, and the pages that bbolt writes anew for it
)

// keyProbe is the key in bucketFormat that probe writes.
var keyProbe = []byte("probe")

// Ping implements [eventlog.Log], by writing as much as an append takes, for which a file that
// cannot grow may have no room. It does so every few seconds and after a failure; calls between
// return the last finding. It returns when ctx ends, whatever the disk does; the next call then
// writes again.
func (l *Log) Ping(ctx context.Context) error {
	select {
	case l.ping.turn <- struct{}{}:
		defer func() { <-l.ping.turn }()
	case <-ctx.Done():
		return fmt.Errorf("boltlog: ping: %w", ctx.Err())
	}
	age := time.Since(l.ping.at)
	if age < pingRetry || age < pingEvery && l.ping.err == nil && !l.failed.Load() {
		return l.ping.err
	}
	l.failed.Store(false)
	err := l.probe(ctx)
	if err != nil && ctx.Err() != nil { // the result belongs to this caller only
		l.failed.Store(true)
		return err
	}
	l.ping.err, l.ping.at = err, time.Now()
	return err
}

// probe writes something and removes it again, which leaves its room for others. If it fails
// between the two, the next probe writes over it.
func (l *Log) probe(ctx context.Context) error {
	err := l.do(ctx, func(t *transaction) (refusal, err error) {
		t.changed = true
		return nil, t.tx.Bucket(bucketFormat).Put(keyProbe, make([]byte, probeBytes))
	})
	if err != nil {
		return err
	}
	return l.do(ctx, func(t *transaction) (refusal, err error) {
		t.changed = true
		return nil, t.tx.Bucket(bucketFormat).Delete(keyProbe)
	})
}
