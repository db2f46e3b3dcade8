package boltlog

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// product is what is in memory of a product's log.
type product struct {
	id     string
	bucket []byte

	// For who commits.
	keys  map[activity.Key]struct{} // of the entries in the file
	bytes int64                     // of the entries in the file
	last  stream.ID                 // the newest ID given, whatever became of it

	mu     sync.Mutex
	tail   *stream.Tail // the newest entries
	floor  stream.ID    // entries up to here are gone, or as good as gone
	oldest stream.ID    // the first entry after floor; zero for none
	stats  stream.Stats
}

func newProduct(id string, newest stream.ID) *product {
	return &product{id: id, bucket: []byte(productPrefix + id), keys: map[activity.Key]struct{}{},
		last: newest, tail: stream.NewTail(newest), floor: newest}
}

func (l *Log) product(id string) *product {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.products[id]
	if !ok {
		p = newProduct(id, l.born)
		l.products[id] = p
		if l.closed {
			p.tail.Close()
		}
	}
	return p
}

// load reads the file into memory.
func (l *Log) load() error {
	return l.view(func(tx *bolt.Tx) error {
		if err := checkFormat(tx); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if bytes.Equal(name, bucketFormat) {
				return nil
			}
			id, ok := bytes.CutPrefix(name, []byte(productPrefix))
			if !ok {
				return errMalformed
			}
			p, err := l.loadProduct(string(id), b)
			if err != nil {
				return fmt.Errorf("%w, in product %.40q", err, id)
			}
			l.products[p.id] = p
			return nil
		})
	})
}

func (l *Log) loadProduct(id string, b *bolt.Bucket) (*product, error) {
	if b == nil || b.Bucket(bucketLog) == nil || b.Bucket(bucketDocuments) == nil || b.Bucket(bucketExpiry) == nil {
		return nil, errMalformed
	}
	state, err := stateOf(b, []byte(productPrefix+id))
	if err != nil {
		return nil, err
	}
	p := newProduct(id, state.floor)
	if documents, err := countDocuments(b); err != nil || documents != state.documents {
		return nil, errMalformed
	}
	c := b.Bucket(bucketLog).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := p.count(k, v); err != nil {
			return nil, err
		}
	}
	if uint64(p.stats.Entries) != state.entries {
		return nil, errMalformed
	}
	p.stats.Bytes = p.bytes
	p.tail, err = l.loadTail(state.floor, p.last, c)
	return p, err
}

// countDocuments checks the documents of a product's bucket.
func countDocuments(b *bolt.Bucket) (n uint64, err error) {
	err = b.Bucket(bucketDocuments).ForEach(func(k, v []byte) error {
		n++
		r, err := parseRecord(k, v)
		if err == nil && (r.version == 0 || uint64(r.version) > b.Sequence()) {
			err = errMalformed
		}
		return err
	})
	return n, err
}

// count takes note of the next entry in the file.
func (p *product) count(k, v []byte) error {
	id, err := parseID(k)
	if err != nil {
		return err
	}
	_, keys, _, err := parseEntry(k, v)
	if err != nil || id.Compare(p.last) <= 0 {
		return errMalformed
	}
	if p.oldest == (stream.ID{}) {
		p.oldest = id
	}
	for _, key := range parseKeys(keys) {
		p.keys[key] = struct{}{}
	}
	p.bytes += int64(len(k) + len(v))
	p.stats.Entries++
	p.last = id
	return nil
}

// loadTail reads the newest entries of the file.
func (l *Log) loadTail(floor, newest stream.ID, c *bolt.Cursor) (*stream.Tail, error) {
	start := floor
	var bytes int64
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if bytes += int64(len(v)); bytes > l.tailBytes/2 {
			start, _ = parseID(k) // it was parsed before
			break
		}
	}
	tail := stream.NewTail(start)
	err := readEntries(c, start, newest, func(e stream.Entry) bool {
		tail.Add(e)
		return true
	})
	return tail, err
}

// readEntries calls each with the entries after the cursor up to newest, until
// that returns false. They are encoded and have memory of their own.
func readEntries(c *bolt.Cursor, after, newest stream.ID, each func(stream.Entry) bool) error {
	from := appendID(nil, after)
	k, v := c.Seek(from)
	if bytes.Equal(k, from) {
		k, v = c.Next()
	}
	for ; k != nil; k, v = c.Next() {
		id, err := parseID(k)
		if err != nil {
			return err
		}
		if id.Compare(newest) > 0 {
			return nil
		}
		session, keys, data, err := parseEntry(k, v)
		if err != nil {
			return err
		}
		e := stream.Entry{SessionID: string(session), Keys: parseKeys(keys), Data: data}
		e.Encode(id)
		if !each(e) {
			return nil
		}
	}
	return nil
}

// Read implements [stream.Log].
func (l *Log) Read(_ context.Context, productID string, after stream.ID, dst []stream.Entry) (int, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := l.expire(p); err != nil {
		return 0, err
	}
	if after.Compare(p.floor) < 0 {
		return 0, &stream.GapError{Floor: p.floor, Oldest: p.oldest}
	}
	newest := p.tail.Bounds().Newest
	if p.tail.Closed() && after.Compare(newest) >= 0 {
		return 0, stream.ErrClosed
	}
	if n, ok := p.tail.Read(after, dst); ok {
		return n, nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return l.readFile(p, after, newest, dst)
}

// maxRead is how many bytes of entries one call reads from the file.
const maxRead = 1 << 20

// readFile reads entries up to newest. Some may have been dropped since the
// caller looked.
func (l *Log) readFile(p *product, after, newest stream.ID, dst []stream.Entry) (n int, err error) {
	if len(dst) == 0 {
		return 0, nil
	}
	var gap *stream.GapError
	bytes := 0
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if gap, err = p.gapAfter(b, after, newest); err != nil || gap != nil {
			return err
		}
		return readEntries(b.Bucket(bucketLog).Cursor(), after, newest, func(e stream.Entry) bool {
			dst[n] = e
			n++
			bytes += len(e.Data)
			return n < len(dst) && bytes < maxRead
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

// gapAfter returns the error of a reader whose cursor is before the floor of
// the product's bucket, nil for one whose is not.
func (p *product) gapAfter(b *bolt.Bucket, after, newest stream.ID) (*stream.GapError, error) {
	state, err := stateOf(b, p.bucket)
	if err != nil || after.Compare(state.floor) >= 0 {
		return nil, err
	}
	gap := &stream.GapError{Floor: state.floor}
	if k, _ := b.Bucket(bucketLog).Cursor().First(); k != nil {
		if gap.Oldest, err = parseID(k); err == nil && gap.Oldest.Compare(newest) > 0 {
			gap.Oldest = stream.ID{} // nobody knows of it yet
		}
	}
	return gap, err
}

// Bounds implements [stream.Log].
func (l *Log) Bounds(_ context.Context, productID string) (stream.Bounds, error) {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := l.expire(p)
	return stream.Bounds{Floor: p.floor, Oldest: p.oldest, Newest: p.tail.Bounds().Newest}, err
}

// Changed implements [stream.Log].
func (l *Log) Changed(productID string) <-chan struct{} {
	p := l.product(productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Changed()
}

// expire raises the floor to what is too old now, also where the file still
// has it. p is locked.
func (l *Log) expire(p *product) error {
	old := stream.IDAt(time.Now().Add(-l.retention.TTL))
	if p.oldest == (stream.ID{}) || p.oldest.Compare(old) > 0 {
		return nil
	}
	floor, _, err := l.around(p, old)
	if err != nil {
		return err
	}
	return l.raise(p, floor)
}

// raise raises the floor to the ID of an entry. p is locked.
func (l *Log) raise(p *product, floor stream.ID) error {
	if floor.Compare(p.floor) <= 0 {
		return nil
	}
	_, oldest, err := l.around(p, floor)
	if err != nil {
		return err
	}
	p.tail.DropUpTo(floor, nil)
	p.floor, p.oldest = floor, oldest
	return nil
}

// around returns the newest entry up to id that readers may know of, zero for
// none, and the oldest one after it. p is locked.
func (l *Log) around(p *product, id stream.ID) (before, after stream.ID, err error) {
	newest := p.tail.Bounds().Newest
	err = l.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(p.bucket)
		if b == nil {
			return nil
		}
		c := b.Bucket(bucketLog).Cursor()
		at := appendID(nil, id)
		k, _ := c.Seek(at)
		if bytes.Equal(k, at) {
			before = id
			k, _ = c.Next()
		} else if previous := previousKey(c, k); previous != nil {
			before, _ = parseID(previous) // it was parsed when it was read or written
			k, _ = c.Next()
		}
		if k != nil {
			after, _ = parseID(k)
		}
		return nil
	})
	if before.Compare(newest) > 0 {
		before = newest
	}
	if after.Compare(newest) > 0 {
		after = stream.ID{}
	}
	return before, after, err
}

// previousKey moves the cursor, which is at k or at the end, to the entry
// before and returns its key.
func previousKey(c *bolt.Cursor, k []byte) []byte {
	if k == nil {
		k, _ = c.Last()
		return k
	}
	k, _ = c.Prev()
	return k
}
