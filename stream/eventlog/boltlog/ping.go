package boltlog

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ping is what Ping found last.
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

var keyProbe = []byte("probe")

// Ping implements [eventlog.Log], by writing as much as an append
// takes, which a file that cannot grow may have no room for. It does so every few
// seconds and after a failure; calls between have the answer of the last. It
// returns when ctx ends, whatever the disk does.
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
	err := l.write(ctx)
	if err != nil && ctx.Err() != nil { // the result belongs to this caller only
		l.failed.Store(true)
		return err
	}
	l.ping.err, l.ping.at = err, time.Now()
	return err
}

// write writes something and removes it again: its room is there for others.
func (l *Log) write(ctx context.Context) error {
	for _, value := range [][]byte{make([]byte, probeBytes), {}} {
		if err := l.do(ctx, &operation{probe: value}); err != nil {
			return err
		}
	}
	return nil
}

// probe makes the last of the operations that are Ping's.
func probe(tx *bolt.Tx, ops []*operation) error {
	for _, o := range ops {
		switch b := tx.Bucket(bucketFormat); {
		case o.probe == nil:
		case len(o.probe) == 0:
			return b.Delete(keyProbe)
		default:
			return b.Put(keyProbe, o.probe)
		}
	}
	return nil
}
