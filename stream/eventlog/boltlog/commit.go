package boltlog

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// operation is what one call wants committed, and what became of it.
type operation struct {
	product *product // nil for nothing
	entries []eventlog.Entry
	changes []document.Change
	filings []activity.Filing
	appends bool   // refused once the log is closed
	drops   bool   // everything of the product goes
	sweeps  bool   // frees some room of what was dropped
	probe   []byte // what to put in the place that Ping writes to; nil for nothing, empty to clear it
	expire  int    // how many entries and documents to remove at most, besides
	trims   int    // how many of the oldest entries to remove, but never the newest

	version document.Version
	removed int   // entries and documents
	more    bool  // there is more room to free
	refusal error // why it was not made
	err     error // of its caller

	kept    []eventlog.Entry // the entries as the tail keeps them
	claimed bool             // their keys are among the product's
	dropped dropped
}

// dropped is what was removed from the front of the log.
type dropped struct {
	trimmedTo eventlog.ID // zero for nothing
	entries   int
	tooMany   int // of the entries: those that had not expired
	bytes     int64
	keys      []activity.Key            // but those of the operation's own entries
	all       map[activity.Key]struct{} // all keys there were, when all went at once; else nil
}

// commit makes the operations in one transaction. One commit runs at a time.
//
// What is in memory must be as the file is, also when a commit fails: keys and
// bytes change as operations are made, so that the next one finds them as they
// will be, and are set back when the transaction is given up. All else follows
// when the transaction can be read.
func (l *Log) commit(ops []*operation) {
	committed := false
	defer func() {
		if !committed {
			undo(ops)
		}
	}()
	err := l.transact(ops)
	if committed = err == nil; committed {
		for p, ops := range byProduct(ops) {
			l.publish(p, ops)
		}
	}
	for _, o := range ops {
		o.err = o.refusal
		// Also for those refused: what they were refused for may not be on the disk.
		if err != nil && !errors.Is(o.err, eventlog.ErrClosed) {
			o.err = fmt.Errorf("boltlog: commit: %w", err)
		}
	}
}

// transact makes the operations in one transaction. Nothing is committed any
// more once the file was found damaged, or once what was written to it may not
// be what is on the disk: see ErrUncertain.
func (l *Log) transact(ops []*operation) error {
	if l.broken != nil {
		return l.broken
	}
	id := -1
	err := l.guarded(func() error {
		tx, err := l.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		id = tx.ID()
		m := &maker{log: l, tx: tx, now: time.Now(), buckets: map[*product]*buckets{}, values: l.values[:0]}
		made := false
		for _, o := range ops {
			o.refusal = m.make(o)
			made = made || o.refusal == nil || o.removed > 0
		}
		if !made && m.err == nil {
			return nil // all were refused for what is on the disk
		}
		if l.values = m.values; cap(l.values) > maxValues {
			l.values = nil
		}
		if m.err == nil {
			m.err = probe(tx, ops)
		}
		if err := m.writeStates(); err != nil {
			return err
		}
		return l.finish(tx)
	})
	if err != nil {
		l.failed.Store(true)
		l.giveUp(err, id)
	}
	if l.broken != nil {
		return l.broken
	}
	return err
}

// maxValues is how many bytes for values are kept from one transaction to the next.
const maxValues = 4 << 20

// giveUp makes a failed commit the last one where a further one could
// acknowledge what is not on the disk. That is after a failed fdatasync, which
// the kernel reports once and then forgets together with the pages, and when
// readers find the transaction in the file although it failed.
func (l *Log) giveUp(err error, id int) {
	switch {
	case errors.Is(err, ErrDamaged): // what is in memory of the file may be wrong, too
		l.broken = err
	case syncFailed(err) || l.lastCommit() == id:
		l.broken = fmt.Errorf("%w: %s: %w", ErrUncertain, l.path, err)
	default:
		return
	}
	l.logger.Error("storage failed; nothing can be stored until the process is restarted", "err", l.broken)
}

// syncFailed reports whether bbolt's error is that of fdatasync or fsync. What
// it writes and truncates fails with a path, and how it resizes with a text.
func syncFailed(err error) bool {
	var errno syscall.Errno
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return path.Op == "sync"
	case errors.As(err, &errno):
		return true
	}
	return strings.Contains(err.Error(), "file sync error")
}

// lastCommit returns the number of the transaction that readers see.
func (l *Log) lastCommit() (id int) {
	err := l.view(func(tx *bolt.Tx) error {
		id = tx.ID()
		return nil
	})
	if err != nil {
		return 0
	}
	return id
}

// undo sets back what operations have changed in memory.
func undo(ops []*operation) {
	for _, o := range slices.Backward(ops) {
		if o.product == nil {
			continue
		}
		o.unclaim()
		if o.dropped.all != nil {
			o.product.keys = o.dropped.all
		}
		for _, key := range o.dropped.keys {
			o.product.keys[key] = struct{}{}
		}
		o.product.bytes += o.dropped.bytes - entriesSize(o.kept)
	}
}

// byProduct returns the operations of each product, in order.
func byProduct(ops []*operation) map[*product][]*operation {
	groups := map[*product][]*operation{}
	for _, o := range ops {
		if o.product != nil {
			groups[o.product] = append(groups[o.product], o)
		}
	}
	return groups
}

// publish shows readers what was committed of a product.
func (l *Log) publish(p *product, ops []*operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var trimmedTo eventlog.ID
	for _, o := range ops {
		if p.oldest == (eventlog.ID{}) && len(o.kept) > 0 {
			p.oldest = o.kept[0].ID
		}
		l.file(p, o)
		p.tail.Add(o.kept...)
		p.stats.Entries += len(o.kept) - o.dropped.entries
		p.stats.Dropped += int64(o.dropped.tooMany)
		if o.dropped.entries > 0 {
			trimmedTo = o.dropped.trimmedTo
		}
	}
	p.stats.Bytes, p.seen = p.bytes, len(p.keys)
	p.tail.Expired(time.Now(), l.retention.TTL) // it has seen them
	p.tail.Shrink(l.tailBytes, nil)
	_ = l.raise(p, trimmedTo) // fails only when the file cannot be read
	p.account()
}

// maker makes the operations of a transaction.
type maker struct {
	log     *Log
	tx      *bolt.Tx
	now     time.Time
	buckets map[*product]*buckets
	before  []record // of the operation being made: its documents, in the order of its changes
	values  []byte   // put in the file, and some names; bbolt reads them until the commit is over
	err     error    // of the file: the transaction cannot be committed
}

// buckets are those of a product, and its state.
type buckets struct {
	product, log, documents, places, expiry *bolt.Bucket
	state                                   state
}

// make makes one operation, or nothing of it.
func (m *maker) make(o *operation) error {
	if o.sweeps && m.err == nil {
		o.more, m.err = sweepDropped(m.tx)
	}
	if m.err != nil || o.product == nil {
		return m.err
	}
	if o.appends && m.log.isClosed() {
		return eventlog.ErrClosed
	}
	b, err := m.open(o)
	if err != nil || b == nil {
		return err
	}
	if o.drops {
		if err := m.dropAll(b, o); err != nil {
			return m.fail(err)
		}
		return nil
	}
	if o.trims > 0 {
		if err := m.trim(b, o); err != nil {
			return m.fail(err)
		}
		return nil
	}
	budget := max(o.expire, 2*(len(o.entries)+len(o.changes))+minExpire)
	if err := m.expire(b, o, budget); err != nil {
		return m.fail(err)
	}
	if err := engine.Claim(o.product.keys, o.entries); err != nil {
		return err
	}
	o.claimed = true
	if err := m.write(b, o); err != nil {
		return err
	}
	if err := m.shrink(b, o, budget); err != nil {
		return m.fail(err)
	}
	if err := m.evict(b, o, budget); err != nil {
		return m.fail(err)
	}
	return nil
}

// minExpire is how many expired entries and documents a commit removes at
// least for each operation, if there are so many.
const minExpire = 8

// expire removes at most n entries, and n documents, that have expired.
func (m *maker) expire(b *buckets, o *operation, n int) error {
	old := o.product.expired(m.now, m.log.retention.TTL)
	if err := m.drop(b, o, func(id eventlog.ID) bool { return n > o.dropped.entries && id.Compare(old) <= 0 }); err != nil {
		return err
	}
	o.removed = o.dropped.entries
	return m.sweep(b, o, n)
}

// shrink removes entries beyond the retention's size: at most n, or twice as
// many bytes as were added, so that a log of small entries makes room for large
// ones. The newest entry stays.
func (m *maker) shrink(b *buckets, o *operation, n int) error {
	p, limit := o.product, m.log.retention.MaxBytes
	if p.bytes <= limit {
		return nil
	}
	newest, err := lastOf(b.log.Cursor().Last())
	if err != nil {
		return err
	}
	before, bytes := o.dropped.entries, o.dropped.bytes+2*entriesSize(o.kept)
	err = m.drop(b, o, func(id eventlog.ID) bool {
		return p.bytes > limit && id != newest && (o.dropped.entries < before+n || o.dropped.bytes < bytes)
	})
	o.dropped.tooMany = o.dropped.entries - before
	o.removed += o.dropped.tooMany
	return err
}

// trim removes the oldest entries, as many as the operation says.
func (m *maker) trim(b *buckets, o *operation) error {
	newest, err := lastOf(b.log.Cursor().Last())
	if err != nil {
		return err
	}
	err = m.drop(b, o, func(id eventlog.ID) bool { return id != newest && o.dropped.entries < o.trims })
	o.dropped.tooMany = o.dropped.entries
	return err
}

// fail makes the whole transaction fail.
func (m *maker) fail(err error) error {
	m.err = err
	return err
}

// open returns the buckets of the operation's product, nil when there are none
// and the operation needs none.
func (m *maker) open(o *operation) (*buckets, error) {
	p := o.product
	if b, ok := m.buckets[p]; ok {
		return b, nil
	}
	if len(p.bucket) > bolt.MaxKeySize {
		return nil, errors.New("boltlog: the product id is too long")
	}
	b := &buckets{product: m.tx.Bucket(p.bucket)}
	if b.product == nil {
		if len(o.entries) == 0 && len(o.changes) == 0 {
			return nil, nil
		}
		if err := m.found(p); err != nil {
			return nil, m.fail(err)
		}
		b.product = m.tx.Bucket(p.bucket)
	}
	b.open()
	var err error
	if b.state, err = stateOf(b.product, p.bucket); err != nil {
		return nil, m.fail(err)
	}
	m.buckets[p] = b
	return b, nil
}

// open opens the buckets in the product's.
func (b *buckets) open() {
	b.log, b.documents = b.product.Bucket(bucketLog), b.product.Bucket(bucketDocuments)
	b.places, b.expiry = b.product.Bucket(bucketPlaces), b.product.Bucket(bucketExpiry)
	b.log.FillPercent, b.places.FillPercent, b.expiry.FillPercent = 1, 1, 1 // what comes, comes at the end
	b.documents.FillPercent = 0.8                                           // many names do, those that begin with a time
}

// found makes a product's buckets.
func (m *maker) found(p *product) error {
	b, err := m.tx.CreateBucket(p.bucket)
	if err != nil {
		return err
	}
	for _, name := range productBuckets {
		if _, err := b.CreateBucket(name); err != nil {
			return err
		}
	}
	return b.Put(keyState, state{born: m.log.born, trimmedTo: m.log.born}.encode(p.bucket))
}

// writeStates writes what the operations have made of the products' states.
func (m *maker) writeStates() error {
	for p, b := range m.buckets {
		if m.err != nil {
			break
		}
		m.err = b.product.Put(keyState, b.state.encode(p.bucket))
	}
	return m.err
}

// unclaim frees the keys that the operation has claimed.
func (o *operation) unclaim() {
	if !o.claimed {
		return
	}
	for _, e := range o.entries {
		for _, key := range e.Keys {
			delete(o.product.keys, key)
		}
	}
	o.claimed = false
}

// write writes entries and documents, or fails for a conflict before the first.
func (m *maker) write(b *buckets, o *operation) error {
	if err := m.checkVersions(b, o); err != nil {
		o.unclaim()
		return err
	}
	if err := m.applyChanges(b, o); err != nil {
		return m.fail(err)
	}
	for len(o.kept) < len(o.entries) {
		if err := m.writeRun(b, o); err != nil {
			return m.fail(err)
		}
	}
	return nil
}

// writeRun writes the next entries of the operation, as many as belong in a run.
func (m *maker) writeRun(b *buckets, o *operation) error {
	p, entries := o.product, o.entries[len(o.kept):]
	start, size, n := len(m.values), 0, 0
	m.values = append(m.values, make([]byte, runHead)...)
	for ; n < len(entries); n++ {
		e, id := &entries[n], engine.NextID(p.last, m.now)
		size += encodedSize(*e)
		if n > 0 && (size > runBytes || id.Milli != p.last.Milli) {
			break
		}
		e.Encode(id)
		m.values, p.last = appendEntry(m.values, *e), id
	}
	key := appendID(nil, p.last)
	if err := b.log.Put(key, sealRun(key, m.values[start:], n)); err != nil {
		return err
	}
	b.state.entries += uint64(n)
	p.bytes += entriesSize(entries[:n])
	o.kept = o.entries[:len(o.kept)+n]
	return nil
}

// drop removes entries from the front of the log, as long as they are to go.
func (m *maker) drop(b *buckets, o *operation, goes func(eventlog.ID) bool) error {
	c := b.log.Cursor()
	for k, v := c.First(); k != nil; k, v = c.First() {
		first, last, err := runIDs(k, v)
		if err != nil {
			return err
		}
		if !goes(first) {
			return nil
		}
		rest, err := parseRun(k, v)
		if err != nil {
			return err
		}
		for len(rest) > 0 && goes(rest[0].id) {
			o.drop(rest[0])
			rest = rest[1:]
		}
		b.state.trimmedTo = o.dropped.trimmedTo
		b.state.entries -= last.Seq - first.Seq + 1 - uint64(len(rest))
		if len(rest) > 0 {
			return b.log.Put(k, encodeRun(k, rest))
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// drop accounts for a removed entry.
func (o *operation) drop(e stored) {
	isOwn := len(o.kept) > 0 && e.id.Compare(o.kept[0].ID) >= 0
	for _, key := range parseKeys(e.keys) {
		delete(o.product.keys, key)
		if !isOwn {
			o.dropped.keys = append(o.dropped.keys, key)
		}
	}
	o.product.bytes -= e.size()
	o.dropped.bytes += e.size()
	o.dropped.entries++
	o.dropped.trimmedTo = e.id
}
