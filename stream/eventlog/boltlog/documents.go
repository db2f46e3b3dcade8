package boltlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
)

// documents is the [document.Store] in the file.
type documents struct{ log *Log }

// Get implements [document.Store].
func (d documents) Get(_ context.Context, productID string, names ...string) ([]document.Document, error) {
	docs := make([]document.Document, len(names))
	now := d.log.clock(d.log.product(productID), time.Now())
	err := d.view(productID, func(b *bolt.Bucket) error {
		for i, name := range names {
			r, err := find(b, name, now)
			if err != nil {
				return err
			}
			docs[i] = r.document(name)
		}
		return nil
	})
	for i, name := range names {
		docs[i].Name = name
	}
	return docs, err
}

// view calls read with the product's documents, if it has any.
func (d documents) view(productID string, read func(*bolt.Bucket) error) error {
	err := d.log.view(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(productPrefix + productID))
		if b == nil {
			return nil
		}
		return read(b.Bucket(bucketDocuments))
	})
	if err != nil {
		return fmt.Errorf("boltlog: read documents: %w", err)
	}
	return nil
}

// document returns the record as a document that shares no memory.
func (r record) document(name string) document.Document {
	return document.Document{Name: name, Version: r.version, Value: bytes.Clone(r.value)}
}

// find returns the document's record, zero if there is none.
func find(b *bolt.Bucket, name string, now clock) (record, error) {
	v := b.Get([]byte(name))
	if v == nil {
		return record{}, nil
	}
	r, err := parseRecord([]byte(name), v)
	if err != nil || r.expired(now) {
		return record{}, err
	}
	return r, nil
}

// Write implements [document.Store].
func (d documents) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if err := document.Validate(changes); err != nil {
		return 0, err
	}
	o := &operation{product: d.log.product(productID), changes: cloneChanges(changes)}
	if err := d.log.do(ctx, o); err != nil {
		return 0, err
	}
	return o.version, nil
}

// List implements [document.Store].
func (d documents) List(_ context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	docs := []document.Document{}
	now := d.log.clock(d.log.product(productID), time.Now())
	err := d.view(productID, func(b *bolt.Bucket) error {
		c := b.Cursor()
		for k, v := c.Seek([]byte(max(prefix, after))); k != nil && bytes.HasPrefix(k, []byte(prefix)) && len(docs) < limit; k, v = c.Next() {
			r, err := parseRecord(k, v)
			if err != nil {
				return err
			}
			if string(k) != after && !r.expired(now) {
				docs = append(docs, r.document(string(k)))
			}
		}
		return nil
	})
	return docs, err
}

// checkVersions returns a conflict, or an error of the file.
func (m *maker) checkVersions(b *buckets, o *operation) error {
	now := m.log.clock(o.product, m.now)
	for _, c := range o.changes {
		r, err := find(b.documents, c.Name, now)
		if err != nil {
			return m.fail(err)
		}
		if r.version != c.Prev {
			return &document.ConflictError{Name: c.Name}
		}
	}
	return nil
}

// applyChanges makes the operation's changes, whose versions were checked.
func (m *maker) applyChanges(b *buckets, o *operation) error {
	if len(o.changes) == 0 {
		return nil
	}
	version, err := b.product.NextSequence()
	if err != nil {
		return err
	}
	o.version = document.Version(version)
	for _, c := range o.changes {
		if err := m.applyChange(b, c, o.version); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) applyChange(b *buckets, c document.Change, version document.Version) error {
	if c.Op == document.OpCheck {
		return nil
	}
	name := []byte(c.Name)
	var before record // also one that has expired, for its place in the index
	if v := b.documents.Get(name); v != nil {
		before, _ = parseRecord(name, v) // it was parsed when its version was checked
	}
	if c.Op == document.OpDelete {
		return b.remove(name, before)
	}
	until, ttl := m.until(c.TTL)
	after := record{version: version, written: uint64(version), ordered: before.ordered, ttl: ttl, until: until,
		indexed: before.indexed, value: c.Value}
	if c.Op == document.OpTouch {
		after.version, after.value = before.version, before.value
	}
	if err := b.index(c.Name, &after); err != nil {
		return err
	}
	if err := b.order(c.Name, &after); err != nil {
		return err
	}
	if before.version == 0 {
		b.state.documents++
	} else {
		b.state.documentBytes -= before.cost(c.Name)
	}
	b.state.documentBytes += after.cost(c.Name)
	return b.documents.Put(name, after.encode(name))
}

// clock returns by what time the product's documents expire.
func (l *Log) clock(p *product, now time.Time) clock {
	return clock{now: now.UnixMilli(), opened: l.opened.UnixMilli(), newest: p.written}
}

// until returns when a time to live that starts now is over, and the whole
// milliseconds until then; zeros mean no expiry.
func (m *maker) until(ttl time.Duration) (until, left int64) {
	if ttl == 0 {
		return 0, 0
	}
	until = m.now.Add(ttl).Add(time.Millisecond - 1).UnixMilli()
	return until, until - m.now.UnixMilli()
}

// index makes sure that the expiry bucket leads to a document not later than
// it expires. A place that is too early does no harm, and saves moving the
// document with every write.
func (b *buckets) index(name string, r *record) error {
	if r.indexed != 0 && r.until != 0 && r.indexed <= r.until {
		return nil
	}
	if r.indexed != 0 {
		if err := b.expiry.Delete(expiryKey(r.indexed, name)); err != nil {
			return err
		}
	}
	if r.indexed = r.until; r.until == 0 {
		return nil
	}
	return b.expiry.Put(expiryKey(r.indexed, name), []byte{})
}

// order makes sure that the order bucket leads to a document that is mortal, and
// to no other. A place that is too early does no harm there either.
func (b *buckets) order(name string, r *record) error {
	switch mortal := r.until != 0; {
	case mortal == (r.ordered != 0):
		return nil
	case mortal:
		r.ordered = r.written
		return b.written.Put(orderKey(r.ordered, name), []byte{})
	default:
		place := orderKey(r.ordered, name)
		r.ordered = 0
		return b.written.Delete(place)
	}
}

func (b *buckets) remove(name []byte, r record) error {
	if r.ordered != 0 {
		if err := b.written.Delete(orderKey(r.ordered, string(name))); err != nil {
			return err
		}
	}
	if r.indexed != 0 {
		if err := b.expiry.Delete(expiryKey(r.indexed, string(name))); err != nil {
			return err
		}
	}
	b.state.documents--
	b.state.documentBytes -= r.cost(string(name))
	return b.documents.Delete(name)
}

// sweep looks at no more than n documents whose time may have come.
func (m *maker) sweep(b *buckets, o *operation, n int) error {
	now := m.log.clock(o.product, m.now)
	c := b.expiry.Cursor()
	for k, _ := c.First(); k != nil && n > 0; k, _ = c.First() {
		if len(k) < 8 {
			return errMalformed
		}
		if int64(binary.BigEndian.Uint64(k)) > now.now {
			return nil
		}
		if err := b.sweepOne(bytes.Clone(k[8:]), bytes.Clone(k), now); err != nil {
			return err
		}
		o.removed++
		n--
	}
	return nil
}

// sweepOne removes a document that has expired, and moves one that has not in
// the expiry bucket.
func (b *buckets) sweepOne(name, place []byte, now clock) error {
	v := b.documents.Get(name)
	if v == nil {
		return b.expiry.Delete(place)
	}
	r, err := parseRecord(name, v)
	if err != nil {
		return err
	}
	if r.expired(now) {
		return b.remove(name, r)
	}
	r.value = bytes.Clone(r.value)
	if err := b.expiry.Delete(place); err != nil {
		return err
	}
	r.indexed = 0
	if err := b.index(string(name), &r); err != nil {
		return err
	}
	return b.documents.Put(name, r.encode(name))
}

// evict removes mortal documents beyond the retention's size, those written
// first before others, but none that the operation itself has written. It looks
// at no more than n, or at as many as make room for twice what was added.
func (m *maker) evict(b *buckets, o *operation, n int) error {
	limit, before := m.log.documentBytes(), b.state.documentBytes
	enough := 2 * changesCost(o.changes)
	c := b.written.Cursor()
	for k, _ := c.First(); k != nil && b.state.documentBytes > limit; k, _ = c.First() {
		if len(k) < 8 {
			return errMalformed
		}
		written := binary.BigEndian.Uint64(k)
		if o.version != 0 && written >= uint64(o.version) || n <= 0 && before-b.state.documentBytes >= enough {
			return nil
		}
		if err := b.evictOne(bytes.Clone(k[8:]), written); err != nil {
			return err
		}
		o.removed++
		n--
	}
	return nil
}

// evictOne removes the document at a place in the order bucket. One that was
// written again since moves to the place of its last write.
func (b *buckets) evictOne(name []byte, place uint64) error {
	v := b.documents.Get(name)
	if v == nil {
		return errMalformed
	}
	r, err := parseRecord(name, v)
	if err != nil {
		return err
	}
	if r.written <= place {
		return b.remove(name, r)
	}
	r.value = bytes.Clone(r.value)
	if err := b.written.Delete(orderKey(place, string(name))); err != nil {
		return err
	}
	r.ordered = 0
	if err := b.order(string(name), &r); err != nil {
		return err
	}
	return b.documents.Put(name, r.encode(name))
}

// documentBytes is the most that the documents of a product take.
func (l *Log) documentBytes() uint64 { return uint64(l.retention.StateMaxBytes / 2) }

func changesCost(changes []document.Change) (cost uint64) {
	for _, c := range changes {
		cost += record{value: c.Value}.cost(c.Name)
	}
	return cost
}
