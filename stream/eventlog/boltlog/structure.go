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

// structure checks how the pages of a bbolt file hang together before bbolt
// relies on it: a page that is referred to twice, or is both free and in use,
// would be written over, and a circle of pages would never end. Values are
// checked elsewhere, by the sums they carry.
//
// Numbers are in the machine's byte order. A page begins with its number (8
// bytes), its kind (2), how many elements it has (2), and how many pages
// follow that belong to it (4). The elements of a branch are the place of its
// key, relative to the element (4), the key's size (4), and a page (8); those
// of a leaf are flags (4), the place of key and value (4) and their sizes (4,
// 4).
type structure struct {
	file     io.ReaderAt
	pageSize int
	used     []bool   // by page: something refers to it
	bufs     [][]byte // by depth: a page and those that belong to it
}

// Kinds of pages, and the flag of a bucket's element in a leaf.
const (
	kindBranch   = 1
	kindLeaf     = 2
	kindFreelist = 16

	flagBucket = 1
)

const (
	headSize    = 16
	elementSize = 16
	bucketSize  = 16  // of a bucket's value: its root page, and its sequence
	maxDepth    = 100 // a thousandth of it is more than a full disk needs
)

// checkStructure checks a file that was just opened. Its error is ErrDamaged or
// ErrForeign.
func checkStructure(db *bolt.DB, file interface {
	io.ReaderAt
	io.Seeker
}) error {
	var tx, pages int64
	err := db.View(func(t *bolt.Tx) error {
		tx, pages = int64(t.ID()), t.Size()/int64(db.Info().PageSize)
		return nil
	})
	if err != nil {
		return err
	}
	s := &structure{file: file, pageSize: db.Info().PageSize}
	err = s.check(tx, pages, file)
	if err == nil || errors.Is(err, ErrForeign) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func (s *structure) check(tx, pages int64, file io.Seeker) error {
	if size, err := file.Seek(0, io.SeekEnd); err != nil || size < pages*int64(s.pageSize) {
		return errors.Join(fmt.Errorf("it ends after %d bytes", size), err)
	}
	s.used = make([]bool, pages)
	root, free, err := s.meta(uint64(tx))
	if err != nil {
		return err
	}
	if free == math.MaxUint64 { // this package's have a list of the free pages
		return ErrForeign
	}
	if err := s.tree(root, 0, nil, nil); err != nil {
		return err
	}
	return s.freelist(free)
}

// Places in the first two pages, of which every other transaction writes one.
const (
	rootPageAt    = headSize + 16
	freePageAt    = headSize + 32
	transactionAt = headSize + 48
	firstPageEnd  = headSize + 64
)

// meta returns the root page and the page of the free pages, as of a transaction.
func (s *structure) meta(tx uint64) (root, free uint64, err error) {
	buf := make([]byte, firstPageEnd)
	for page := range int64(2) {
		if _, err := s.file.ReadAt(buf, page*int64(s.pageSize)); err != nil {
			return 0, 0, err
		}
		if binary.NativeEndian.Uint64(buf[transactionAt:]) == tx {
			return binary.NativeEndian.Uint64(buf[rootPageAt:]), binary.NativeEndian.Uint64(buf[freePageAt:]), nil
		}
	}
	return 0, 0, errors.New("it has no first page")
}

// page reads a page and those that belong to it, into a buffer of the depth.
func (s *structure) page(id uint64, depth int) (page, error) {
	if depth >= maxDepth {
		return nil, fmt.Errorf("page %d is too deep", id)
	}
	if depth == len(s.bufs) {
		s.bufs = append(s.bufs, make([]byte, s.pageSize))
	}
	if id < 2 || id >= uint64(len(s.used)) {
		return nil, fmt.Errorf("missing page %d", id)
	}
	at := int64(id) * int64(s.pageSize)
	p := page(s.bufs[depth][:s.pageSize])
	if _, err := s.file.ReadAt(p, at); err != nil {
		return nil, err
	}
	more := uint64(p.more())
	if p.id() != id || id+more >= uint64(len(s.used)) {
		return nil, fmt.Errorf("page %d is damaged", id)
	}
	for i := id; i <= id+more; i++ {
		if err := s.use(i); err != nil {
			return nil, err
		}
	}
	if more == 0 {
		return p, nil
	}
	size := int(more+1) * s.pageSize
	if size > cap(p) {
		s.bufs[depth] = make([]byte, size)
	}
	p = s.bufs[depth][:size]
	_, err := s.file.ReadAt(p, at)
	return p, err
}

func (s *structure) use(id uint64) error {
	if id < 2 || id >= uint64(len(s.used)) || s.used[id] {
		return fmt.Errorf("page %d has two uses, or does not exist", id)
	}
	s.used[id] = true
	return nil
}

// tree checks the pages from a page down, whose keys are from low on and below
// high; nil means no bound.
func (s *structure) tree(id uint64, depth int, low, high []byte) error {
	p, err := s.page(id, depth)
	if err != nil {
		return err
	}
	switch p.kind() {
	case kindLeaf:
		err = s.leaf(p, depth, low, high)
	case kindBranch:
		err = s.branch(p, depth, low, high)
	default:
		err = errors.New("it is of the wrong kind")
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

var errElement = errors.New("an element is damaged")

func (s *structure) branch(p page, depth int, low, high []byte) error {
	n := p.count()
	if n == 0 {
		return errors.New("it is an empty branch")
	}
	key, child, ok := p.branchElement(0)
	if !ok || bytes.Compare(key, low) < 0 {
		return errElement
	}
	for i := range n {
		next, nextChild := high, uint64(0)
		if i+1 < n {
			if next, nextChild, ok = p.branchElement(i + 1); !ok {
				return errElement
			}
		}
		if next != nil && bytes.Compare(key, next) >= 0 {
			return errElement
		}
		if err := s.tree(child, depth+1, key, next); err != nil {
			return err
		}
		key, child = next, nextChild
	}
	return nil
}

func (s *structure) leaf(p page, depth int, low, high []byte) error {
	for i := range p.count() {
		flags, key, value, ok := p.leafElement(i)
		if c := bytes.Compare(key, low); !ok || c < 0 || c == 0 && i > 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return errElement
		}
		low = key
		if flags&flagBucket == 0 {
			continue
		}
		if err := s.bucket(value, depth); err != nil {
			return fmt.Errorf("bucket %.40q: %w", key, err)
		}
	}
	return nil
}

// bucket checks the bucket of that value. That of a small one is a page itself.
func (s *structure) bucket(value []byte, depth int) error {
	if len(value) < bucketSize {
		return errElement
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return s.tree(root, depth+1, nil, nil)
	}
	p := page(value[bucketSize:])
	if len(p) < headSize || p.kind() != kindLeaf || p.more() != 0 {
		return errElement
	}
	return s.leaf(p, depth, nil, nil)
}

// freelist checks that the free pages are in no use, and that no others are.
func (s *structure) freelist(id uint64) error {
	p, err := s.page(id, 0)
	if err != nil {
		return err
	}
	ids, n := p[headSize:], uint64(p.count())
	if n == 0xFFFF && len(ids) >= 8 {
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if p.kind() != kindFreelist || n > uint64(len(ids)/8) {
		return fmt.Errorf("page %d: the free pages are damaged", id)
	}
	for i := range n {
		if err := s.use(binary.NativeEndian.Uint64(ids[8*i:])); err != nil {
			return fmt.Errorf("page %d: of the free pages: %w", id, err)
		}
	}
	if lost := slices.Index(s.used[2:], false); lost >= 0 {
		return fmt.Errorf("nothing leads to page %d", lost+2)
	}
	return nil
}

// page is a page with those that belong to it.
type page []byte

func (p page) id() uint64   { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16 { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int   { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) more() uint32 { return binary.NativeEndian.Uint32(p[12:]) }

// part returns what lies at a place relative to an element.
func (p page) part(i int, place, size uint32) (part []byte, ok bool) {
	from := uint64(headSize+i*elementSize) + uint64(place)
	to := from + uint64(size)
	if from < uint64(headSize+p.count()*elementSize) || to > uint64(len(p)) {
		return nil, false
	}
	return p[from:to:to], true
}

func (p page) branchElement(i int) (key []byte, child uint64, ok bool) {
	at := headSize + i*elementSize
	if at+elementSize > len(p) {
		return nil, 0, false
	}
	e := p[at:]
	key, ok = p.part(i, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]))
	return key, binary.NativeEndian.Uint64(e[8:]), ok && len(key) > 0
}

func (p page) leafElement(i int) (flags uint32, key, value []byte, ok bool) {
	at := headSize + i*elementSize
	if at+elementSize > len(p) {
		return 0, nil, nil, false
	}
	e := p[at:]
	keySize, valueSize := binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
	place := binary.NativeEndian.Uint32(e[4:])
	key, ok = p.part(i, place, keySize)
	if !ok || keySize == 0 || uint64(place)+uint64(keySize) > 1<<32-1 {
		return 0, nil, nil, false
	}
	value, ok = p.part(i, place+keySize, valueSize)
	return binary.NativeEndian.Uint32(e), key, value, ok
}
