package boltlog

import (
	"bytes"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// place is where a mortal document is found when others are to make room, or its
// time is over: a key of the places bucket. Documents that were written together
// and expire together share one, and each has one.
type place struct {
	written uint64 // a write of the documents, for each of them the last or one before
	number  uint64 // distinguishes the places of a write; never zero
}

const placeSize = 16

func (p place) key() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, placeSize), p.written), p.number)
}

func parsePlace(key []byte) (place, error) {
	if len(key) != placeSize {
		return place{}, errMalformed
	}
	return place{binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])}, nil
}

// group is what is at a place.
type group struct {
	until int64    // milliseconds since the epoch; none of the documents expires before
	names [][]byte // of the documents
}

// groupBytes is how many bytes of names a group has at most, unless it has a single
// one: three to a page of the file.
const groupBytes = 1300

// encode returns the group as the value of its place, in newly allocated memory: a
// sum, the time, and each name behind its length.
func (g group) encode(key []byte) []byte {
	size := groupHead
	for _, name := range g.names {
		size += maxNameWidth + len(name)
	}
	value := binary.BigEndian.AppendUint64(make([]byte, sumSize, size), uint64(g.until))
	for _, name := range g.names {
		value = append(binary.AppendUvarint(value, uint64(len(name))), name...)
	}
	return seal(key, value)
}

const (
	groupHead    = sumSize + 8
	maxNameWidth = 2 // of the length of a name
)

// parseGroup decodes a group, whose names share the value's memory.
func parseGroup(key, value []byte) (group, error) {
	b, err := unseal(key, value)
	if err != nil || len(b) < 8 {
		return group{}, errMalformed
	}
	g := group{until: int64(binary.BigEndian.Uint64(b))}
	for b = b[8:]; len(b) > 0; {
		var name []byte
		if name, b, err = cutBytes(b, 1); err != nil {
			return group{}, err
		}
		g.names = append(g.names, name)
	}
	return g, nil
}

// setGroup changes what is at a place. A place without documents is gone.
func (b *buckets) setGroup(key []byte, g group) error {
	if len(g.names) > 0 {
		return b.places.Put(key, g.encode(key))
	}
	if err := b.expiry.Delete(expiryKey(g.until, key)); err != nil {
		return err
	}
	return b.places.Delete(key)
}

// leave takes a document out of its place.
func (b *buckets) leave(name []byte, at place) error {
	key := at.key()
	g, err := parseGroup(key, b.places.Get(key))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(g.names, func(other []byte) bool { return bytes.Equal(other, name) })
	if i < 0 {
		return errMalformed
	}
	g.names = slices.Delete(g.names, i, i+1)
	return b.setGroup(key, g)
}

// empty takes documents out of a place, while there is more to do. Those that go
// are removed, the others have a new place by their last write and their time.
func (b *buckets) empty(key []byte, more func() bool, goes func(record) bool) error {
	g, err := parseGroup(key, b.places.Get(key))
	if err != nil {
		return err
	}
	again := placing{buckets: b}
	for len(g.names) > 0 && more() {
		name := g.names[0]
		g.names = g.names[1:]
		r, err := parseRecord(name, b.documents.Get(name))
		if err != nil {
			return err
		}
		if goes(r) {
			err = b.delete(name, r)
		} else if err = again.add(name, &r); err == nil {
			err = b.documents.Put(name, r.append(nil, name))
		}
		if err != nil {
			return err
		}
	}
	if err := b.setGroup(key, g); err != nil {
		return err
	}
	return again.done()
}

// placing gives documents that have none a place.
type placing struct {
	*buckets
	at    place
	group group
	bytes int // of the group's names
}

// add finds the document a new place, by its last write and its time. The name
// must not change before done.
func (p *placing) add(name []byte, r *record) error {
	if p.at.written != r.written || p.group.until != r.until || p.bytes+len(name) > groupBytes {
		if err := p.done(); err != nil {
			return err
		}
		number, err := p.places.NextSequence()
		if err != nil {
			return err
		}
		p.at, p.group.until = place{r.written, number}, r.until
	}
	p.group.names, p.bytes = append(p.group.names, name), p.bytes+len(name)
	r.place = p.at
	return nil
}

// place finds the document, which was like before, the right place: the one it had
// while it expires no earlier, and none if it never expires. The name must not
// change before done.
func (p *placing) place(name []byte, before record, r *record) error {
	if r.until != 0 && r.until >= before.until && r.place != (place{}) {
		return nil
	}
	if r.place != (place{}) {
		if err := p.leave(name, r.place); err != nil {
			return err
		}
		r.place = place{}
	}
	if r.until == 0 {
		return nil
	}
	return p.add(name, r)
}

// done writes the place that the last documents were given.
func (p *placing) done() error {
	if len(p.group.names) == 0 {
		return nil
	}
	key := p.at.key()
	if err := p.setGroup(key, p.group); err != nil {
		return err
	}
	if err := p.expiry.Put(expiryKey(p.group.until, key), []byte{}); err != nil {
		return err
	}
	p.at, p.group.names, p.bytes = place{}, p.group.names[:0], 0
	return nil
}

const expirySize = 8 + placeSize

// expiryKey is the key of a place in the expiry bucket.
func expiryKey(until int64, placeKey []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, expirySize), uint64(until)), placeKey...)
}

// checkPlaces checks the places of a product's bucket, where so many documents are.
func checkPlaces(b *bolt.Bucket, documents int) error {
	places, names, n := b.Bucket(bucketPlaces), 0, 0
	err := b.Bucket(bucketExpiry).ForEach(func(k, _ []byte) error {
		if len(k) != expirySize {
			return errMalformed
		}
		g, err := parseGroup(k[8:], places.Get(k[8:]))
		if err == nil && uint64(g.until) != binary.BigEndian.Uint64(k) {
			err = errMalformed
		}
		names += len(g.names)
		n++
		return err
	})
	if err != nil {
		return err
	}
	err = places.ForEach(func(_, _ []byte) error {
		n--
		return nil
	})
	if err == nil && (n != 0 || names != documents) {
		err = errMalformed
	}
	return err
}
