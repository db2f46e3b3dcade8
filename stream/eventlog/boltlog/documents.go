package boltlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
)

// documents is the [document.Store] in the file. Reads go to the file and see the last commit;
// memory holds no documents. An expired document is hidden immediately, and removed by a later
// transaction of its product.
//
// Two buckets belong together. A document with a time to live has one key in the due bucket,
// its place. Transactions go through the places in the order of the keys to find documents to
// remove. A place may be too early, but never too late, so a renewal does not move it:
//
//	put                    record and place at until
//	renewed, until grows   the place stays: the next look comes too early
//	review, due < until    the place moves to until
//	review, due = until    record and place are removed, unless the document stays
type documents struct{ log *Log }

// Get implements [document.Store]. All documents are from one transaction of the file.
func (d documents) Get(_ context.Context, productID string, names ...string) ([]document.Document, error) {
	docs := make([]document.Document, len(names))
	now := time.Now().UnixMilli()
	err := d.view(productID, func(b *bolt.Bucket) error {
		for i, name := range names {
			r, err := find(b, []byte(name))
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

// List implements [document.Store]. It skips expired documents whose names begin with the
// prefix, but has to read each of them.
func (d documents) List(_ context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	docs := []document.Document{}
	now := time.Now().UnixMilli()
	err := d.view(productID, func(b *bolt.Bucket) error {
		c := b.Cursor()
		k, v := c.Seek([]byte(max(prefix, after)))
		for ; k != nil && bytes.HasPrefix(k, []byte(prefix)) && len(docs) < limit; k, v = c.Next() {
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

// Write implements [document.Store]. When ctx ends during the commit, it is unknown whether the
// call had an effect.
func (d documents) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if err := document.Validate(changes); err != nil {
		return 0, err
	}
	a := newAddition(nil, changes)
	if err := d.log.write(ctx, productID, a); err != nil {
		return 0, err
	}
	return a.version, nil
}

// view calls read with the bucket of the product's documents, if it has any. The bucket is
// usable until read returns.
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

// document returns the record as a document that shares no memory with the file.
func (r record) document(name string) document.Document {
	return document.Document{Name: name, Version: r.version, Value: bytes.Clone(r.value)}
}

// find returns the document's record, even if it has expired, or a zero record if
// there is none.
func find(docs *bolt.Bucket, name []byte) (record, error) {
	value := docs.Get(name)
	if value == nil {
		return record{}, nil
	}
	return parseRecord(name, value)
}

// check returns the documents as they are before the changes, including expired ones, or why
// they cannot be changed. A change treats an expired document as missing. The records share
// memory with the file, and are valid until the transaction ends.
func (b *batch) check(changes []document.Change) (before []record, refusal, err error) {
	now := b.t.now.UnixMilli()
	before = make([]record, len(changes))
	for i, change := range changes {
		if before[i], err = find(b.docs, []byte(change.Name)); err != nil {
			return nil, nil, err
		}
		version := before[i].version
		if before[i].expired(now) {
			version = 0
		}
		if version != change.Prev {
			return nil, &document.ConflictError{Name: change.Name}, nil
		}
	}
	return before, nil, nil
}

// change makes the changes of documents that were checked. All documents put by one call get
// the same version. Every call with changes takes a version, even if it only checks or
// touches.
func (b *batch) change(a *addition, before []record) error {
	if len(a.changes) == 0 {
		return nil
	}
	b.state.Version++
	b.t.changed = true
	a.version = document.Version(b.state.Version)
	for i, c := range a.changes {
		name, r := []byte(c.Name), before[i]
		var err error
		switch c.Op {
		case document.OpDelete:
			err = b.remove(name, r)
		case document.OpPut:
			r.version = a.version
			err = b.renew(name, r, c, c.Value)
		case document.OpTouch:
			err = b.renew(name, r, c, r.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renew writes the document of record r with a value and a time to live that starts now. Its
// place in the due bucket stays, unless the document now expires earlier or changes its class: a
// place that is too early costs a look, but moving it would cost a write every time.
func (b *batch) renew(name []byte, r record, c document.Change, value []byte) error {
	due, class := int64(0), last
	if c.Yields {
		class = 0
	}
	if r.until, r.ttl = 0, 0; c.TTL != 0 {
		r.until = b.t.now.Add(c.TTL).Add(time.Millisecond - 1).UnixMilli() // rounded up
		r.ttl = r.until - b.t.now.UnixMilli()
		due = r.until | class
	}
	if r.due == 0 || due < r.due || due&last != r.due&last {
		if err := b.move(name, r.due, due); err != nil {
			return err
		}
		r.due = due
	}
	b.took += uint64(len(value))
	return b.put(name, r, value)
}

// move changes a document's place in the due bucket; zero means none.
func (b *batch) move(name []byte, from, to int64) error {
	if from != 0 {
		if err := b.due.Delete(dueKey(from, name)); err != nil {
			return err
		}
	}
	if to == 0 {
		return nil
	}
	return b.due.Put(dueKey(to, name), []byte{})
}

// put writes a document and counts it. Its place in the due bucket must be right already. r
// has the previous value, nil for none.
func (b *batch) put(name []byte, r record, value []byte) error {
	if r.value != nil {
		b.uncount(name, r)
	}
	b.state.Documents++
	r.value = value
	b.state.DocumentBytes += r.size(name)
	return b.docs.Put(name, r.encode(name))
}

// remove removes a document with its place in the due bucket. r is its record.
func (b *batch) remove(name []byte, r record) error {
	if err := b.move(name, r.due, 0); err != nil {
		return err
	}
	b.uncount(name, r)
	return b.docs.Delete(name)
}

// uncount subtracts a document, as it is in the file, from the product's sums.
func (b *batch) uncount(name []byte, r record) {
	b.state.Documents--
	b.state.DocumentBytes -= r.size(name)
}

// sweep removes expired documents, and examines no more than step documents for it.
func (b *batch) sweep() error {
	more, now := b.more(&b.state.DocumentBytes), b.t.now.UnixMilli()
	all := func(record) bool { return true }
	return errors.Join(b.review(0, now, more, all), b.review(last, last|now, more, all))
}

// spared is the remaining time to live below which a document is left to expire on its own,
// if others can be evicted: it may be a lease, or belong to a delivery in progress.
const spared = 15 * time.Minute

// evict removes documents beyond the product's limit: yielding ones before others, and within
// each class the ones that expire first, so that among equal times to live the oldest writes go
// first. The order is: yielding documents from before the transaction, yielding ones of the
// transaction, then other ones from before it. Other documents of the transaction stay.
func (b *batch) evict() error {
	limit, more := uint64(b.t.log.retention.StateMaxBytes/2), b.more(&b.state.DocumentBytes)
	tooMuch := func() bool { return b.state.DocumentBytes > limit && more() }
	earlier := func(r record) bool { return uint64(r.version) <= b.began }
	every := func(record) bool { return true }
	from := b.t.now.Add(min(spared, b.t.log.retention.TTL/2)).UnixMilli()
	for _, class := range [...]struct {
		of   int64
		goes func(record) bool
	}{{0, earlier}, {0, every}, {last, earlier}} {
		if err := b.review(class.of|from, class.of|(last-1), tooMuch, class.goes); err != nil {
			return err
		}
		if err := b.review(class.of, class.of|from, tooMuch, class.goes); err != nil {
			return err
		}
	}
	return nil
}

// review examines the documents due between two times, in this order, while more returns true.
// It removes a document if goes returns true, and moves a renewed one to its new place. The
// times include their class, see last.
func (b *batch) review(from, to int64, more func() bool, goes func(record) bool) error {
	at, due := dueKey(from, nil), b.due.Cursor()
	for ; more(); b.reviewed++ {
		k, _ := due.Seek(at)
		if k == nil {
			return nil
		}
		when, name, err := parseDue(k)
		if err != nil || when > to {
			return err
		}
		r, err := find(b.docs, name)
		place := r.until | when&last
		switch {
		case err != nil:
			return err
		case r.due != when:
			return errMalformed
		case place > when:
			if err = b.move(name, when, place); err == nil {
				r.due = place
				err = b.put(name, r, r.value)
			}
		case goes(r):
			err = b.remove(name, r)
		default:
			at = append(bytes.Clone(k), 0) // the next key
			continue
		}
		if err != nil {
			return err
		}
		b.t.changed = true
	}
	return nil
}

// loadDocuments reads a product's documents and counts them into found. For documents written
// while the clock was ahead, it returns touches that start their time to live over. It checks
// only the number of keys in the due bucket; review checks each key against its record.
func loadDocuments(b *bolt.Bucket, found *state, r *reading) (ahead []document.Change, err error) {
	due, now := 0, time.Now().UnixMilli()
	err = b.Bucket(bucketDocuments).ForEach(func(k, v []byte) error {
		doc, err := parseRecord(k, v)
		if err != nil || uint64(doc.version) > found.Version || (doc.due == 0) != (doc.until == 0) {
			return errMalformed
		}
		if doc.due != 0 {
			due++
		}
		if doc.until-doc.ttl > now {
			d := document.Document{Name: string(k), Version: doc.version}
			touch := document.Touch(d, time.Duration(doc.ttl)*time.Millisecond)
			touch.Yields = doc.due&last == 0
			ahead = append(ahead, touch)
		}
		found.Documents++
		found.DocumentBytes += doc.size(k)
		r.add(len(k) + len(v))
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.Bucket(bucketDue).ForEach(func(k, _ []byte) error {
		due--
		return nil
	})
	if err != nil || due != 0 {
		return nil, errMalformed
	}
	return ahead, nil
}
