// Package flow counts what happens for each product, minute by minute, and sums
// the counts of all servers that share a log.
//
// Counting touches memory only. While Run does, every server writes what it has
// counted of a product into a document of its own, and Read sums these. What was
// counted outlives its server, for as long as it is shown; what is true of now
// does so for seconds.
package flow

import (
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Config is what a [Meter] needs. Its functions are safe for concurrent use.
type Config struct {
	Documents document.Store                 // where servers share their counts; nil for a server that is alone
	Now       func() time.Time               // the time that all servers have in common
	Products  func() []string                // the ids of all products, sorted
	IsProduct func(productID string) bool    // nothing is counted for others
	Readers   func(productID string) int     // streams that this server has open
	Backlog   func(productID string) Backlog // what waits for delivery by this server; asked every two seconds
	Logger    *slog.Logger                   // of what goes wrong with sharing
}

// Backlog is what a server has still to deliver.
type Backlog struct {
	Lag   time.Duration   // how far the delivery is behind the log; zero when it has caught up
	Desks map[string]Desk // by the desk's name; nil for none
}

// Desk counts the conversations of a desk that wait for it.
type Desk struct {
	Parked   int `json:"parked"`
	Retrying int `json:"retrying"` // of these, the last request failed and is made again
}

// Meter counts for one server. Its methods are safe for concurrent use.
type Meter struct {
	config Config
	name   string // of the documents of this server

	mu   sync.Mutex
	gone activity.Flow // the totals of products that have been forgotten

	// Products are spread over shards, so that they share no lock under load.
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu  sync.RWMutex
	all map[string]*series // by product
}

// series is what is known of one product.
type series struct {
	mu      sync.Mutex
	minutes minutes
	changes uint64        // of minutes
	total   activity.Flow // since the meter began
	backlog Backlog
	shared  shared
}

// New returns a meter that has counted nothing.
func New(config Config) *Meter {
	m := &Meter{config: config, name: documentPrefix + uuid.NewString(), seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].all = map[string]*series{}
	}
	return m
}

// Count is an [activity.Meter].
func (m *Meter) Count(productID string, f activity.Flow) {
	s := m.find(productID)
	if s == nil {
		if s = m.begin(productID); s == nil {
			return
		}
	}
	now := m.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minutes = s.minutes.add(now, f)
	s.total = s.total.Plus(f)
	s.changes++
}

func (m *Meter) shard(productID string) *shard {
	return &m.shards[maphash.String(m.seed, productID)%uint64(len(m.shards))]
}

// find returns the series of a product, nil if there is none.
func (m *Meter) find(productID string) *series {
	shard := m.shard(productID)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.all[productID]
}

// begin returns the series of a product, which begins here if it is new, and nil
// for what is not a product.
func (m *Meter) begin(productID string) *series {
	if !m.config.IsProduct(productID) {
		return nil
	}
	shard := m.shard(productID)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s, ok := shard.all[productID]
	if !ok {
		s = &series{}
		shard.all[productID] = s
	}
	return s
}

// Forget forgets the minutes of a product, here. What is stored of it is for the
// caller to remove.
func (m *Meter) Forget(productID string) {
	shard := m.shard(productID)
	shard.mu.Lock()
	s := shard.all[productID]
	delete(shard.all, productID)
	shard.mu.Unlock()
	if s != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.gone = m.gone.Plus(s.sum())
	}
}

// Total returns what this server has counted since it began, of all products.
func (m *Meter) Total() activity.Flow {
	m.mu.Lock()
	total := m.gone
	m.mu.Unlock()
	for _, id := range m.counted() {
		if s := m.find(id); s != nil {
			total = total.Plus(s.sum())
		}
	}
	return total
}

// sum returns the total of a series.
func (s *series) sum() activity.Flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// counted returns the ids of the products that there is a series of.
func (m *Meter) counted() (ids []string) {
	for i := range m.shards {
		shard := &m.shards[i]
		shard.mu.RLock()
		ids = slices.AppendSeq(ids, maps.Keys(shard.all))
		shard.mu.RUnlock()
	}
	return ids
}

// keep keeps the backlog for Read, which must not cost what it costs to find out.
func (s *series) keep(b Backlog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backlog = b
}

// news returns what is to be stored with the gauges, in the place of what is, and
// false where others know it.
func (s *series) news(now time.Time, g gauges) (r report, before, next shared, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.shared
	if s.changes == before.changes && g.equal(before.gauges) && (g.areZero() || now.Before(before.at.Add(renewAfter))) {
		return r, before, next, false
	}
	if before.isOver(now) {
		before.version = 0
	}
	return report{slices.Clone(s.minutes), g, now.Add(freshFor).UnixMilli()}, before, shared{at: now, changes: s.changes, gauges: g}, true
}

// stored returns what is stored of a series, which may be nil.
func (s *series) stored() shared {
	if s == nil {
		return shared{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// drop forgets what was counted: storage has dropped it, because the product was
// removed and registered again. The mutex is held.
func (s *series) drop() {
	s.minutes = nil
	s.changes++
	s.shared = shared{changes: s.changes}
}
