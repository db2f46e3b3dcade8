package boltlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
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
	err := d.view(productID, func(c *bolt.Cursor) error {
		var key []byte
		for i, name := range names {
			key = append(key[:0], name...)
			r, err := find(c, key)
			if err != nil {
				return err
			}
			if !r.expired(now) {
				docs[i] = r.document(name)
			}
		}
		return nil
	})
	for i, name := range names {
		docs[i].Name = name
	}
	return docs, err
}

// view calls read with the product's documents, if it has any.
func (d documents) view(productID string, read func(*bolt.Cursor) error) error {
	err := d.log.view(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(productPrefix + productID))
		if b == nil {
			return nil
		}
		return read(b.Bucket(bucketDocuments).Cursor())
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

// find returns the document's record, also of one that has expired; zero if there
// is none.
func find(c *bolt.Cursor, name []byte) (record, error) {
	// Unlike Get of the bucket, a cursor that is used again allocates nothing.
	k, v := c.Seek(name)
	if !bytes.Equal(k, name) {
		return record{}, nil
	}
	return parseRecord(name, v)
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
	err := d.view(productID, func(c *bolt.Cursor) error {
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

// checkVersions returns a conflict, or an error of the file. It leaves the
// documents as they are in m.before, those that have expired, too.
func (m *maker) checkVersions(b *buckets, o *operation) error {
	now := m.log.clock(o.product, m.now)
	m.before = slices.Grow(m.before[:0], len(o.changes))
	c := b.documents.Cursor()
	var key []byte
	for _, change := range o.changes {
		key = append(key[:0], change.Name...)
		r, err := find(c, key)
		if err != nil {
			return m.fail(err)
		}
		version := r.version
		if r.expired(now) {
			version = 0
		}
		if version != change.Prev {
			return &document.ConflictError{Name: change.Name}
		}
		m.before = append(m.before, r)
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
	p := placing{buckets: b}
	for i, c := range o.changes {
		if err := m.applyChange(&p, c, m.before[i], o.version); err != nil {
			return err
		}
	}
	return p.done()
}

// applyChange changes a document, which was like before.
func (m *maker) applyChange(p *placing, c document.Change, before record, version document.Version) error {
	m.values = append(m.values, c.Name...)
	name := m.values[len(m.values)-len(c.Name):]
	switch c.Op {
	case document.OpCheck:
		return nil
	case document.OpDelete:
		return p.remove(name, before)
	}
	until, ttl := m.until(c.TTL)
	after := record{version: version, written: uint64(version), place: before.place, ttl: ttl, until: until, value: c.Value}
	if c.Op == document.OpTouch {
		after.version, after.value = before.version, before.value
	}
	if err := p.place(name, before, &after); err != nil {
		return err
	}
	if before.version == 0 {
		p.state.documents++
	} else {
		p.state.documentBytes -= before.cost(c.Name)
	}
	p.state.documentBytes += after.cost(c.Name)
	start := len(m.values)
	m.values = after.append(m.values, name)
	return p.documents.Put(name, m.values[start:])
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

// remove removes a document, also from its place.
func (b *buckets) remove(name []byte, r record) error {
	if r.place != (place{}) {
		if err := b.leave(name, r.place); err != nil {
			return err
		}
	}
	return b.delete(name, r)
}

// delete removes a document whose place is left.
func (b *buckets) delete(name []byte, r record) error {
	b.state.documents--
	b.state.documentBytes -= r.cost(string(name))
	return b.documents.Delete(name)
}

// sweep looks at no more than n documents whose time may have come.
func (m *maker) sweep(b *buckets, o *operation, n int) error {
	now := m.log.clock(o.product, m.now)
	more := func() bool { return n > 0 }
	c := b.expiry.Cursor()
	for k, _ := c.First(); k != nil && more(); k, _ = c.First() {
		if len(k) != expirySize {
			return errMalformed
		}
		if int64(binary.BigEndian.Uint64(k)) > now.now {
			return nil
		}
		err := b.empty(k[8:], more, func(r record) bool {
			o.removed++
			n--
			return r.expired(now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// evict removes mortal documents beyond the retention's size, those written
// first before others, but none that the operation itself has written. It looks
// at no more than n, or at as many as make room for twice what was added.
func (m *maker) evict(b *buckets, o *operation, n int) error {
	limit, before := m.log.documentBytes(), b.state.documentBytes
	enough := 2 * changesCost(o.changes)
	more := func() bool {
		return b.state.documentBytes > limit && (n > 0 || before-b.state.documentBytes < enough)
	}
	c := b.places.Cursor()
	for k, _ := c.First(); k != nil && more(); k, _ = c.First() {
		at, err := parsePlace(k)
		if err != nil {
			return err
		}
		if o.version != 0 && at.written >= uint64(o.version) {
			return nil
		}
		err = b.empty(k, more, func(r record) bool {
			o.removed++
			n--
			return r.written <= at.written
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// documentBytes is the most that the documents of a product take.
func (l *Log) documentBytes() uint64 { return uint64(l.retention.StateMaxBytes / 2) }

func changesCost(changes []document.Change) (cost uint64) {
	for _, c := range changes {
		cost += record{value: c.Value}.cost(c.Name)
	}
	return cost
}
