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

// Each server has one document for each product with counts, and writes it alone. A count reaches
// other servers within about two seconds. A server that dies takes the counts since its last write
// along.

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
	at      time.Time // when it was written, by the common clock
	changes uint64    // of the minutes stored
	gauges  gauges
}

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
// others believe the last gauges for freshFor.
func (m *Meter) Leave(ctx context.Context) error {
	return m.share(ctx, func(string) gauges { return gauges{} })
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
	for _, id := range m.config.Products() {
		g := look(id)
		if s := m.series(id, !g.areZero()); s != nil {
			writing.Go(func() error { return m.write(ctx, id, s, g) })
		}
	}
	for _, id := range m.counted() {
		if _, ok := m.config.Version(id); !ok {
			m.Forget(id)
		}
	}
	return writing.Wait()
}

// write stores the report of a product, unless the stored one still holds. The write is of the
// registration's generation, so counts of a dropped product are refused and forgotten.
func (m *Meter) write(ctx context.Context, productID string, s *series, g gauges) error {
	r, next, isNews := m.news(s, g)
	if m.config.Documents == nil || !isNews {
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
		if m.all[productID] == s {
			m.forget(productID)
		}
	case err != nil:
		return fmt.Errorf("flow: write: %w", err)
	default:
		s.shared = next
	}
	return nil
}

// store puts a report in the place of the one that is stored. An earlier write whose answer was
// lost may have put that.
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
	var docs []document.Document
	if m.config.Documents != nil {
		var err error
		if docs, err = m.config.Documents.List(ctx, productID, documentPrefix, "", maxServers); err != nil {
			return Sum{}, fmt.Errorf("flow: list: %w", err)
		}
	}
	now := m.config.Now()
	w, g := newWindow(now), gauges{Readers: m.config.Readers(productID)}
	for _, doc := range docs {
		if doc.Name == m.name {
			continue
		}
		var r report
		if err := json.Unmarshal(doc.Value, &r); err != nil {
			continue // of another version of this program
		}
		if w.add(r.Minutes); r.Until > now.UnixMilli() {
			g = g.plus(r.gauges)
		}
	}
	if s := m.series(productID, false); s != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.add(s.minutes)
		g = g.plus(gauges{Backlog: s.backlog})
	}
	return Sum{w, g.Readers, g.Backlog}, nil
}
