package boltlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream"
)

// operation is what one call wants committed, and what became of it.
type operation struct {
	product *product // nil for nothing
	entries []stream.Entry
	changes []document.Change
	appends bool // refused once the log is closed
	expire  int  // how many entries and documents to remove at most, besides

	version document.Version
	removed int   // entries and documents
	refusal error // why it was not made
	err     error // what its caller is told

	kept    []stream.Entry // the entries as the tail keeps them
	claimed []activity.Key
	dropped dropped
}

// dropped is what was removed from the front of the log.
type dropped struct {
	floor   stream.ID // zero for nothing
	entries int
	tooMany int // of the entries: those that had not expired
	bytes   int64
	keys    []activity.Key
}

// commit makes the operations in one transaction. One commit runs at a time.
//
// What is in memory must be as the file is, also when a commit fails: keys and
// bytes change as operations are made, so that the next one finds them as they
// will be, and are set back when the transaction is given up. All else follows
// when the transaction can be read.
func (l *Log) commit(ops []*operation) {
	readable := false
	defer func() {
		if !readable {
			undo(ops)
		}
	}()
	readable, err := l.transact(ops)
	for p, ops := range byProduct(ops) {
		if readable {
			l.publish(p, ops)
		}
	}
	for _, o := range ops {
		o.err = o.refusal
		// Also for those refused: what they were refused for may not be on the disk.
		if err != nil && !errors.Is(o.err, stream.ErrClosed) {
			o.err = fmt.Errorf("boltlog: commit: %w", err)
		}
	}
}

// transact makes the operations in one transaction and reports whether readers
// find it in the file: when writing its last page was reported to have failed
// they may nevertheless. Its calls fail then, since it may not be on the disk;
// who repeats one finds its keys taken, and is told so when a later commit has
// succeeded.
func (l *Log) transact(ops []*operation) (readable bool, err error) {
	if l.damage != nil {
		return false, l.damage
	}
	id := -1
	err = l.guarded(func() error {
		tx, err := l.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		id = tx.ID()
		m := &maker{log: l, tx: tx, now: time.Now(), buckets: map[*product]*buckets{}}
		for _, o := range ops {
			o.refusal = m.make(o)
		}
		if err := m.writeStates(); err != nil {
			return err
		}
		return l.finish(tx)
	})
	if errors.Is(err, ErrDamaged) {
		l.damage = err // what is in memory of the file may be wrong, too
	}
	return err == nil || l.lastCommit() == id, err
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
	var floor stream.ID
	for _, o := range ops {
		if p.oldest == (stream.ID{}) && len(o.kept) > 0 {
			p.oldest = o.kept[0].ID
		}
		p.tail.Add(o.kept...)
		p.stats.Entries += len(o.kept) - o.dropped.entries
		p.stats.Dropped += int64(o.dropped.tooMany)
		if o.dropped.entries > 0 {
			floor = o.dropped.floor
		}
	}
	p.stats.Bytes = p.bytes
	p.tail.Shrink(l.tailBytes, nil)
	_ = l.raise(p, floor) // fails only when the file cannot be read
}

// maker makes the operations of a transaction.
type maker struct {
	log     *Log
	tx      *bolt.Tx
	now     time.Time
	buckets map[*product]*buckets
	err     error // of the file: the transaction cannot be committed
}

// buckets are those of a product, and its state.
type buckets struct {
	product, log, documents, expiry *bolt.Bucket
	state                           state
}

// make makes one operation, or nothing of it.
func (m *maker) make(o *operation) error {
	if m.err != nil || o.product == nil {
		return m.err
	}
	if o.appends && m.log.isClosed() {
		return stream.ErrClosed
	}
	b, err := m.open(o)
	if err != nil || b == nil {
		return err
	}
	budget := max(o.expire, 2*(len(o.entries)+len(o.changes))+minExpire)
	if err := m.expire(b, o, budget); err != nil {
		return m.fail(err)
	}
	if err := o.claim(); err != nil {
		return err
	}
	if err := m.write(b, o); err != nil {
		return err
	}
	if err := m.shrink(b, o, budget); err != nil {
		return m.fail(err)
	}
	return nil
}

// minExpire is how many expired entries and documents a commit removes at
// least for each operation, if there are so many.
const minExpire = 8

// expire removes at most n entries, and n documents, that have expired.
func (m *maker) expire(b *buckets, o *operation, n int) error {
	old := stream.IDAt(m.now.Add(-m.log.retention.TTL))
	if err := m.drop(b, o, func(id stream.ID) bool { return n > o.dropped.entries && id.Compare(old) <= 0 }); err != nil {
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
	k, _ := b.log.Cursor().Last()
	newest, err := parseID(k)
	if err != nil {
		return err
	}
	before, bytes := o.dropped.entries, o.dropped.bytes+2*entriesSize(o.kept)
	err = m.drop(b, o, func(id stream.ID) bool {
		return p.bytes > limit && id != newest && (o.dropped.entries < before+n || o.dropped.bytes < bytes)
	})
	o.dropped.tooMany = o.dropped.entries - before
	o.removed += o.dropped.tooMany
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
	b.log, b.documents, b.expiry = b.product.Bucket(bucketLog), b.product.Bucket(bucketDocuments), b.product.Bucket(bucketExpiry)
	b.log.FillPercent = 1 // entries come at the end only
	var err error
	if b.state, err = stateOf(b.product, p.bucket); err != nil {
		return nil, m.fail(err)
	}
	m.buckets[p] = b
	return b, nil
}

// found makes a product's buckets.
func (m *maker) found(p *product) error {
	b, err := m.tx.CreateBucket(p.bucket)
	if err != nil {
		return err
	}
	for _, name := range [][]byte{bucketLog, bucketDocuments, bucketExpiry} {
		if _, err := b.CreateBucket(name); err != nil {
			return err
		}
	}
	return b.Put(keyState, state{floor: m.log.born}.encode(p.bucket))
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

// claim marks the entries' keys as seen, or none of them.
func (o *operation) claim() error {
	var seen []activity.Key
	for _, e := range o.entries {
		for _, key := range e.Keys {
			if _, ok := o.product.keys[key]; ok {
				seen = append(seen, key)
				continue
			}
			o.product.keys[key] = struct{}{}
			o.claimed = append(o.claimed, key)
		}
	}
	if seen == nil {
		return nil
	}
	o.unclaim()
	return &stream.DuplicateError{Keys: seen}
}

func (o *operation) unclaim() {
	for _, key := range o.claimed {
		delete(o.product.keys, key)
	}
	o.claimed = nil
}

// write writes entries and documents, or fails for a conflict before the first.
func (m *maker) write(b *buckets, o *operation) error {
	if err := m.checkVersions(b, o.changes); err != nil {
		o.unclaim()
		return err
	}
	if err := m.applyChanges(b, o); err != nil {
		return m.fail(err)
	}
	for i := range o.entries {
		e := &o.entries[i]
		o.product.last = o.product.last.Next(m.now)
		e.Encode(o.product.last)
		key := appendID(nil, e.ID)
		if err := b.log.Put(key, appendEntry(make([]byte, 0, entrySize(*e)-idSize), key, *e)); err != nil {
			return m.fail(err)
		}
		b.state.entries++
		kept := *e
		kept.Keys = slices.Clone(e.Keys)
		o.kept = append(o.kept, kept)
		o.product.bytes += entrySize(kept)
	}
	return nil
}

// entrySize is what an entry takes in the file, but for bbolt's own.
func entrySize(e stream.Entry) int64 {
	return int64(idSize + sumSize + uvarintSize(len(e.SessionID)) + len(e.SessionID) + uvarintSize(len(e.Keys)) + len(e.Keys)*len(activity.Key{}) + len(e.Data))
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 1<<7; n >>= 7 {
		size++
	}
	return size
}

func entriesSize(entries []stream.Entry) (size int64) {
	for _, e := range entries {
		size += entrySize(e)
	}
	return size
}

// drop removes entries from the front of the log, as long as they are to go.
func (m *maker) drop(b *buckets, o *operation, goes func(stream.ID) bool) error {
	c := b.log.Cursor()
	for k, v := c.First(); k != nil; k, v = c.First() {
		id, err := parseID(k)
		if err != nil {
			return err
		}
		if !goes(id) {
			return nil
		}
		if err := o.drop(id, k, v); err != nil {
			return err
		}
		if err := c.Delete(); err != nil {
			return err
		}
		b.state.floor = id
		b.state.entries--
	}
	return nil
}

// drop takes note of an entry that is removed.
func (o *operation) drop(id stream.ID, k, v []byte) error {
	_, keys, _, err := parseEntry(k, v)
	if err != nil {
		return err
	}
	for _, key := range parseKeys(keys) {
		delete(o.product.keys, key)
		o.dropped.keys = append(o.dropped.keys, key)
	}
	size := int64(len(k) + len(v))
	o.product.bytes -= size
	o.dropped.bytes += size
	o.dropped.entries++
	o.dropped.floor = id
	return nil
}
