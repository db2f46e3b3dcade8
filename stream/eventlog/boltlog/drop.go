package boltlog

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Drop implements [eventlog.Log]. One commit makes everything disappear at once;
// those after it, between which others have their turn, free the room. When ctx
// ends before, Expire goes on, or Drop when it is called again.
func (l *Log) Drop(ctx context.Context, productID string) error {
	if err := l.do(ctx, &operation{product: l.product(productID), appends: true, drops: true}); err != nil {
		return err
	}
	return l.sweepDropped(ctx)
}

// sweepDropped frees the room of everything dropped, in steps.
func (l *Log) sweepDropped(ctx context.Context) error {
	for {
		o := &operation{sweeps: true}
		if err := l.do(ctx, o); err != nil || !o.more {
			return err
		}
	}
}

// dropAll moves everything of a product but what IDs and versions go on from to
// the bucket of what is dropped.
func (m *maker) dropAll(b *buckets, o *operation) error {
	newest, err := lastOf(b.log.Cursor().Last())
	if err != nil {
		return err
	}
	if newest != (eventlog.ID{}) {
		b.state.trimmedTo, o.dropped.trimmedTo = newest, newest
	}
	all, err := m.tx.CreateBucketIfNotExists(bucketDropped)
	if err != nil {
		return err
	}
	number, err := all.NextSequence()
	if err != nil {
		return err
	}
	room, err := all.CreateBucket(binary.BigEndian.AppendUint64(nil, number))
	if err != nil {
		return err
	}
	for _, name := range productBuckets {
		if err := b.product.MoveBucket(name, room); err != nil {
			return err
		}
		if _, err := b.product.CreateBucket(name); err != nil {
			return err
		}
	}
	b.open()
	p := o.product
	o.dropped.entries, o.dropped.bytes, o.dropped.all = int(b.state.entries), p.bytes, p.keys
	p.keys, p.bytes = map[activity.Key]struct{}{}, 0
	b.state.entries, b.state.documents, b.state.documentBytes = 0, 0, 0
	return nil
}

// Bounds of what one commit frees of what is dropped.
const (
	sweepStep  = 1000    // entries, documents and places
	sweepBytes = 4 << 20 // of their values; exceeded by one at most
)

// sweepDropped frees a bounded part of what is dropped, and reports whether there
// is more.
func sweepDropped(tx *bolt.Tx) (more bool, err error) {
	all := tx.Bucket(bucketDropped)
	if all == nil {
		return false, nil
	}
	k, _ := all.Cursor().First()
	if k == nil {
		return false, nil
	}
	room := all.Bucket(k)
	name, _ := room.Cursor().First()
	if name == nil {
		return true, all.DeleteBucket(k)
	}
	c, bytes := room.Bucket(name).Cursor(), 0
	for range sweepStep {
		k, v := c.First()
		if k == nil {
			return true, room.DeleteBucket(name)
		}
		bytes += len(v)
		if err := c.Delete(); err != nil || bytes >= sweepBytes {
			return true, err
		}
	}
	return true, nil
}
