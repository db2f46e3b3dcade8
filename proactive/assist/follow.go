package assist

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

const (
	leaseName    = "proactive/owner"
	lookEvery    = 250 * time.Millisecond // how often it is looked for what is due
	productEvery = 5 * time.Second        // how often a product that makes no offers is asked again
	storageRetry = time.Second
	listPage     = 256 // documents
	maxInFlight  = 32  // conversations of a product that a desk is asked something for
)

// Follow makes the offers of a product until ctx ends, or the log is closed and
// read. Every server calls it for every product, as a view of the log; the one
// that holds the product's lease works.
func (a *Assistant) Follow(ctx context.Context, productID string, source *eventlog.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return source.AwaitClose(ctx) }) // what is idle does not notice it
	group.Go(func() error {
		for {
			err := a.follow(ctx, productID, source)
			if !errors.Is(err, errReconfigured) {
				return err
			}
		}
	})
	return group.Wait()
}

// follow makes offers until the product is configured anew.
func (a *Assistant) follow(ctx context.Context, productID string, source *eventlog.Source) error {
	product, err := a.awaitOffers(ctx, productID)
	if err != nil {
		return err
	}
	return document.WithLease(ctx, a.docs, productID, leaseName, a.opts.LeaseTTL, func(ctx context.Context, lease *document.Lease) error {
		s := &shift{Assistant: a, productID: productID, core: product.Core, lease: lease, logger: a.logger.With("product_id", productID),
			sessions: map[string]*session{}, machines: map[conversation]proactive.Machine{}, due: map[conversation]*due{}}
		return s.work(ctx, source)
	})
}

// errReconfigured ends a shift whose product is configured in another way now.
var errReconfigured = errors.New("assist: the product was configured anew")

// awaitOffers returns when the product makes offers.
func (a *Assistant) awaitOffers(ctx context.Context, productID string) (Product, error) {
	for {
		product, _, err := a.products(productID)
		if err == nil && product.canOffer() {
			return product, nil
		}
		select {
		case <-ctx.Done():
			return Product{}, ctx.Err()
		case <-time.After(productEvery):
		}
	}
}

// shift is the work on a product while this process holds its lease.
type shift struct {
	*Assistant
	productID string
	core      *proactive.Core
	lease     *document.Lease
	logger    *slog.Logger
	inFlight  errgroup.Group

	mu       sync.Mutex
	sessions map[string]*session
	machines map[conversation]proactive.Machine // as they were last seen
	due      map[conversation]*due
}

// session is what is kept of a session: of those that did something within
// proactive.WindowSpan.
type session struct {
	window       proactive.Window
	conversation conversation // that it is linked to; zero for none
	again        time.Time    // when the core wants to be asked; zero for never
	newest       time.Time    // when it was seen last
}

// due is when a conversation's machine needs a tick.
type due struct {
	at       time.Time
	failures int
	busy     bool // something is in flight for it
}

// work makes offers until ctx ends, which it does when the lease is lost.
func (s *shift) work(ctx context.Context, source *eventlog.Source) error {
	s.inFlight.SetLimit(maxInFlight)
	defer func() { _ = s.inFlight.Wait() }()
	if err := s.load(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return source.Follow(ctx, "", s.now().Add(-proactive.WindowSpan), "", func(event, _ string, data []byte) error {
			if event == "" {
				s.see(ctx, data)
			}
			return nil
		})
	})
	group.Go(func() error { return s.look(ctx) })
	return group.Wait()
}

// load reads the machines of the product's conversations, for what is due.
func (s *shift) load(ctx context.Context) error {
	for after := ""; ; {
		docs, err := s.docs.List(ctx, s.productID, assistPrefix, after, listPage)
		if err != nil {
			s.logger.Warn("offers wait for storage", "err", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(storageRetry):
			}
			continue
		}
		if len(docs) == 0 {
			return nil
		}
		for _, doc := range docs {
			after = doc.Name
			var m proactive.Machine
			if err := m.UnmarshalJSON(doc.Value); err != nil {
				s.logger.Error("no offers are made in a conversation", "conversation_id", after, "err", err)
				continue
			}
			desk, id, _ := strings.Cut(strings.TrimPrefix(doc.Name, assistPrefix), "/")
			s.keep(conversation{s.productID, desk, id}, m)
		}
	}
}

// keep remembers a machine, and when it needs a tick.
func (s *shift) keep(c conversation, m proactive.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines[c] = m
	at, ticks := s.rules(c).Due(m, s.now())
	d, known := s.due[c]
	switch {
	case !ticks && known && !d.busy:
		delete(s.due, c)
	case !ticks && known:
		d.at = time.Time{}
	case ticks && known:
		d.at = at
	case ticks:
		s.due[c] = &due{at: at}
	}
}

// see takes the actions of an entry.
func (s *shift) see(ctx context.Context, data []byte) {
	var batch activity.Batch
	if json.Unmarshal(data, &batch) != nil || batch.Type != activity.BatchType || batch.SessionID == "" {
		return
	}
	now := s.now()
	s.mu.Lock()
	known, ok := s.sessions[batch.SessionID]
	if !ok {
		known = &session{}
		s.sessions[batch.SessionID] = known
	}
	known.newest = now
	s.mu.Unlock()
	if batch.ConversationID != "" {
		s.link(ctx, batch.SessionID, known)
	}
	for _, a := range batch.Actions {
		s.ask(ctx, batch.SessionID, known, func(m proactive.Machine, of proactive.Session) proactive.Decision {
			return s.core.Act(&known.window, m, of, a.Action, now)
		})
	}
}

// link finds out which conversation a session is linked to, and what is known of
// that.
func (s *shift) link(ctx context.Context, sessionID string, known *session) {
	of, _, err := s.dir.Session(ctx, s.productID, sessionID)
	if err != nil {
		s.logger.Warn("offers miss a session's link", "session_id", sessionID, "err", err)
		return
	}
	c := conversation{}
	if of.ConversationID != "" {
		c = conversation{s.productID, of.Desk, of.ConversationID}
	}
	s.mu.Lock()
	known.conversation = c
	_, cached := s.machines[c]
	s.mu.Unlock()
	if c.id == "" || cached {
		return
	}
	m, _, err := s.read(ctx, c)
	if err != nil {
		s.logger.Warn("offers miss what is known of a conversation", "conversation_id", c.id, "err", err)
		return
	}
	s.keep(c, m)
}

// ask asks the core about a session and makes the offer that it decides on.
func (s *shift) ask(ctx context.Context, sessionID string, known *session, decide func(proactive.Machine, proactive.Session) proactive.Decision) {
	s.mu.Lock()
	c := known.conversation
	d := decide(s.machines[c], proactive.Session{ProductID: s.productID, SessionID: sessionID, ConversationID: c.id})
	known.again = d.Again
	s.mu.Unlock()
	switch {
	case d.Reason == proactive.NoMatch, c.id == "":
	case d.Reason == proactive.Stale:
		s.decided(c, sessionID, d.Match.Result.TriggerID, d.Reason, nil)
	default:
		reason, err := s.offer(ctx, sessionID, c, d.Match)
		s.decided(c, sessionID, d.Match.Result.TriggerID, reason, err)
	}
}

// decided logs and counts what came of a trigger that matched.
func (s *shift) decided(c conversation, sessionID, trigger string, reason proactive.Reason, err error) {
	if err != nil {
		reason = storageFailed
	}
	if reason != proactive.Offered {
		s.metrics.suppressed.WithLabelValues(s.productID, trigger, string(reason)).Inc()
	}
	s.logger.Info("a trigger matched", "session_id", sessionID, "desk", c.desk, "conversation_id", c.id,
		"trigger_id", trigger, "decision", reason, "err", err)
}

// look does what is due until ctx ends, or the product is configured anew.
func (s *shift) look(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if product, _, err := s.products(s.productID); err == nil && (product.Core != s.core || !product.canOffer()) {
			return errReconfigured
		}
		now := s.now()
		for _, c := range s.ticks(now) {
			if !s.inFlight.TryGo(func() error { s.tick(ctx, c); return nil }) {
				s.settled(c, 0, true)
			}
		}
		for sessionID, known := range s.asks(now) {
			due := known.again
			s.link(ctx, sessionID, known)
			s.ask(ctx, sessionID, known, func(m proactive.Machine, of proactive.Session) proactive.Decision {
				return s.core.Ask(&known.window, m, of, due, now)
			})
		}
	}
}

// ticks returns the conversations whose machines need a tick.
func (s *shift) ticks(now time.Time) (all []conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, d := range s.due {
		if !d.busy && !d.at.After(now) {
			d.busy = true
			all = append(all, c)
		}
	}
	return all
}

// asks returns the sessions that the core wants to be asked about, and forgets
// those that have done nothing for long.
func (s *shift) asks(now time.Time) map[string]*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := map[string]*session{}
	for id, known := range s.sessions {
		switch {
		case !known.again.IsZero() && !known.again.After(now):
			due[id] = known
		case known.again.IsZero() && now.Sub(known.newest) > proactive.WindowSpan:
			delete(s.sessions, id)
			if s.due[known.conversation] == nil {
				delete(s.machines, known.conversation)
			}
		}
	}
	return due
}
