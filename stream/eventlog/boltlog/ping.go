package boltlog

import "context"

// probeBytes is as much as an append takes: an entry of common size, and the pages that bbolt
// writes anew for it.
const probeBytes = 256 << 10

// keyProbe is the key in bucketFormat that Ping writes.
var keyProbe = []byte("probe")

// Ping implements [eventlog.Log], by writing as much as an append takes, for which a file that
// cannot grow may have no room. Every call writes. It returns when ctx ends, whatever the disk
// does.
func (l *Log) Ping(ctx context.Context) error {
	return l.do(ctx, func(t *transaction) (refusal, err error) {
		t.changed = true
		return nil, t.tx.Bucket(bucketFormat).Put(keyProbe, make([]byte, probeBytes))
	})
}
