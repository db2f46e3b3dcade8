package fair

import (
	"container/heap"
	"math"
	"sync"
)

// Shares divides a number of bytes among owners. Its methods, and [Share]'s, are safe for
// concurrent use. Excess and the eviction that follows are separate steps, so owners that
// evict concurrently may evict more than needed.
type Shares[P any] struct {
	limit int64

	mu   sync.Mutex
	used int64        // by all shares, in most or not
	most shareHeap[P] // the shares that can release bytes, largest first
}

// Share is one owner's part of a [Shares].
type Share[P any] struct {
	shares *Shares[P]
	owner  P
	bytes  int64
	at     int // index in most, or -1
}

// NewShares returns a Shares with so many bytes; zero means no limit.
func NewShares[P any](limit int64) *Shares[P] {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return &Shares[P]{limit: limit}
}

// Join returns an empty share for the owner. It counts from its first Set. An owner need not
// leave, since an empty share costs nothing.
func (s *Shares[P]) Join(owner P) *Share[P] { return &Share[P]{shares: s, owner: owner, at: -1} }

// Set states how many bytes the owner holds now, and whether it can release some. If it
// cannot, Excess never returns it, but its bytes count.
func (s *Share[P]) Set(bytes int64, gives bool) {
	all := s.shares
	all.mu.Lock()
	defer all.mu.Unlock()
	all.used += bytes - s.bytes
	s.bytes = bytes
	switch {
	case gives && s.at < 0:
		heap.Push(&all.most, s)
	case gives:
		heap.Fix(&all.most, s.at)
	case s.at >= 0:
		heap.Remove(&all.most, s.at)
	}
}

// Excess returns the owner that must release something: the largest one that can, as long as
// the sum exceeds the limit. ok is false within the limit, and if no owner can release
// anything. Call it again after each eviction and Set.
func (s *Shares[P]) Excess() (owner P, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used <= s.limit || len(s.most) == 0 {
		return owner, false
	}
	return s.most[0].owner, true
}

// shareHeap is a heap of shares by size.
type shareHeap[P any] []*Share[P]

func (h shareHeap[P]) Len() int           { return len(h) }
func (h shareHeap[P]) Less(a, b int) bool { return h[a].bytes > h[b].bytes }
func (h shareHeap[P]) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].at, h[b].at = a, b
}

func (h *shareHeap[P]) Push(x any) {
	s := x.(*Share[P])
	s.at = len(*h)
	*h = append(*h, s)
}

func (h *shareHeap[P]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	s.at = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
