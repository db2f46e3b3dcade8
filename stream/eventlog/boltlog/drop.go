package boltlog

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Drop implements [eventlog.Log]. One commit hides everything; further commits, between which
// other operations can run, free the space of all dropped products. If ctx ends before that
// is done, the next Drop or Expire of any product continues.
func (l *Log) Drop(ctx context.Context, productID string, through document.Version) error {
	p := l.product(productID)
	err := l.do(ctx, func(t *transaction) (refusal, err error) {
		if l.closed.Load() {
			return eventlog.ErrClosed, nil
		}
		b, err := t.open(p, through != 0)
		if b == nil || err != nil || document.Ended(through, document.Version(b.state.Dropped)) {
			return nil, err
		}
		return nil, b.drop(through)
	})
	if err != nil {
		return err
	}
	return l.sweepDropped(ctx)
}

// drop moves everything of a product except its state to the bucket of dropped products, at a
// cost that does not depend on its size. IDs and versions continue from the state, which
// records that the generations up to through have ended. Entries added earlier in the
// transaction are dropped as well; later operations find an empty product.
func (b *batch) drop(through document.Version) error {
	dropped, err := b.t.tx.CreateBucketIfNotExists(bucketDropped)
	if err != nil {
		return err
	}
	number, err := dropped.NextSequence()
	if err != nil {
		return err
	}
	room, err := dropped.CreateBucket(binary.BigEndian.AppendUint64(nil, number))
	if err != nil {
		return err
	}
	for _, name := range productBuckets {
		if err := b.bucket.MoveBucket(name, room); err != nil {
			return err
		}
	}
	b.t.changed, b.dropped, b.keys, b.filings = true, true, map[feed.Key]bool{}, nil
	b.state = state{Born: b.state.Born, TrimmedTo: b.last, Version: b.state.Version,
		Dropped: max(b.state.Dropped, uint64(through))}
	return b.openBuckets()
}

// sweepDropped frees the space of all dropped products, in one commit per step. After an error
// the rest stays in the file, hidden, for the next call.
func (l *Log) sweepDropped(ctx context.Context) error {
	for more := true; more; {
		err := l.do(ctx, func(t *transaction) (refusal, err error) {
			more, err = t.sweepDropped()
			return nil, err
		})
		if err != nil {
			return err // more may still be written to
		}
	}
	return nil
}

// sweepCost bounds how much of a dropped product one commit frees: every key costs one, and every
// 4 KiB of its value one more.
const sweepCost = 2000

// sweepDropped frees a part of the dropped products, and reports whether there is more.
func (t *transaction) sweepDropped() (more bool, err error) {
	dropped := t.tx.Bucket(bucketDropped)
	if dropped == nil {
		return false, nil
	}
	left, err := empty(dropped, sweepCost)
	t.changed = t.changed || left < sweepCost
	return left <= 0, err
}

// empty deletes the contents of a bucket and of the buckets in it, as far as the given cost
// allows. It returns the rest of the cost, which is positive if nothing is left. The bucket
// itself stays.
func empty(b *bolt.Bucket, cost int) (rest int, err error) {
	for cost > 0 && err == nil {
		c := b.Cursor()
		k, v := c.First()
		switch child := b.Bucket(k); {
		case k == nil:
			return cost, nil
		case child == nil:
			cost -= 1 + len(v)>>12
			err = c.Delete()
		default:
			if cost, err = empty(child, cost-1); cost > 0 && err == nil {
				err = b.DeleteBucket(k)
			}
		}
	}
	return cost, err
}
