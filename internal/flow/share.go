package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/outage"
)

// Each server has one document for each product with counts, and writes it alone: the
// compare-and-set does not guard against others, but tells an expired or dropped document from
// one that is there. A count reaches other servers within about two seconds. A server that dies
// takes the counts since its last write along.

// documentPrefix is how the names of the documents begin, one for each server.
const documentPrefix = "flow/"

const (
	shareEvery = 2 * time.Second
	// freshFor is how long gauges are believed that are not renewed: a server
	// that has died is seen to be gone by then.
	freshFor   = 15 * time.Second
	renewAfter = 5 * time.Second
	// keptFor is how long a document is kept that does not change: longer than it
	// says something.
	keptFor = (Span + 2) * time.Minute

	maxWrites    = 16 // of documents at the same time
	writeTimeout = 4 * time.Second
	// maxServers is how many documents of a product are summed at most: one for
	// every server of the last hour.
	maxServers = 500
)

// shared is the stored state of a series. The zero value is nothing stored.
type shared struct {
	version document.Version // zero for nothing
	at      time.Time        // when it was written, by the common clock
	changes uint64           // of the minutes stored
	gauges  gauges
}

// isOver reports whether the document is missing or may have expired. The minute between is a
// margin.
func (s shared) isOver(now time.Time) bool { return !now.Before(s.at.Add(keptFor - time.Minute)) }

// Run shares the counts until ctx ends. Call [Meter.Leave] after it. Of failures in a row only
// the first is logged; the counts stay in memory and are shared by the next pass that succeeds.
func (m *Meter) Run(ctx context.Context) {
	ticker := time.NewTicker(shareEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := m.share(ctx, m.look)
		if err != nil && ctx.Err() == nil && !failing {
			m.config.Logger.Log(ctx, outage.Level(err, slog.LevelWarn), "figures are shared late", "err", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Leave shares the last counts, and gauges of zero: this server has nothing open. Without it
// others believe the last gauges for freshFor. A pass that was cut off may have written all the
// same: then the first share meets a conflict, and the second one writes on top.
func (m *Meter) Leave(ctx context.Context) error {
	nothing := func(string) gauges { return gauges{} }
	if err := m.share(ctx, nothing); err != nil {
		return err
	}
	return m.share(ctx, nothing)
}

// look returns the gauges of now.
func (m *Meter) look(productID string) gauges {
	return gauges{m.config.Readers(productID), m.config.Backlog(productID)}
}

// share stores the news of all products for other servers, and forgets products that have been
// removed. It returns the first error, after all writes have ended. Calls must not overlap.
func (m *Meter) share(ctx context.Context, look func(productID string) gauges) error {
	var writing errgroup.Group
	writing.SetLimit(maxWrites)
	products := m.config.Products()
	for _, id := range products {
		g := look(id)
		if s := m.series(id, !g.areZero()); s != nil {
			writing.Go(func() error { return m.write(ctx, id, s, g) })
		}
	}
	for _, id := range m.counted() {
		if _, ok := slices.BinarySearch(products, id); ok {
			continue
		}
		if s := m.series(id, false); s != nil {
			m.Forget(id)
			writing.Go(func() error { return m.remove(ctx, id, s) })
		}
	}
	return writing.Wait()
}

// write stores the report of a product, unless the stored one still holds. The write is of the
// registration's generation, so counts of a dropped product are refused. A product that was
// removed while the write ran gets its document removed again.
func (m *Meter) write(ctx context.Context, productID string, s *series, g gauges) error {
	r, before, next, isNews := m.news(s, g)
	if m.config.Documents == nil || !isNews {
		return nil
	}
	value, err := r.encode()
	if err != nil {
		return fmt.Errorf("flow: encode: %w", err)
	}
	ctx = document.WithGenerations(ctx, func(string) document.Version { return s.of })
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	stored := document.Document{Name: m.name, Version: before.version}
	put := document.Put(stored, value, keptFor)
	put.Yields = true
	next.version, err = m.config.Documents.Write(ctx, productID, put)
	switch {
	case document.IsConflict(err):
		return m.reread(ctx, productID, s)
	case errors.Is(err, document.ErrDropped): // the counts were of an earlier registration
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.all[productID] == s {
			m.forget(productID)
		}
		return nil
	case err != nil:
		return fmt.Errorf("flow: write: %w", err)
	}
	m.mu.Lock()
	s.shared = next
	isGone := m.all[productID] != s // the product was removed meanwhile
	m.mu.Unlock()
	if isGone {
		return m.remove(ctx, productID, s)
	}
	return nil
}

// reread reads the document of a series after a conflict: it was written by a call whose answer
// was lost, or it is gone. In the first case the next pass writes on top of it; in the second,
// its counts are dropped with it.
func (m *Meter) reread(ctx context.Context, productID string, s *series) error {
	docs, err := m.config.Documents.Get(ctx, productID, m.name)
	if err != nil {
		return fmt.Errorf("flow: read: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if docs[0].Exists() {
		s.shared.version, s.shared.at = docs[0].Version, m.config.Now()
	} else {
		s.drop()
	}
	return nil
}

// remove removes the document of a product that was removed. One that is gone, or was written
// again, is no error.
func (m *Meter) remove(ctx context.Context, productID string, s *series) error {
	m.mu.Lock()
	version := s.shared.version
	m.mu.Unlock()
	if version == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	stored := document.Document{Name: m.name, Version: version}
	_, err := m.config.Documents.Write(ctx, productID, document.Delete(stored))
	if err != nil && !document.IsConflict(err) { // removed with everything else, usually
		return fmt.Errorf("flow: remove: %w", err)
	}
	return nil
}

// Sum is the figures of a product over all servers.
type Sum struct {
	Minutes []Minute // the last [Span], the oldest first, the current one last
	Readers int      // open streams
	Backlog          // the longest lag, and the sums by desk
}

// Read sums this server's counts, up to this moment, and the shared ones. It costs one look
// into storage, whose error it returns. The gauges of this server are of now, but for the
// backlog, which is up to two seconds old.
func (m *Meter) Read(ctx context.Context, productID string) (Sum, error) {
	m.mu.Lock()
	s, before := m.all[productID], shared{}
	if s != nil {
		before = s.shared
	}
	m.mu.Unlock()
	var docs []document.Document
	if m.config.Documents != nil {
		var err error
		if docs, err = m.config.Documents.List(ctx, productID, documentPrefix, "", maxServers); err != nil {
			return Sum{}, fmt.Errorf("flow: list: %w", err)
		}
	}
	now := m.config.Now()
	w, g := newWindow(now), gauges{readers: m.config.Readers(productID)}
	found := false
	for _, doc := range docs {
		if doc.Name == m.name {
			found = true
			continue
		}
		r, err := decodeReport(doc.Value)
		if err != nil {
			continue // of another version of this program
		}
		if w.add(r.minutes); r.until > now.UnixMilli() {
			g = g.plus(r.gauges)
		}
	}
	if s != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !found && before.version == s.shared.version && !before.isOver(now) {
			s.drop()
		}
		w.add(s.minutes)
		g = g.plus(gauges{Backlog: s.backlog})
	}
	return Sum{w, g.readers, g.Backlog}, nil
}
