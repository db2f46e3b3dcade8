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
// memory holds no documents. A document that has expired is hidden from then on, and removed by
// a later transaction of its product.
//
// Two buckets belong together. A document that expires has one key in the due bucket, its
// place, where the transactions look for documents to remove, in the order of the keys. A place
// may be too early, never too late, so a renewal does not move it:
//
//	put                    record and place at until
//	renewed, until grows   the place stays: the next look comes too early
//	review, due < until    the place moves to until
//	review, due = until    record and place are removed, if the document goes
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

// List implements [document.Store]. It passes over expired documents whose names begin with the
// prefix, which cost a look each.
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

// document returns the record as a document that shares no memory.
func (r record) document(name string) document.Document {
	return document.Document{Name: name, Version: r.version, Value: bytes.Clone(r.value)}
}

// find returns the document's record, also if it has expired; zero if there is none.
func find(docs *bolt.Bucket, name []byte) (record, error) {
	value := docs.Get(name)
	if value == nil {
		return record{}, nil
	}
	return parseRecord(name, value)
}

// check returns the documents before the changes, those that have expired, too, or why they
// cannot be changed. An expired document counts as missing. The records share memory with the
// file until the transaction ends.
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
// the same version. Every call with changes takes one, also if it only checks or touches.
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

// renew writes a document, which was r, with a value and a time to live that begins now. It keeps
// its place in the due bucket, unless it expires earlier: a place that is too early costs a look,
// and another place would cost a write every time.
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

// put writes a document whose place in the due bucket is right, and counts it. r has the value
// before, nil for none.
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

// uncount takes a document, as it is in the file, out of the product's sums.
func (b *batch) uncount(name []byte, r record) {
	b.state.Documents--
	b.state.DocumentBytes -= r.size(name)
}

// sweep removes documents whose time is over, and looks at no more than step for it.
func (b *batch) sweep() error {
	more, now := b.more(&b.state.DocumentBytes), b.t.now.UnixMilli()
	all := func(record) bool { return true }
	return errors.Join(b.review(0, now, more, all), b.review(last, last|now, more, all))
}

// spared is how long before its end a document is left to expire by itself, where others can
// be evicted: it may be a lease, or about something being delivered.
const spared = 15 * time.Minute

// evict removes documents beyond the product's limit, those that yield first, and of these the
// ones that expire first: of documents that live equally long, the ones written first. The order
// is: earlier yielding ones, this transaction's yielding ones, earlier others. This transaction's
// others stay.
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

// review looks at documents that are due from one time to another, in this order, while there
// is more to do. It removes those that go; one that was renewed it looks at again when that is
// over. The times have their class with them, see last.
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

// loadDocuments reads a product's documents, which it counts into found. It returns changes of
// those that were written by a clock that was ahead: touches, from which their time to live
// begins anew. Of the due bucket it checks the number of keys; review checks each of them
// against its record.
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
