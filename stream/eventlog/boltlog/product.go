package boltlog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// product is what is in memory of a product's log.
type product struct {
	id      string
	bucket  []byte
	written uint64 // the newest write of documents when the file was opened

	// Of the goroutine that commits.
	keys  map[activity.Key]struct{} // of the entries in the file; nil where it is only read
	bytes int64                     // of the entries in the file
	last  eventlog.ID               // the newest ID assigned, committed or not

	mu        sync.Mutex
	tail      *engine.Tail // the newest entries
	share     *fair.Share[*product]
	seen      int         // how many keys there are, as of the last commit
	born      eventlog.ID // where the log began
	trimmedTo eventlog.ID // entries up to here are gone or count as gone
	oldest    eventlog.ID // the first entry after trimmedTo; zero for none
	stats     eventlog.Stats
	filed     chan struct{} // closed once the actions of all entries are filed
}

func newProduct(id string, newest eventlog.ID) *product {
	return &product{id: id, bucket: []byte(productPrefix + id), keys: map[activity.Key]struct{}{},
		last: newest, tail: engine.NewTail(newest), born: newest, trimmedTo: newest,
		filed: make(chan struct{})}
}

func (l *Log) product(id string) *product {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = newProduct(id, l.born)
		close(p.filed)
		p.share = l.shares.Join(p)
		l.products[id] = p
		if l.closed {
			p.tail.Close()
		}
	}
	return p
}

// load reads the file into memory.
func (l *Log) load(r *reading) error {
	return l.view(func(tx *bolt.Tx) error {
		if err := checkFormat(tx); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if bytes.Equal(name, bucketFormat) || bytes.Equal(name, bucketDropped) {
				return nil
			}
			id, ok := bytes.CutPrefix(name, []byte(productPrefix))
			if !ok {
				return errMalformed
			}
			p, err := l.loadProduct(string(id), b, r)
			if err != nil {
				return fmt.Errorf("%w, in product %.40q", err, id)
			}
			l.products[p.id] = p
			p.share, p.seen = l.shares.Join(p), len(p.keys)
			p.account()
			l.balance()
			return nil
		})
	})
}

func (l *Log) loadProduct(id string, b *bolt.Bucket, r *reading) (*product, error) {
	if b == nil || slices.ContainsFunc(productBuckets, func(name []byte) bool { return b.Bucket(name) == nil }) {
		return nil, errMalformed
	}
	state, err := stateOf(b, []byte(productPrefix+id))
	if err != nil {
		return nil, err
	}
	p := newProduct(id, state.trimmedTo)
	p.born, p.written = state.born, b.Sequence()
	if l.db.IsReadOnly() {
		p.keys = nil
	}
	if documents, bytes, err := countDocuments(b); err != nil || documents != state.documents || bytes != state.documentBytes {
		return nil, errMalformed
	}
	c := b.Bucket(bucketLog).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := p.count(k, v); err != nil {
			return nil, err
		}
		r.add(len(k) + len(v))
	}
	if uint64(p.stats.Entries) != state.entries {
		return nil, errMalformed
	}
	if p.stats.Bytes = p.bytes; p.stats.Entries == 0 {
		close(p.filed)
	}
	p.tail, err = l.loadTail(state.trimmedTo, p.last, c)
	return p, err
}

// countDocuments checks the documents of a product's bucket.
func countDocuments(b *bolt.Bucket) (n, bytes uint64, err error) {
	placed := 0
	err = b.Bucket(bucketDocuments).ForEach(func(k, v []byte) error {
		n++
		r, err := parseRecord(k, v)
		if err == nil && (r.version == 0 || uint64(r.version) > b.Sequence()) {
			err = errMalformed
		}
		if r.place != (place{}) {
			placed++
		}
		bytes += r.cost(string(k))
		return err
	})
	if err == nil {
		err = checkPlaces(b, placed)
	}
	return n, bytes, err
}

// keyCost is what a key takes in a map that is half full, in bytes.
const keyCost = 40

// account says what the product holds in memory. p is locked.
func (p *product) account() {
	p.share.Set(p.tail.Bytes()+int64(keyCost*p.seen), p.tail.Len() > 1 || p.stats.Entries > 1)
}

// balance makes tails shorter while all products together hold too much. It
// returns the product that has to lose entries from the file, with their keys,
// for the rest of it, if there is one.
func (l *Log) balance() *product {
	for {
		p, over := l.shares.Excess()
		if !over {
			return nil
		}
		p.mu.Lock()
		shrunk := p.tail.Shrink(p.tail.Bytes()-1, nil) > 0 // by one entry: then another may be the one
		p.account()
		p.mu.Unlock()
		if !shrunk {
			return p
		}
	}
}

// count accounts for the next run of entries in the file.
func (p *product) count(k, v []byte) error {
	entries, err := parseRun(k, v)
	if err != nil {
		return err
	}
	if entries[0].id.Compare(p.last) <= 0 {
		return errMalformed
	}
	if p.oldest == (eventlog.ID{}) {
		p.oldest = entries[0].id
	}
	for _, e := range entries {
		if p.keys != nil {
			for _, key := range parseKeys(e.keys) {
				p.keys[key] = struct{}{}
			}
		}
		p.bytes += e.size()
		p.stats.Entries++
		p.last = e.id
	}
	return nil
}

// loadTail reads the newest entries of the file.
func (l *Log) loadTail(trimmedTo, newest eventlog.ID, c *bolt.Cursor) (*engine.Tail, error) {
	start := trimmedTo
	var bytes int64
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if bytes += int64(len(v)); bytes > l.tailBytes/2 {
			start, _ = parseID(k) // it was parsed before
			break
		}
	}
	tail := engine.NewTail(start)
	err := readEntries(c, start, newest, func(e eventlog.Entry) bool {
		tail.Add(e)
		return true
	})
	return tail, err
}

// readEntries calls each with the entries after the cursor up to newest, until
// that returns false. They are encoded and share no memory with the file.
func readEntries(c *bolt.Cursor, after, newest eventlog.ID, each func(eventlog.Entry) bool) error {
	for k, v := c.Seek(appendID(nil, after)); k != nil; k, v = c.Next() {
		run, err := parseRun(k, v)
		if err != nil {
			return err
		}
		for _, s := range run {
			if s.id.Compare(after) <= 0 {
				continue
			}
			if s.id.Compare(newest) > 0 {
				return nil
			}
			e := eventlog.Entry{SessionID: string(s.session), Keys: parseKeys(s.keys), Data: s.data}
			e.Encode(s.id)
			if !each(e) {
				return nil
			}
		}
	}
	return nil
}

// Read implements [eventlog.Log].
func (l *Log) Read(_ context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := l.expire(p); err != nil {
		return 0, err
	}
	if after == (eventlog.ID{}) && p.trimmedTo == p.born { // nothing was ever dropped
		after = p.born
	}
	if after.Compare(p.trimmedTo) < 0 {
		return 0, &eventlog.GapError{TrimmedTo: p.trimmedTo, Oldest: p.oldest}
	}
	newest := p.tail.Bounds().Newest
	if p.tail.Closed() && after.Compare(newest) >= 0 {
		return 0, eventlog.ErrClosed
	}
	if n, ok := p.tail.Read(after, dst); ok {
		return n, nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return l.readFile(p, after, newest, dst)
}

// readFile reads entries up to newest. Some may have been dropped since the
// caller looked.
func (l *Log) readFile(p *product, after, newest eventlog.ID, dst []eventlog.Entry) (n int, err error) {
	if len(dst) == 0 {
		return 0, nil
	}
	var gap *eventlog.GapError
	bytes := 0
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if gap, err = p.gapAfter(b, after, newest); err != nil || gap != nil {
			return err
		}
		return readEntries(b.Bucket(bucketLog).Cursor(), after, newest, func(e eventlog.Entry) bool {
			dst[n] = e
			n++
			bytes += len(e.Data)
			return n < len(dst) && bytes < eventlog.ReadBytes
		})
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("boltlog: read: %w", err)
	case gap != nil:
		return 0, gap
	}
	return n, nil
}

// gapAfter returns the error of a reader whose cursor is before what remains in
// the product's bucket, nil for one whose is not.
func (p *product) gapAfter(b *bolt.Bucket, after, newest eventlog.ID) (*eventlog.GapError, error) {
	state, err := stateOf(b, p.bucket)
	if err != nil || after.Compare(state.trimmedTo) >= 0 {
		return nil, err
	}
	gap := &eventlog.GapError{TrimmedTo: state.trimmedTo}
	if gap.Oldest, err = firstOf(b.Bucket(bucketLog).Cursor().First()); gap.Oldest.Compare(newest) > 0 {
		gap.Oldest = eventlog.ID{} // it is not visible yet
	}
	return gap, err
}

// Bounds implements [eventlog.Log].
func (l *Log) Bounds(_ context.Context, productID string) (eventlog.Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := l.expire(p)
	return eventlog.Bounds{TrimmedTo: p.trimmedTo, Oldest: p.oldest, Newest: p.tail.Bounds().Newest}, err
}

// Changed implements [eventlog.Log].
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// expired returns the ID up to which entries are too old.
func (p *product) expired(now time.Time, ttl time.Duration) eventlog.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Expired(now, ttl)
}

// expire trims to what is too old now, also where the file still
// has it. p is locked.
func (l *Log) expire(p *product) error {
	old := p.tail.Expired(time.Now(), l.retention.TTL)
	if p.oldest == (eventlog.ID{}) || p.oldest.Compare(old) > 0 {
		return nil
	}
	trimmedTo, _, err := l.around(p, old)
	if err != nil {
		return err
	}
	return l.raise(p, trimmedTo)
}

// raise trims to the ID of an entry. p is locked.
func (l *Log) raise(p *product, trimmedTo eventlog.ID) error {
	if trimmedTo.Compare(p.trimmedTo) <= 0 {
		return nil
	}
	_, oldest, err := l.around(p, trimmedTo)
	if err != nil {
		return err
	}
	p.tail.DropUpTo(trimmedTo, nil)
	p.trimmedTo, p.oldest = trimmedTo, oldest
	p.account()
	return nil
}

// around returns the newest entry up to id that readers may know of, zero for
// none, and the oldest one after it. p is locked.
func (l *Log) around(p *product, id eventlog.ID) (before, after eventlog.ID, err error) {
	newest := p.tail.Bounds().Newest
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if b == nil {
			return nil
		}
		c := b.Bucket(bucketLog).Cursor()
		k, v := c.Seek(appendID(nil, id))
		if k == nil {
			before, err = lastOf(c.Last())
			return err
		}
		first, last, err := runIDs(k, v)
		switch {
		case err != nil:
		case id.Compare(first) < 0:
			after = first
			before, err = lastOf(c.Prev())
		case id == last:
			before = id
			after, err = firstOf(c.Next())
		default: // within the run
			before, after = id, eventlog.ID{Milli: id.Milli, Seq: id.Seq + 1}
		}
		return err
	})
	if before.Compare(newest) > 0 {
		before = newest
	}
	if after.Compare(newest) > 0 {
		after = eventlog.ID{}
	}
	return before, after, err
}
