package boltlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// structure checks that every page of a bbolt file has exactly one use, and
// that keys are in order: bbolt would overwrite a page that is both free and in
// use, and never leave a circle. The values carry sums of their own.
//
// bbolt's Tx.Check does the same, but kills the process that calls it for a
// damaged file: it works in a goroutine of its own, where a fault of the memory
// map is fatal, and a circle of pages overflows its stack.
//
// Numbers are in the machine's byte order. A page begins with its number (8
// bytes), its kind (2), how many elements it has (2), and how many pages
// follow that belong to it (4). The elements of a branch are the place of its
// key, relative to the element (4), the key's size (4), and a page (8); those
// of a leaf are flags (4), the place of key and value (4) and their sizes (4,
// 4). The value of a bucket begins with its root page (8) and a sequence (8);
// if it has none, the page is the rest of the value.
type structure struct {
	file     io.ReaderAt
	pageSize int
	used     []bool // by page
	reading  *reading
}

const (
	kindBranch   = 1
	kindLeaf     = 2
	kindFreelist = 16
	flagBucket   = 1

	headSize    = 16
	elementSize = 16
	bucketSize  = 16
)

// checkStructure checks a file that was just opened. Its error is ErrDamaged or
// ErrForeign.
func checkStructure(db *bolt.DB, file interface {
	io.ReaderAt
	io.Seeker
}, r *reading) error {
	s := &structure{file: file, pageSize: db.Info().PageSize, reading: r}
	var tx uint64
	if err := db.View(func(t *bolt.Tx) error {
		tx, s.used = uint64(t.ID()), make([]bool, t.Size()/int64(s.pageSize))
		return nil
	}); err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil && size < int64(len(s.used)*s.pageSize) {
		err = fmt.Errorf("it ends after %d bytes", size)
	}
	if err == nil {
		r.begin(size)
		err = s.check(tx)
		r.checked()
	}
	if err == nil || errors.Is(err, ErrForeign) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Places in the first two pages, of which every other transaction writes one.
const (
	rootPageAt    = headSize + 16
	freePageAt    = headSize + 32
	transactionAt = headSize + 48
	firstPageEnd  = headSize + 64
)

// check checks the file as of a transaction.
func (s *structure) check(tx uint64) error {
	buf := make([]byte, firstPageEnd)
	for page := range int64(2) {
		if _, err := s.file.ReadAt(buf, page*int64(s.pageSize)); err != nil {
			return err
		}
		if binary.NativeEndian.Uint64(buf[transactionAt:]) != tx {
			continue
		}
		free := binary.NativeEndian.Uint64(buf[freePageAt:])
		if free == math.MaxUint64 { // the files of this package list their free pages
			return ErrForeign
		}
		if err := s.tree(binary.NativeEndian.Uint64(buf[rootPageAt:]), nil, nil); err != nil {
			return err
		}
		return s.freelist(free)
	}
	return errors.New("it has no first page")
}

// use marks pages as used.
func (s *structure) use(id uint64, more uint32) error {
	for end := id + uint64(more); id <= end; id++ {
		if id < 2 || id >= uint64(len(s.used)) || s.used[id] {
			return fmt.Errorf("page %d has two uses, or does not exist", id)
		}
		s.used[id] = true
	}
	return nil
}

// page reads and uses a page with those that belong to it.
func (s *structure) page(id uint64) ([]byte, error) {
	if id >= uint64(len(s.used)) {
		return nil, fmt.Errorf("missing page %d", id)
	}
	p, at := make([]byte, s.pageSize), int64(id)*int64(s.pageSize)
	if _, err := s.file.ReadAt(p, at); err != nil {
		return nil, err
	}
	s.reading.add(len(p))
	more := binary.NativeEndian.Uint32(p[12:])
	if binary.NativeEndian.Uint64(p) != id {
		return nil, fmt.Errorf("page %d is damaged", id)
	}
	if err := s.use(id, more); err != nil || more == 0 {
		return p, err
	}
	p = make([]byte, (int(more)+1)*s.pageSize)
	_, err := s.file.ReadAt(p, at)
	s.reading.add(int(more) * s.pageSize)
	return p, err
}

// tree checks the pages from a page down, whose keys are from low on and below
// high; nil means no bound.
func (s *structure) tree(id uint64, low, high []byte) error {
	p, err := s.page(id)
	if err == nil {
		err = s.elements(p, low, high)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

var errElement = errors.New("an element is damaged")

// elements checks the elements of a page and what they lead to.
func (s *structure) elements(p, low, high []byte) error {
	kind, n := binary.NativeEndian.Uint16(p[8:]), count(p)
	if kind != kindLeaf && (kind != kindBranch || n == 0) {
		return errors.New("it is of the wrong kind")
	}
	key, value, ok := element(p, 0)
	for i := range n {
		next, nextValue := high, []byte(nil)
		if i+1 < n && ok {
			next, nextValue, ok = element(p, i+1)
		}
		if !ok || bytes.Compare(key, low) < 0 || next != nil && bytes.Compare(key, next) >= 0 {
			return errElement
		}
		var err error
		switch {
		case kind == kindBranch:
			err = s.tree(binary.NativeEndian.Uint64(value), key, next)
		case binary.NativeEndian.Uint32(p[headSize+i*elementSize:])&flagBucket != 0:
			err = s.bucket(value)
		}
		if err != nil {
			return err
		}
		key, value = next, nextValue
	}
	return nil
}

func (s *structure) bucket(value []byte) error {
	if len(value) < bucketSize {
		return errElement
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return s.tree(root, nil, nil)
	}
	if value = value[bucketSize:]; len(value) < headSize {
		return errElement
	}
	return s.elements(value, nil, nil)
}

// freelist checks that the free pages are in no use, and that no others are.
func (s *structure) freelist(id uint64) error {
	p, err := s.page(id)
	if err != nil {
		return err
	}
	ids, n := p[headSize:], uint64(count(p))
	if n == 0xFFFF {
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if binary.NativeEndian.Uint16(p[8:]) != kindFreelist || n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: the free pages are damaged", id)
	}
	for i := range n {
		if err := s.use(binary.NativeEndian.Uint64(ids[8*i:]), 0); err != nil {
			return fmt.Errorf("page %d: of the free pages: %w", id, err)
		}
	}
	if lost := slices.Index(s.used[2:], false); lost >= 0 {
		return fmt.Errorf("nothing leads to page %d", lost+2)
	}
	return nil
}

func count(p []byte) int { return int(binary.NativeEndian.Uint16(p[10:])) }

// element returns an element's key, and its value: that of a branch is the page.
func element(p []byte, i int) (key, value []byte, ok bool) {
	at, end := uint64(headSize+i*elementSize), uint64(headSize+count(p)*elementSize)
	if i >= count(p) || end > uint64(len(p)) {
		return nil, nil, false
	}
	field := func(n uint64) uint64 { return uint64(binary.NativeEndian.Uint32(p[at+4*n:])) }
	from, size, valueSize := at+field(1), field(2), field(3)
	if binary.NativeEndian.Uint16(p[8:]) == kindBranch {
		from, size, valueSize = at+field(0), field(1), 0
	}
	if from < end || size == 0 || from+size+valueSize > uint64(len(p)) {
		return nil, nil, false
	}
	key, value = p[from:from+size], p[from+size:from+size+valueSize]
	if binary.NativeEndian.Uint16(p[8:]) == kindBranch {
		value = p[at+8 : at+16]
	}
	return key, value, true
}
