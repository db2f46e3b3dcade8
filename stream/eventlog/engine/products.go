package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Products are the products of a log that this process has used, by ID. One is added at its first
// use, and never removed. The zero value has none. Products are safe for concurrent use.
type Products[P any] struct {
	mu  sync.Mutex
	all map[string]*P
}

// Get returns the product with that ID. At its first use that is the result of begin, which must
// not use the Products.
func (s *Products[P]) Get(id string, begin func() *P) *P {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.all[id]
	if !ok {
		if s.all == nil {
			s.all = map[string]*P{}
		}
		p = begin()
		s.all[strings.Clone(id)] = p
	}
	return p
}

// Known returns the product with that ID, or nil if it was never used.
func (s *Products[P]) Known(id string) *P {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// All returns the products used so far, in no order.
func (s *Products[P]) All() []*P {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}
