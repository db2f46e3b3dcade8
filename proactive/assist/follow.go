package assist

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

const (
	leaseName    = "proactive/owner"
	lookEvery    = 250 * time.Millisecond // how often it is looked for what is due
	sweepEvery   = 10 * time.Second       // how often it is looked for sessions that are over
	productEvery = 5 * time.Second        // how often a product that makes no offers is asked again
	storageRetry = time.Second
	listLimit    = 256 // documents
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
		return newShift(a, productID, product.Core, lease).work(ctx, source)
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
	core      *assistance.Core
	lease     *document.Lease
	logger    *slog.Logger
	inFlight  errgroup.Group
	at        atomic.Int64 // when the entry was appended that is being worked on, in Unix milliseconds; zero for none

	mu       sync.Mutex
	sessions map[string]*session
	talks    map[conversation]*talk
	asks     agenda // of sessions, by when the core wants to be asked
	ticks    agenda // of talks, by when their machines need a tick
	swept    time.Time
	looked   time.Time
}

func newShift(a *Assistant, productID string, core *assistance.Core, lease *document.Lease) *shift {
	return &shift{Assistant: a, productID: productID, core: core, lease: lease, logger: a.logger.With("product_id", productID),
		sessions: map[string]*session{}, talks: map[conversation]*talk{}}
}

// work makes offers until ctx ends, which it does when the lease is lost.
func (s *shift) work(ctx context.Context, source *eventlog.Source) error {
	s.inFlight.SetLimit(maxInFlight)
	defer func() { _ = s.inFlight.Wait() }()
	if err := s.load(ctx); err != nil {
		return err
	}
	s.works(s, true)
	defer s.works(s, false)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return source.Follow(ctx, "", s.now().Add(-assistance.WindowSpan), "", func(e feed.Event) error {
			switch e.Kind {
			case feed.Entry:
				at, _ := eventlog.ParseID(e.ID) // it is the log's
				s.at.Store(at.Time().UnixMilli())
				s.see(ctx, e.Message)
			case feed.CaughtUp: // there are no more for now
				s.at.Store(0)
			}
			return nil
		})
	})
	group.Go(func() error { return s.look(ctx) })
	return group.Wait()
}

// works records whether this process works on a product.
func (a *Assistant) works(s *shift, does bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if does {
		a.shifts[s.productID] = s
	} else if a.shifts[s.productID] == s {
		delete(a.shifts, s.productID)
	}
}

// Lag returns how far the offers of a product that this process makes are behind
// its log, zero when they have caught up.
func (a *Assistant) Lag(productID string) time.Duration {
	a.mu.Lock()
	s := a.shifts[productID]
	a.mu.Unlock()
	if s == nil {
		return 0
	}
	at := s.at.Load()
	if at == 0 {
		return 0
	}
	return max(0, a.now().Sub(time.UnixMilli(at)))
}

// load reads the machines of the product's conversations, for what is due.
func (s *shift) load(ctx context.Context) error {
	for after := ""; ; {
		docs, err := s.docs.List(ctx, s.productID, assistPrefix, after, listLimit)
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
			desk, id, _ := strings.Cut(strings.TrimPrefix(doc.Name, assistPrefix), "/")
			var m assistance.Machine
			if err := m.UnmarshalJSON(doc.Value); err != nil {
				s.logger.Error("no offers are made in a conversation", "desk", desk, "conversation_id", id, "err", err)
				continue
			}
			s.keep(conversation{s.productID, desk, id}, m)
		}
	}
}

// see takes the actions of an entry.
func (s *shift) see(ctx context.Context, m feed.Message) {
	batch, err := m.Batch()
	if err != nil || batch.SessionID == "" {
		return
	}
	now := s.now()
	known := s.session(batch.SessionID, now)
	s.link(ctx, known, batch.ConversationID)
	for _, a := range batch.Actions {
		s.ask(ctx, known, func(m assistance.Machine, of assistance.Session) assistance.Decision {
			return s.core.Act(&known.window, m, of, a.Action, now)
		})
	}
}

// link finds out at which desk the conversation is that a session is linked to, and
// what is known of it. An empty id is for no conversation.
func (s *shift) link(ctx context.Context, known *session, conversationID string) {
	if s.conversationOf(known).id == conversationID {
		return
	}
	c := conversation{}
	if conversationID != "" {
		of, _, err := s.dir.Session(ctx, s.productID, known.id)
		if err != nil {
			s.logger.Warn("offers miss a session's link", "session_id", known.id, "err", err)
		}
		if of.ConversationID != "" {
			c = conversation{s.productID, of.Desk, of.ConversationID}
		}
	}
	if !s.join(known, c) {
		return
	}
	m, _, err := s.read(ctx, c)
	if err != nil {
		s.logger.Warn("offers miss what is known of a conversation", "conversation_id", c.id, "err", err)
		return
	}
	s.learn(c, m, false)
}

// ask asks the core about a session and makes the offer that it decides on.
func (s *shift) ask(ctx context.Context, known *session, decide func(assistance.Machine, assistance.Session) assistance.Decision) {
	c, d := s.decide(known, decide)
	trigger := d.Match.Result.TriggerID
	switch {
	case d.Reason == assistance.NoMatch, c.id == "":
	case d.Reason == assistance.Stale:
		s.decided(c, known.id, trigger, d.Reason, nil)
	default:
		reason, err := s.offer(ctx, known.id, c, d.Match)
		s.decided(c, known.id, trigger, reason, err)
	}
}

// decided logs and counts what came of a trigger that matched.
func (s *shift) decided(c conversation, sessionID, trigger string, reason assistance.Reason, err error) {
	if reason != assistance.Offered {
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
		sessions, conversations := s.dueAt(now)
		for _, c := range conversations {
			if !s.inFlight.TryGo(func() error { s.tick(ctx, c); return nil }) {
				s.release(c)
			}
		}
		for known, due := range sessions {
			s.askAgain(ctx, known, due, now)
		}
	}
}

// askAgain asks the core about a session that has done nothing since it wanted to
// be asked at the time due. It may have been linked meanwhile.
func (s *shift) askAgain(ctx context.Context, known *session, due, now time.Time) {
	of, _, err := s.dir.Session(ctx, s.productID, known.id)
	if err != nil {
		s.logger.Warn("offers miss a session's link", "session_id", known.id, "err", err)
		return
	}
	s.link(ctx, known, of.ConversationID)
	s.ask(ctx, known, func(m assistance.Machine, of assistance.Session) assistance.Decision {
		return s.core.Ask(&known.window, m, of, due, now)
	})
}
