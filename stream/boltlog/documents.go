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
	now := time.Now().UnixMilli()
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

// document returns the record as a document with memory of its own.
func (r record) document(name string) document.Document {
	return document.Document{Name: name, Version: r.version, Value: bytes.Clone(r.value)}
}

// find returns the document's record, zero if there is none.
func find(b *bolt.Bucket, name string, now int64) (record, error) {
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
func (d documents) Write(_ context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if err := document.Validate(changes); err != nil {
		return 0, err
	}
	o := &operation{product: d.log.product(productID), changes: changes}
	if err := d.log.do(o); err != nil {
		return 0, err
	}
	return o.version, nil
}

// List implements [document.Store].
func (d documents) List(_ context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	docs := []document.Document{}
	now := time.Now().UnixMilli()
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
func (m *maker) checkVersions(b *buckets, changes []document.Change) error {
	now := m.now.UnixMilli()
	for _, c := range changes {
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
	after := record{version: version, until: m.until(c.TTL), indexed: before.indexed, value: c.Value}
	if c.Op == document.OpTouch {
		after.version, after.value = before.version, before.value
	}
	if err := b.index(c.Name, &after); err != nil {
		return err
	}
	if before.version == 0 {
		b.state.documents++
	}
	return b.documents.Put(name, after.encode(name))
}

// until returns when a time to live that starts now is over, in milliseconds.
func (m *maker) until(ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	return m.now.Add(ttl).Add(time.Millisecond - 1).UnixMilli()
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

func (b *buckets) remove(name []byte, r record) error {
	if r.indexed != 0 {
		if err := b.expiry.Delete(expiryKey(r.indexed, string(name))); err != nil {
			return err
		}
	}
	b.state.documents--
	return b.documents.Delete(name)
}

// sweep looks at no more than n documents whose time may have come.
func (m *maker) sweep(b *buckets, o *operation, n int) error {
	now := m.now.UnixMilli()
	c := b.expiry.Cursor()
	for k, _ := c.First(); k != nil && n > 0; k, _ = c.First() {
		if len(k) < 8 {
			return errMalformed
		}
		if int64(binary.BigEndian.Uint64(k)) > now {
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
func (b *buckets) sweepOne(name, place []byte, now int64) error {
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
