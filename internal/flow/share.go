package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Each server has one document for each product with counts, which only it writes. A count reaches
// other servers within about two seconds. If a server dies, the counts since its last write are
// lost.

// documentPrefix is the prefix of the documents' names, which are unique per
// server.
const documentPrefix = "flow/"

const (
	shareEvery = 2 * time.Second
	// freshFor is how long gauges are valid without renewal, so a dead server's
	// gauges disappear after this time.
	freshFor   = 15 * time.Second
	renewAfter = 5 * time.Second
	// keptFor is how long an unchanged document is kept: longer than its counts
	// are shown.
	keptFor = (Span + 2) * time.Minute

	maxWrites    = 16 // concurrent writes of documents
	writeTimeout = 4 * time.Second
	// maxServers is the maximum number of a product's documents that are
	// summed: one for every server of the last hour.
	maxServers = 500
)

// Run shares the counts until ctx ends. Call [Meter.Leave] after it. Of consecutive failures
// only the first is logged; the counts stay in memory, and the next successful pass shares
// them.
func (m *Meter) Run(ctx context.Context) {
	ticker := time.NewTicker(shareEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := m.share(ctx, m.look)
		if err != nil && ctx.Err() == nil && !failing {
			m.config.Logger.Log(ctx, outage.Level(err, slog.LevelWarn), "counts reach other servers late", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Leave shares the last counts, and zero gauges, since this server no longer has anything
// open. Without it, others use the last gauges for freshFor.
func (m *Meter) Leave(ctx context.Context) error {
	return m.share(ctx, func(string) gauges { return gauges{} })
}

// look returns the current gauges.
func (m *Meter) look(productID string) gauges {
	return gauges{m.config.Readers(productID), m.config.Backlog(productID)}
}

// share stores the changed reports of all products for other servers, and drops products that
// have been removed. It returns the first error, after all writes have ended. Calls must not
// overlap.
func (m *Meter) share(ctx context.Context, look func(productID string) gauges) error {
	var writing errgroup.Group
	writing.SetLimit(maxWrites)
	for _, id := range m.config.Products() {
		g := look(id)
		if s := m.series(id, !g.areZero()); s != nil {
			writing.Go(func() error { return m.write(ctx, id, s, g) })
		}
	}
	for _, id := range m.counted() {
		m.series(id, false)
	}
	return writing.Wait()
}

// write stores a product's report, unless the stored one is still valid. The write uses the
// registration's generation, so counts of a dropped product are refused and dropped.
func (m *Meter) write(ctx context.Context, productID string, s *series, g gauges) error {
	r, isNews := m.news(s, g)
	if !isNews {
		return nil
	}
	ctx = document.WithGenerations(ctx, func(string) document.Version { return s.of })
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := m.store(ctx, productID, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, document.ErrDropped):
		m.forget(productID, s)
	case err != nil:
		return fmt.Errorf("flow: write: %w", err)
	default:
		s.shared = r
	}
	return nil
}

// store replaces the stored report, which may come from an earlier write whose answer was lost.
func (m *Meter) store(ctx context.Context, productID string, r report) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return document.Retry(ctx, func() error {
		docs, err := m.config.Documents.Get(ctx, productID, m.name)
		if err != nil {
			return err
		}
		put := document.Put(docs[0], value, keptFor)
		put.Yields = true
		_, err = m.config.Documents.Write(ctx, productID, put)
		return err
	})
}

// Sum is a product's counts and gauges over all servers.
type Sum struct {
	Minutes []Minute // the last [Span] minutes, oldest first
	gauges           // open streams, the longest lag, and sums per desk
}

// Read sums this server's current counts and the shared ones. It costs one storage request,
// whose error it returns. This server's gauges are current, except for the backlog, which
// is the one last shared.
func (m *Meter) Read(ctx context.Context, productID string) (Sum, error) {
	docs, err := m.config.Documents.List(ctx, productID, documentPrefix, "", maxServers)
	if err != nil {
		return Sum{}, fmt.Errorf("flow: list: %w", err)
	}
	now := m.config.Now()
	w, g := newWindow(now), gauges{Readers: m.config.Readers(productID)}
	for _, doc := range docs {
		if doc.Name == m.name {
			continue
		}
		var r report
		if err := json.Unmarshal(doc.Value, &r); err != nil {
			continue // written by another version of this program
		}
		if w.add(r.Minutes); r.Until > now.UnixMilli() {
			g = g.plus(r.gauges)
		}
	}
	if s := m.series(productID, false); s != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.add(s.minutes)
		g = g.plus(gauges{Backlog: s.shared.Backlog}) // computing it is too expensive here
	}
	return Sum{w, g}, nil
}
