package boltlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// structure checks that every page of a bbolt file has exactly one use, and
// that keys are in order: bbolt would overwrite a page that is both free and in
// use, and never leave a circle. The values carry sums of their own.
//
// bbolt's Tx.Check (1.5.0) cannot: a page number beyond the file is a fault in
// its own goroutine, which ends the process. A walk with cursors in this one,
// where a fault can be caught, never returns from a circle of pages.
type structure struct {
	file    io.ReaderAt
	size    int    // of a page
	used    []bool // by page
	reading *reading
}

// page is a page of the file with those that follow and belong to it, or the
// page inside the value of a small bucket. Numbers are in the machine's byte
// order. It begins with its number (8 bytes), its kind (2), how many elements it
// has (2), and how many pages follow (4). The elements of a branch are the place
// of its key, relative to the element (4), the key's size (4), and a page (8);
// those of a leaf are flags (4), the place of key and value (4) and their sizes
// (4, 4). The value of a bucket begins with its root page (8) and a sequence
// (8); if the root is 0, the page is the rest of the value.
type page []byte

const (
	kindBranch = 1
	kindLeaf   = 2
	flagBucket = 1

	headSize    = 16
	elementSize = 16
	bucketSize  = 16
)

func (p page) kind() uint16      { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int        { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) u32(at int) int64  { return int64(binary.NativeEndian.Uint32(p[at:])) }
func (p page) u64(at int) uint64 { return binary.NativeEndian.Uint64(p[at:]) }

// Places in the first two pages, which the transactions write in turn.
const (
	rootPageAt   = headSize + 16
	freePageAt   = headSize + 32
	firstPageEnd = headSize + 64
)

var errPage = errors.New("it is damaged")

// checkStructure checks a file that was just opened. Its error is ErrInvalid of
// bbolt for a file without a list of free pages, which those of this package have.
func checkStructure(db *bolt.DB, file *os.File, r *reading) error {
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return io.ErrUnexpectedEOF
	}
	r.begin(info.Size())
	defer r.checked()
	s := &structure{file: file, size: db.Info().PageSize, reading: r}
	s.used = make([]bool, tx.Size()/int64(s.size))
	return s.check(uint64(tx.ID()))
}

// check checks the file as of a transaction.
func (s *structure) check(tx uint64) error {
	first := make(page, firstPageEnd)
	if _, err := s.file.ReadAt(first, int64(tx%2)*int64(s.size)); err != nil {
		return err
	}
	if first.u64(freePageAt) == math.MaxUint64 {
		return bolterrors.ErrInvalid
	}
	if err := s.tree(first.u64(rootPageAt), nil, nil); err != nil {
		return err
	}
	return s.freelist(first.u64(freePageAt))
}

// use marks pages as used.
func (s *structure) use(id uint64, more int64) error {
	for end := id + uint64(more); id <= end; id++ {
		if id < 2 || id >= uint64(len(s.used)) || s.used[id] {
			return fmt.Errorf("page %d has two uses, or does not exist", id)
		}
		s.used[id] = true
	}
	return nil
}

// page reads and uses a page.
func (s *structure) page(id uint64) (page, error) {
	p, at := make(page, s.size), int64(id)*int64(s.size)
	if _, err := s.file.ReadAt(p, at); err != nil {
		return nil, err
	}
	more := p.u32(12)
	if p.u64(0) != id {
		return nil, errPage
	}
	if err := s.use(id, more); err != nil {
		return nil, err
	}
	s.reading.add(len(p))
	if more == 0 {
		return p, nil
	}
	p = make(page, (int(more)+1)*s.size)
	_, err := s.file.ReadAt(p, at)
	s.reading.add(len(p) - s.size)
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

// elements checks the elements of a page, the last one first, and what they lead
// to.
func (s *structure) elements(p page, low, high []byte) error {
	isBranch, n := p.kind() == kindBranch, p.count()
	if !isBranch && p.kind() != kindLeaf || headSize+n*elementSize > len(p) {
		return errPage
	}
	for i := n - 1; i >= 0; i-- {
		e := p[headSize+i*elementSize:]
		place, size, valueSize := e.u32(4), e.u32(8), e.u32(12)
		if isBranch {
			place, size, valueSize = e.u32(0), e.u32(4), 0
		}
		if size == 0 || place+size+valueSize > int64(len(e)) {
			return errPage
		}
		key, value := e[place:place+size], e[place+size:place+size+valueSize]
		if i == 0 && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return errPage
		}
		var err error
		switch {
		case isBranch:
			err = s.tree(e.u64(8), key, high)
		case e.u32(0)&flagBucket != 0:
			err = s.bucket(value)
		}
		if err != nil {
			return err
		}
		high = key
	}
	return nil
}

func (s *structure) bucket(value page) error {
	switch {
	case len(value) >= bucketSize && value.u64(0) != 0:
		return s.tree(value.u64(0), nil, nil)
	case len(value) >= bucketSize+headSize:
		return s.elements(value[bucketSize:], nil, nil)
	}
	return errPage
}

// freelist checks that the free pages are in no use, and that no others are.
func (s *structure) freelist(id uint64) error {
	p, err := s.page(id)
	if err != nil {
		return err
	}
	ids, n := p[headSize:], uint64(p.count())
	if n == math.MaxUint16 {
		n, ids = ids.u64(0), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: %w", id, errPage)
	}
	for i := range int(n) {
		if err := s.use(ids.u64(8*i), 0); err != nil {
			return fmt.Errorf("page %d: of the free pages: %w", id, err)
		}
	}
	if lost := slices.Index(s.used[2:], false); lost >= 0 {
		return fmt.Errorf("nothing leads to page %d", lost+2)
	}
	return nil
}
