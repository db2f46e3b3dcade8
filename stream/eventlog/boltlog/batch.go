package boltlog

import (
	"bytes"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// batch is one product's part of a transaction. Later operations see its changes to the
// file. Its changes to memory are collected here, for publish.
//
// state, last and keys are the product's as changed by the transaction so far; the product
// itself still has the old ones. keys has only the differences, unless the product was dropped.
// Bytes are bytes in the file; took counts only the value of a document.
type batch struct {
	t              *transaction
	p              *product
	bucket         *bolt.Bucket // of the product
	log, docs, due *bolt.Bucket // in it
	began          uint64       // the newest document version before the transaction

	took     uint64 // bytes added
	reviewed int    // entries and documents examined for removal, by age or to free space

	state   state
	last    eventlog.ID       // the newest ID assigned
	oldest  eventlog.ID       // the first entry at the end of the transaction, zero for none
	added   []eventlog.Entry  // including entries trimmed again
	keys    map[feed.Key]bool // that changed: whether a retained entry has them now
	tooMany int64             // entries trimmed before they expired
	filings []recent.Filing   // of the entries added
	dropped bool              // keys has all keys of retained entries
}

// step is how many entries, and how many documents, a transaction always examines for
// removal, see more. If it examined fewer in total, nothing is left to remove.
const step = 500

// more returns a function that reports whether to continue removing: while fewer than step
// entries or documents have been examined, or less than twice the bytes that the transaction
// adds has been freed. So the cost of a commit is proportional to its own size, and a product
// beyond a limit shrinks faster than it grows. size is the number of bytes left. Each function
// counts separately.
func (b *batch) more(size *uint64) func() bool {
	reviewed, before := b.reviewed, *size
	return func() bool { return b.reviewed-reviewed < step || before-*size < 2*b.took }
}

// open returns the product's batch. The first call in a transaction creates it, and
// removes expired entries and documents. If the product has no bucket, open creates it or,
// unless create is set, returns nil.
func (t *transaction) open(p *product, create bool) (b *batch, err error) {
	if b, ok := t.batches[p]; ok {
		return b, nil
	}
	bucket := t.tx.Bucket(p.bucket)
	if bucket == nil {
		if !create {
			return nil, nil
		}
		if bucket, err = t.tx.CreateBucket(p.bucket); err != nil {
			return nil, err
		}
	}
	b = &batch{t: t, p: p, bucket: bucket, state: p.state, began: p.state.Version, last: p.last,
		keys: map[feed.Key]bool{}}
	t.batches[p] = b
	if err := b.openBuckets(); err != nil {
		return nil, err
	}
	return b, b.expire()
}

// openBuckets opens the buckets inside the product's, and creates missing ones.
func (b *batch) openBuckets() error {
	var buckets [len(productBuckets)]*bolt.Bucket
	for i, name := range productBuckets {
		var err error
		if buckets[i], err = b.bucket.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	b.log, b.docs, b.due = buckets[0], buckets[1], buckets[2]
	// bbolt does not store fill percents: every transaction sets them again.
	b.log.FillPercent, b.due.FillPercent = 1, 1 // new keys come at the end
	b.docs.FillPercent = 0.8                    // many of them do: names that begin with a time
	return nil
}

// addition holds the entries and changes of one call, in its own memory: the caller may have
// returned before they are committed. An entry and its filing have the same index. The
// goroutine that commits sets IDs, positions and version, which are valid only if the call
// succeeds.
type addition struct {
	appends bool             // refused once the log is closed
	of      document.Version // the generation that it belongs to
	entries []eventlog.Entry // get their IDs
	filings []recent.Filing  // of each entry
	changes []document.Change
	version document.Version // of the documents put, once it is committed
}

// newAddition copies the entries with their keys and data, and the values of documents. It
// keeps the caller's document names without a copy, as [document.Store] allows.
func newAddition(entries []eventlog.Entry, changes []document.Change) *addition {
	a := &addition{entries: slices.Clone(entries), changes: slices.Clone(changes)}
	for i := range a.entries {
		a.entries[i].Own()
	}
	for i := range a.changes {
		a.changes[i].Value = bytes.Clone(a.changes[i].Value)
	}
	return a
}

// add adds everything, or nothing and returns a refusal. Every reason to refuse is checked
// before the first change, so an error after that is a storage error, and ends the
// transaction.
func (b *batch) add(a *addition) (refusal, err error) {
	if document.Ended(a.of, document.Version(b.state.Dropped)) {
		return document.ErrDropped, nil
	}
	if err := engine.Duplicates(a.entries, b.holds); err != nil {
		return err, nil
	}
	before, refusal, err := b.check(a.changes)
	if refusal != nil || err != nil {
		return refusal, err
	}
	if err := b.change(a, before); err != nil {
		return nil, err
	}
	return nil, b.append(a)
}

// holds reports whether the key belongs to an entry that is retained or was added by
// this transaction. After a drop the product's keys no longer count.
func (b *batch) holds(key feed.Key) bool {
	held, changed := b.keys[key]
	if !changed && !b.dropped {
		_, held = b.p.keys[key]
	}
	return held
}

// append writes the entries, whose keys are new, under IDs that it assigns.
func (b *batch) append(a *addition) error {
	for i := range a.entries {
		b.last = engine.NextID(b.last, b.t.now)
		a.entries[i].Encode(b.last)
		a.filings[i].Arrived = recent.Position(b.last)
		for _, key := range a.entries[i].Keys {
			b.keys[key] = true
		}
		key, value := appendID(nil, b.last), encodeEntry(a.entries[i])
		if err := b.log.Put(key, seal(key, value)); err != nil {
			return err
		}
		b.state.Entries++
		b.state.Bytes += entrySize(value)
		b.took += entrySize(value)
		b.t.changed = true
	}
	b.added, b.filings = append(b.added, a.entries...), append(b.filings, a.filings...)
	return nil
}

// expire removes expired entries and documents.
func (b *batch) expire() error {
	old := b.p.expired(b.t.now, b.t.log.retention.TTL)
	if _, err := b.trim(func(id eventlog.ID) bool { return id.Compare(old) <= 0 }); err != nil {
		return err
	}
	return b.sweep()
}

// complete enforces the product's limits and writes its state if that has changed. It is the
// last step of a batch. The entry with the newest ID stays, however large it is.
func (b *batch) complete() error {
	limit := uint64(b.t.log.retention.MaxBytes)
	n, err := b.trim(func(id eventlog.ID) bool { return b.state.Bytes > limit && id != b.last })
	b.tooMany += int64(n)
	if err != nil {
		return err
	}
	if err := b.evict(); err != nil {
		return err
	}
	if b.oldest, err = firstID(b.log); err != nil || b.state == b.p.state {
		return err
	}
	value, err := b.state.encode(b.p.bucket)
	if err != nil {
		return err
	}
	b.t.changed = true
	return b.bucket.Put(keyState, value)
}

// trim removes entries from the front of the log while goes returns true, and returns their
// number. It seeks the first entry again each time, because a bbolt cursor has no reliable
// position after a change.
func (b *batch) trim(goes func(eventlog.ID) bool) (n int, err error) {
	c, more := b.log.Cursor(), b.more(&b.state.Bytes)
	for k, v := c.First(); k != nil && more(); k, v = c.First() {
		e, err := parseEntry(k, v)
		if err != nil || !goes(e.ID) {
			return n, err
		}
		for _, key := range e.Keys {
			b.keys[key] = false
		}
		b.state.Entries--
		b.state.Bytes -= entrySize(v)
		b.state.TrimmedTo = e.ID
		b.t.changed = true
		if err := c.Delete(); err != nil {
			return n, err
		}
		n++
		b.reviewed++
	}
	return n, nil
}

// firstID returns the ID of the oldest entry in a log's bucket, zero if there is none.
func firstID(log *bolt.Bucket) (eventlog.ID, error) {
	k, _ := log.Cursor().First()
	if k == nil {
		return eventlog.ID{}, nil
	}
	return parseID(k)
}
