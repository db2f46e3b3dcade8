// Package flow keeps each product's figures, minute by minute, and sums
// the counts of all servers that share a log.
//
// Counting touches memory only. While Run does, every server writes its counts of a
// product into a document of its own, and Read sums the documents. Counts outlive
// their server for as long as they are shown, gauges for seconds.
package flow

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
)

// Config has the dependencies of a [Meter]. Its functions are safe for concurrent use.
type Config struct {
	Documents document.Store                 // where servers share their counts; nil for a server that is alone
	Now       func() time.Time               // the time that all servers have in common
	Products  func() []string                // the ids of all products
	Readers   func(productID string) int     // this server's open streams; asked like Backlog, and by Read
	Backlog   func(productID string) Backlog // this server's pending deliveries; asked every two seconds
	Logger    *slog.Logger                   // gets failures of sharing

	// Version returns the version of a product's registration, which the counts belong to,
	// and false for an unknown product, which is not counted.
	Version func(productID string) (document.Version, bool)
}

// Backlog is the work that a server has still to deliver for a product.
type Backlog struct {
	// Lag is for how long the oldest note that is due has had something to say; zero when none is due.
	Lag   time.Duration   `json:"lag,omitempty"`   // in nanoseconds
	Desks map[string]Desk `json:"desks,omitempty"` // by the desk's name; nil for none
}

// Desk counts the conversations of a desk that wait for it.
type Desk struct {
	Parked   int `json:"parked"`   // the desk is away or limits them, so that their notes are overdue
	Retrying int `json:"retrying"` // of these, the last request failed and is made again
}

// Meter counts for one server. Its methods are safe for concurrent use.
type Meter struct {
	config Config
	// name is new for each process, so a server that starts again never adds to the counts of
	// the one before.
	name string // of the documents of this server

	mu   sync.Mutex         // guards the series, too
	all  map[string]*series // by product
	gone activity.Flow      // the totals of products that have been forgotten
}

// series holds the figures of one product, guarded by the meter's mu. changes tells whether
// shared is behind minutes.
type series struct {
	of      document.Version // the registration
	minutes minutes
	changes uint64        // of minutes, so far
	total   activity.Flow // since the series began
	backlog Backlog       // as it was seen last: to look costs too much for Read
	shared  shared        // as other servers know it
}

// New returns a meter that has counted nothing. It starts nothing; the config's functions are
// called from the first count on.
func New(config Config) *Meter {
	return &Meter{config: config, name: documentPrefix + uuid.NewString(), all: map[string]*series{}}
}

// Count is an [activity.Meter]. Events of an unknown product are not counted. It never waits
// for storage.
func (m *Meter) Count(productID string, f activity.Flow) {
	s := m.series(productID, true)
	if s == nil {
		return
	}
	now := m.config.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.minutes.add(now, f)
	s.total = s.total.Plus(f)
	s.changes++
}

// series returns the series of a product's registration, nil if there is none. It forgets the
// one of an earlier registration, and may begin one for a known product. mu is not held:
// Config.Version may take locks of its own.
func (m *Meter) series(productID string, begin bool) *series {
	version, ok := m.config.Version(productID)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.all[productID]
	if s != nil && ok && s.of != version {
		m.forget(productID)
		s = nil
	}
	if s == nil && ok && begin {
		s = &series{of: version, minutes: minutes{}}
		m.all[productID] = s
	}
	return s
}

// Forget forgets the minutes of a product in this process. Total still has them. Its documents
// are for the caller to remove.
func (m *Meter) Forget(productID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(productID)
}

// forget is Forget with m.mu held.
func (m *Meter) forget(productID string) {
	if s, ok := m.all[productID]; ok {
		delete(m.all, productID)
		m.gone = m.gone.Plus(s.total)
	}
}

// Total returns the counts of all products since this server began. It never falls, as a
// counter must not.
func (m *Meter) Total() activity.Flow {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.gone
	for _, s := range m.all {
		total = total.Plus(s.total)
	}
	return total
}

// counted returns the IDs of the products that have a series.
func (m *Meter) counted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all))
}

// news returns the report to be stored with the gauges in the place of an earlier one, and
// false if other servers know it: nothing was counted, and the gauges are the same and either
// zero or fresh. next is the stored state after the write.
func (m *Meter) news(s *series, g gauges) (r report, next shared, ok bool) {
	now := m.config.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.backlog = g.Backlog
	before := s.shared
	if s.changes == before.changes && g.equal(before.gauges) && (g.areZero() || now.Before(before.at.Add(renewAfter))) {
		return r, next, false
	}
	return report{maps.Clone(s.minutes), g, now.Add(freshFor).UnixMilli()}, shared{now, s.changes, g}, true
}
