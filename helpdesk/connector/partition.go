package connector

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// partition is a part of a product's conversations while this process holds its
// lease.
type partition struct {
	*Connector
	productID string
	number    int
	lease     *document.Lease
	tasks     *tasks // beside notes
	logger    *slog.Logger

	spawn     func(work func(ctx context.Context) error) // starts a goroutine that ends with work
	mu        sync.Mutex
	lanes     map[string]*lane // by the conversation's key
	bySession map[string]*lane
	queues    map[string]*queue // by desk
	drafts    map[*lane]*draft  // summaries to be posted
	start     eventlog.ID       // where the log is followed from: everything before is written
	following bool              // the log is followed: conversations that come now are looked up in it
	config    Product           // the last known
	closing   bool              // nothing waits for the debounce time any more
}

const (
	storageRetry = time.Second
	listLimit    = 256 // documents
	measureEvery = 15 * time.Second
	sweepRounds  = 20 // measurements between two sweeps
)

// work keeps the partition's conversations supplied until ctx ends, which it does
// when the lease is lost, or the log is closed and Follow ends.
func (p *partition) work(ctx context.Context, source *eventlog.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	p.spawn = func(work func(context.Context) error) { group.Go(func() error { return work(ctx) }) }
	p.lanes, p.bySession, p.queues, p.drafts = map[string]*lane{}, map[string]*lane{}, map[string]*queue{}, map[*lane]*draft{}
	p.tasks = p.newTasks(p.productID, p.mayBegin)
	defer p.forgetMetrics()
	group.Go(func() error {
		if err := p.load(ctx); err != nil {
			return err
		}
		p.owns(p, true)
		defer p.owns(p, false)
		err := source.Entries(ctx, p.start, p.see)
		if errors.Is(err, eventlog.ErrClosed) {
			p.finish(ctx)
			p.owns(p, false)
			<-ctx.Done() // other partitions may not be finished
		}
		return err
	})
	group.Go(func() error { return p.tasks.Run(ctx) })
	group.Go(func() error { return p.tidy(ctx) })
	return group.Wait()
}

// mayBegin reports whether the lease lasts for long enough to make a request.
func (p *partition) mayBegin() bool { return time.Until(p.lease.Until()) > p.opts.LeaseTTL/3 }

// load reads the partition's conversations.
func (p *partition) load(ctx context.Context) error {
	bounds, err := p.log.Bounds(ctx, p.productID)
	for ; err != nil; bounds, err = p.log.Bounds(ctx, p.productID) {
		if err := p.storageFailed(ctx, err); err != nil {
			return err
		}
	}
	p.start = bounds.Newest
	prefix := partitionPrefix(p.number)
	for after := ""; ; {
		docs, err := p.docs.List(ctx, p.productID, prefix, after, listLimit)
		if err != nil {
			if err := p.storageFailed(ctx, err); err != nil {
				return err
			}
			continue
		}
		if len(docs) == 0 {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.following = true
			return nil
		}
		for _, doc := range docs {
			p.takeOver(strings.TrimPrefix(doc.Name, prefix), doc)
			after = doc.Name
		}
	}
}

// storageFailed waits before storage is asked again. It returns an error when that
// is no use: ctx has ended, or the log is closed.
func (p *partition) storageFailed(ctx context.Context, err error) error {
	if errors.Is(err, eventlog.ErrClosed) {
		return err
	}
	if ctx.Err() == nil {
		p.logger.Warn("notes wait for storage", "err", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(storageRetry):
		return nil
	}
}

// finishTick is how often it is looked at whether everything is written.
const finishTick = 10 * time.Millisecond

// finish writes what waits for the debounce time. It returns when that is written,
// when what is left has to wait for its desk, or when ctx ends.
func (p *partition) finish(ctx context.Context) {
	p.mu.Lock()
	p.closing = true
	now := time.Now()
	for _, l := range p.lanes {
		if l.index >= 0 && l.failures == 0 && l.due > now.UnixNano() {
			l.queue.put(l, now)
		}
	}
	p.mu.Unlock()
	for ctx.Err() == nil && p.isBusy() {
		time.Sleep(finishTick)
	}
}

// isBusy reports whether notes are being written, or are due and their desk takes
// them.
func (p *partition) isBusy() bool {
	product := p.product()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, l := range p.lanes {
		if l.index == working {
			return true
		}
		if _, ok := product.find(l.queue.desk); ok && l.index >= 0 && l.due <= now.UnixNano() && p.gate(p.productID, l.queue.desk).isOpen() {
			return true
		}
	}
	return false
}

// product returns the product's configuration, the last known one while storage
// cannot say.
func (p *partition) product() Product {
	config, ok, err := p.products.Product(p.productID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok && err == nil {
		p.config = config
	}
	config = p.config
	if p.closing {
		config.Notes.Debounce = 0
	}
	return config
}

// takeOver puts a stored conversation, or the sessions that were linked to it since,
// into memory. What was appended before is read from the log as the conversation's
// cursors say.
func (p *partition) takeOver(key string, doc document.Document) {
	if !doc.Exists() {
		return
	}
	conv, err := decodeConversation(doc)
	if err != nil {
		p.logger.Error("a conversation cannot be read and gets no notes", "conversation_id", key, "err", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	l, known := p.lanes[key]
	if !known {
		desk, _ := splitKey(key)
		l = &lane{key: key, queue: p.queue(desk), index: idle, used: now.Unix()}
		p.lanes[key] = l
		if conv.Writing != nil || len(conv.Redact) > 0 {
			l.queue.put(l, now.Add(settleTime))
			l.failures = 1 // so that it is not due earlier
		}
	}
	for i := range conv.Sessions {
		s := &conv.Sessions[i]
		if !p.join(l, s) {
			continue
		}
		if p.following {
			l.queue.arrived(l, s.Cursor.After, now, now, 0) // what was appended before may be passed already
		} else if s.Cursor.After.Compare(p.start) < 0 {
			p.start = s.Cursor.After
		}
	}
}

// join lets a session's entries wake up the lane, and reports whether they did not
// before: then everything after its cursor is to be read. The mutex is held.
func (p *partition) join(l *lane, s *session) bool {
	if l.has(s.ID) {
		return false
	}
	l.sessions = append(l.sessions, laneSession{id: s.ID, after: s.Cursor.After})
	p.bySession[s.ID] = l
	return true
}

// queue returns the queue of a desk. The mutex is held.
func (p *partition) queue(desk string) *queue {
	q, ok := p.queues[desk]
	if !ok {
		q = &queue{desk: desk, mu: &p.mu, wake: make(chan struct{}, 1)}
		p.queues[desk] = q
		p.spawn(func(ctx context.Context) error { return p.serve(ctx, q) })
	}
	return q
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// see wakes up the conversations of entries.
func (p *partition) see(entries []eventlog.Entry) error {
	debounce := p.product().Notes.Debounce
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		l, ok := p.bySession[e.SessionID]
		if !ok {
			continue
		}
		for _, s := range l.sessions {
			if s.id == e.SessionID && e.ID.Compare(s.after) > 0 {
				l.queue.arrived(l, e.ID.Previous(), earlier(e.ID.Time(), now), now, debounce)
			}
		}
	}
	return nil
}

// tidy forgets conversations that nothing has happened in for as long as their
// documents are kept, and shows what is overdue, until ctx ends.
func (p *partition) tidy(ctx context.Context) error {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for rounds := 1; ; rounds++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		p.measure()
		if rounds%sweepRounds == 0 {
			p.sweep(time.Now().Add(-p.conversationTTL()))
		}
	}
}

// sweep forgets the conversations that nothing has happened in since the time.
func (p *partition) sweep(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if l.index == idle && l.used < since.Unix() {
			p.forget(l)
		}
	}
}

// forget removes a lane that is not in a queue. The mutex is held.
func (p *partition) forget(l *lane) {
	delete(p.lanes, l.key)
	delete(p.drafts, l)
	for _, s := range l.sessions {
		if p.bySession[s.id] == l {
			delete(p.bySession, s.id)
		}
	}
}

// Backlog is what a process has still to write of a product.
type Backlog struct {
	Lag   time.Duration          // for how long the oldest note that is due has had something to say; zero when none is due
	Desks map[string]DeskBacklog // by the desk's name
}

// DeskBacklog counts the conversations of a desk that wait for it.
type DeskBacklog struct {
	Parked   int // the desk is away or limits them, so that their notes are overdue
	Retrying int // of these, the last request failed and is made again
}

// Backlog returns how far the notes of a product that this process writes are
// behind its log.
func (c *Connector) Backlog(productID string) Backlog {
	all := Backlog{Desks: map[string]DeskBacklog{}}
	for number := range partitions {
		c.mu.Lock()
		p := c.owned[partitionKey{productID, number}]
		c.mu.Unlock()
		if p != nil {
			p.addTo(&all, time.Now())
		}
	}
	return all
}

func (p *partition) addTo(all *Backlog, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if l.isOverdue(now) {
			desk := all.Desks[l.queue.desk]
			desk.Parked++
			if l.failures > 0 {
				desk.Retrying++
			}
			all.Desks[l.queue.desk] = desk
		}
		if l.since != 0 && (l.failures > 0 || l.due <= now.UnixNano()) {
			all.Lag = max(all.Lag, now.Sub(time.Unix(0, l.since)))
		}
	}
}

// measure shows how many notes are overdue.
func (p *partition) measure() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	overdue, first := map[*queue]int{}, map[*queue]int64{}
	for _, l := range p.lanes {
		if !l.isOverdue(now) {
			continue
		}
		if overdue[l.queue]++; first[l.queue] == 0 || l.since < first[l.queue] {
			first[l.queue] = l.since
		}
	}
	number := strconv.Itoa(p.number)
	for desk, q := range p.queues {
		p.metrics.parked.WithLabelValues(p.productID, desk, number).Set(float64(overdue[q]))
		p.metrics.since.WithLabelValues(p.productID, desk, number).Set(float64(first[q]) / 1e9)
	}
}

// forgetMetrics ends the metrics of what another process has now.
func (p *partition) forgetMetrics() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for desk := range p.queues {
		p.metrics.parked.DeleteLabelValues(p.productID, desk, strconv.Itoa(p.number))
		p.metrics.since.DeleteLabelValues(p.productID, desk, strconv.Itoa(p.number))
	}
}
