// Package flow keeps each product's metrics per minute, and sums the counts of
// all servers that share a log.
//
// Counting touches only memory. While Run runs, every server writes its counts of a
// product into a separate document, and Read sums the documents. Counts outlive
// their server for as long as they are shown, gauges only for seconds.
package flow

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/tracing"
)

// Config has the dependencies of a [Meter]. Its functions are safe for concurrent use.
type Config struct {
	Documents document.Store                 // where servers share their counts
	Now       func() time.Time               // the clock shared by all servers
	Products  func() []string                // the IDs of all products
	Readers   func(productID string) int     // this server's open streams; called every two seconds, and by Read
	Backlog   func(productID string) Backlog // this server's pending deliveries; called every two seconds
	Logger    *slog.Logger                   // receives failures to share

	// Version returns the version of a product's first registration, to which the counts belong,
	// and false for an unknown product, which is not counted.
	Version func(productID string) (document.Version, bool)
}

// Backlog is the work that a server still has to deliver for a product.
type Backlog struct {
	// Lag is how long the oldest due note has had something to write; zero if none is due.
	Lag   time.Duration   `json:"lag,omitempty"`   // in nanoseconds
	Desks map[string]Desk `json:"desks,omitempty"` // keyed by desk name; nil for none
}

// Desk counts the conversations that wait for a desk.
type Desk struct {
	Parked   int `json:"parked"`   // their notes are overdue because the desk is down or limits requests
	Retrying int `json:"retrying"` // of these, the ones whose last request failed and is retried
}

// Meter counts for one server. Its methods are safe for concurrent use.
type Meter struct {
	config Config
	// name is unique to each process, so a restarted server never adds to the counts of its
	// predecessor.
	name string // of this server's documents

	mu   sync.Mutex         // also guards each series
	all  map[string]*series // keyed by product
	gone tracing.Flow       // totals of forgotten products
}

// series holds one product's counts and gauges, guarded by the meter's mu.
type series struct {
	of      document.Version // the registration's
	minutes minutes
	total   tracing.Flow // since the series began
	shared  report       // the stored one, which other servers know; zero for none
}

// New returns a meter without counts. It starts nothing, and calls the config's functions
// only from the first count on.
func New(config Config) *Meter {
	return &Meter{config: config, name: documentPrefix + uuid.NewString(), all: map[string]*series{}}
}

// Count is a [tracing.Meter]. It ignores events of an unknown product. It never waits for
// storage.
func (m *Meter) Count(productID string, f tracing.Flow) {
	s := m.series(productID, true)
	if s == nil {
		return
	}
	now := m.config.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.minutes.add(now, f)
	s.total = s.total.Plus(f)
}

// series returns the series of a product's registration, or nil. It drops the series of a
// registration that is over, whose counts stay in Total, and, if begin is true, creates one for a
// known product. mu must not be held: Config.Version may take its own locks.
func (m *Meter) series(productID string, begin bool) *series {
	version, ok := m.config.Version(productID)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[productID]
	if s != nil && (!ok || s.of != version) {
		m.forget(productID, s)
		s = nil
	}
	if s == nil && ok && begin {
		s = &series{of: version, minutes: minutes{}}
		m.all[productID] = s
	}
	return s
}

// forget drops a product's series, if it still has that one. mu must be held.
func (m *Meter) forget(productID string, s *series) {
	if m.all[productID] == s {
		delete(m.all, productID)
		m.gone = m.gone.Plus(s.total)
	}
}

// Total returns the counts of all products since this server began. It never decreases,
// as a counter requires.
func (m *Meter) Total() tracing.Flow {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.gone
	for _, s := range m.all {
		total = total.Plus(s.total)
	}
	return total
}

// counted returns the IDs of products that have a series.
func (m *Meter) counted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all))
}

// news returns the report to store with the new gauges, and false if other servers already
// know it: nothing was counted, and the gauges are unchanged and either zero or fresh.
func (m *Meter) news(s *series, g gauges) (r report, ok bool) {
	until := m.config.Now().Add(freshFor).UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	isFresh := g.areZero() || until < s.shared.Until+renewAfter.Milliseconds()
	if isFresh && g.equal(s.shared.gauges) && maps.Equal(s.minutes, s.shared.Minutes) {
		return r, false
	}
	return report{maps.Clone(s.minutes), g, until}, true
}
