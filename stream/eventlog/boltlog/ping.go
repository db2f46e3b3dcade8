package boltlog

import "context"

// probeBytes is as much as an append takes: an entry of the usual size, and the pages that
// bbolt rewrites for it.
const probeBytes = 256 << 10

// keyProbe is the key in bucketFormat that Ping writes.
var keyProbe = []byte("probe")

// Ping implements [eventlog.Log], by writing as much as an append takes, which may fail if the
// file cannot grow. Every call writes. It returns when ctx ends, even if the disk hangs.
func (l *Log) Ping(ctx context.Context) error {
	return l.do(ctx, func(t *transaction) (refusal, err error) {
		t.changed = true
		return nil, t.tx.Bucket(bucketFormat).Put(keyProbe, make([]byte, probeBytes))
	})
}
