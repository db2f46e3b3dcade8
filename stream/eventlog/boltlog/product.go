package boltlog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// product is a product's log in memory: all of its keys, and its newest entries. Only the
// committing goroutine changes keys, state and last, with mu held, so it reads them without
// mu. mu also guards tail, trimmedTo, oldest and tooMany; erased guards itself.
//
// Readers see the entries with trimmedTo < ID ≤ the tail's newest. The file may have more at
// both ends: expired ones that are still to be removed, and committed ones that are still to be
// published. The tail has the last of these entries, or none.
type product struct {
	id     string
	bucket []byte // its name

	mu        sync.Mutex
	keys      map[feed.Key]struct{} // of the entries in the file
	state     state                 // in the file
	last      eventlog.ID           // the newest ID assigned
	tail      *engine.Tail          // the newest entries
	erased    engine.Erasures       // in the file
	share     *fair.Share[*product]
	trimmedTo eventlog.ID // for readers: the file may still hold expired entries up to here
	oldest    eventlog.ID // the first entry after trimmedTo, zero for none
	tooMany   int64       // entries trimmed before they expired
}

// newProduct returns a product without entries in memory. The caller joins share.
func newProduct(id string, s state) *product {
	return &product{id: strings.Clone(id), bucket: []byte(productPrefix + id), keys: map[feed.Key]struct{}{},
		state: s, last: s.TrimmedTo, tail: engine.NewTail(s.TrimmedTo), trimmedTo: s.TrimmedTo}
}

// product returns the product with that ID. For an ID that it does not know it makes an empty
// product, in memory only, which stays until the log is released.
func (l *Log) product(id string) *product {
	return l.products.Get(id, func() *product {
		p := newProduct(id, state{Born: l.born, TrimmedTo: l.born})
		p.share = l.shares.Join(p)
		if l.closed.Load() {
			p.tail.Close()
		}
		return p
	})
}

// publish makes a committed batch visible: it files actions, wakes readers and updates everything
// that memory holds of the product, in one step under its lock. Nothing else makes appends
// visible.
func (l *Log) publish(b *batch) {
	p := b.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.dropped {
		p.keys = map[feed.Key]struct{}{}
		l.users.Drop(p.id)
	}
	for key, held := range b.keys {
		if held {
			p.keys[key] = struct{}{}
		} else {
			delete(p.keys, key)
		}
	}
	l.users.File(p.id, b.filings...) // before readers wake, so that a lookup finds every action in the stream
	p.state, p.last = b.state, b.last
	p.tooMany += b.tooMany
	p.tail.Add(b.added...)
	p.erased.Add(b.added...)
	if p.trimmedTo.Compare(b.state.TrimmedTo) < 0 {
		p.trimTo(b.state.TrimmedTo, b.oldest)
	} else if p.oldest == (eventlog.ID{}) && len(b.added) > 0 {
		p.oldest = b.added[0].ID
	}
	p.tail.Expired(b.t.now, l.retention.TTL) // records the first sight of IDs ahead of the clock
	p.tail.Shrink(l.tailBytes, nil)
	p.account()
}

// trimTo trims the log to an ID for readers; oldest is the first entry after it, zero for
// none. The keys stay until the entries are removed from the file. p is locked.
func (p *product) trimTo(id, oldest eventlog.ID) {
	p.tail.DropUpTo(id, nil)
	p.erased.DropUpTo(id)
	p.trimmedTo, p.oldest = id, oldest
	p.account()
}

// expired returns the ID up to which entries are too old at now. The caller does not hold p's
// lock.
func (p *product) expired(now time.Time, ttl time.Duration) eventlog.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail.Expired(now, ttl)
}

// keyCost is the size of a key in a map that is half full, in bytes.
const keyCost = 40

// account updates the product's share of memory. p is locked. A product with a single entry has
// nothing to give up.
func (p *product) account() {
	p.share.Set(p.tail.Bytes()+int64(keyCost*len(p.keys)), p.tail.Len() > 1 || p.state.Entries > 1)
}

// balance shortens tails while all products together hold too much memory. It returns the
// product that has to lose entries from the file, with their keys, if that is not enough. The
// caller holds no product's lock.
func (l *Log) balance() *product {
	for p, over := l.shares.Excess(); over; p, over = l.shares.Excess() {
		p.mu.Lock()
		shrunk := p.tail.Shrink(p.tail.Bytes()-1, nil) > 0 // by one entry: then another product may be next
		p.account()
		p.mu.Unlock()
		if !shrunk {
			return p
		}
	}
	return nil
}

// lighten is the operation that trims the product's oldest entries to save memory, at most
// step of them. The newest one stays.
func (p *product) lighten(t *transaction) (refusal, err error) {
	b, err := t.open(p, false)
	if b == nil || err != nil {
		return nil, err
	}
	n, err := b.trim(func(id eventlog.ID) bool { return id != b.last })
	b.tooMany += int64(n)
	return nil, err
}

// reading is how much of the file has been read by Open. total is the size of the file, which
// done need not reach: some pages are free.
type reading struct {
	report      func(done, total int64) // may be nil
	done, total int64                   // bytes
}

// add counts bytes of keys and values that were read, and reports them.
func (r *reading) add(n int) {
	r.done = min(r.done+int64(n), r.total)
	if r.report != nil {
		r.report(r.done, r.total)
	}
}

// load reads the whole file and so checks it. It returns, by product, changes that start the
// time to live of documents over if they were written while the clock was ahead. It needs no
// lock, because Open has not returned the log yet; after an error the log is not usable.
func (l *Log) load(r *reading) (ahead map[string][]document.Change, err error) {
	ahead = map[string][]document.Change{}
	err = l.view(func(tx *bolt.Tx) error {
		r.total, l.commits = tx.Size(), tx.ID()
		if err := checkFormat(tx); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if bytes.Equal(name, bucketFormat) || bytes.Equal(name, bucketDropped) {
				return nil
			}
			id, ok := strings.CutPrefix(string(name), productPrefix)
			if !ok {
				return errMalformed
			}
			p, changes, err := l.loadProduct(id, b, r)
			if err != nil {
				return fmt.Errorf("%w, in product %.40q", err, id)
			}
			if len(changes) > 0 {
				ahead[id] = changes
			}
			l.products.Get(id, func() *product { return p })
			p.share = l.shares.Join(p)
			p.account()
			l.balance()
			return nil
		})
	})
	return ahead, err
}

// loadProduct reads a product, counts its entries and documents, and compares the totals with
// its state, which shows whether a page got lost.
func (l *Log) loadProduct(id string, b *bolt.Bucket, r *reading) (p *product, ahead []document.Change, err error) {
	if slices.ContainsFunc(productBuckets[:], func(name []byte) bool { return b.Bucket(name) == nil }) {
		return nil, nil, errMalformed
	}
	s, err := parseState(b, []byte(productPrefix+id))
	if err != nil {
		return nil, nil, err
	}
	p = newProduct(id, s)
	found := state{Born: s.Born, TrimmedTo: s.TrimmedTo, Version: s.Version, Dropped: s.Dropped}
	if err := l.loadEntries(p, b.Bucket(bucketLog), &found, r); err != nil {
		return nil, nil, err
	}
	if ahead, err = loadDocuments(b, &found, r); err != nil {
		return nil, nil, err
	}
	if found != s {
		return nil, nil, errMalformed
	}
	return p, ahead, nil
}

// loadEntries reads the log, counts it into found and files its actions. It keeps the end of it, half
// of TailBytes measured in the file, in the tail. The IDs must increase.
func (l *Log) loadEntries(p *product, log *bolt.Bucket, found *state, r *reading) error {
	return log.ForEach(func(k, v []byte) error {
		e, err := parseEntry(k, v)
		if err != nil || e.ID.Compare(p.last) <= 0 {
			return errMalformed
		}
		if p.oldest == (eventlog.ID{}) {
			p.oldest = e.ID
		}
		for _, key := range e.Keys {
			p.keys[key] = struct{}{}
		}
		l.fileAgain(p.id, e)
		p.erased.Add(e)
		if p.state.Bytes-found.Bytes > uint64(l.tailBytes/2) {
			p.tail = engine.NewTail(e.ID)
		} else {
			p.tail.Add(e)
		}
		p.last = e.ID
		found.Entries++
		found.Bytes += entrySize(v)
		r.add(len(k) + len(v))
		return nil
	})
}

// fileAgain files an entry of the file. Nothing is filed of an entry that cannot be decoded, as at its
// append.
func (l *Log) fileAgain(productID string, e eventlog.Entry) {
	e.Batch, _ = e.Decode()
	if filings, err := engine.Filings([]eventlog.Entry{e}); err == nil {
		l.users.File(productID, filings...)
	}
}
