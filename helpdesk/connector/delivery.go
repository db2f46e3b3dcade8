package connector

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/fair"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// delivery is the work on a product's conversations in this process. It follows the log at all
// times and so knows which conversations are due. It takes the product's lease when one is due,
// works while it holds the lease, and releases it soon after.
//
// Two goroutines run all the time, and one for each piece of work while the lease is held:
//
//	follower   load, then see for each entry of the log: it makes lanes due
//	worker     waits until something is due, then leads under the lease, then waits again
//	spawn      a job, a call of a model or a search for sessions that links wait for
//
// They share the lanes and accounts, guarded by mu. No request to storage or to a desk is made
// while mu is held.
type delivery struct {
	productID  string
	store      *store
	linker     *linker
	products   Products
	opts       *Options
	metrics    *connectorMetrics
	assisted   *assisted
	watches    *fair.Shares[*delivery] // of all products
	modelCalls *semaphore.Weighted     // of calls of the model, running or waiting for their leases
	logger     *slog.Logger
	wake       schedule.Wake // something may be due earlier, or work has ended

	// mu guards everything below, and the fields of lanes and accounts.
	mu        sync.Mutex
	lanes     map[string]*lane    // by the conversation's key
	bySession map[string][]*lane  // the last is of the session's link, earlier ones of links that have ended
	loaded    eventlog.ID         // the newest entry when the conversations were read
	behind    bool                // entries up to loaded are still to be seen
	accounts  map[string]*account // by desk
	waiting   map[string]Waiting  // links that wait for their sessions, by the document's name
	lookAgain time.Time           // when their sessions are looked for next; far ahead during a look
	watch     watch
	config    Product // the last known
	swept     time.Time

	// spawn runs work in a goroutine of the lease; nil while the lease is not held. The context of the
	// work ends with the lease, and its error releases the lease. The caller holds mu.
	spawn   func(work func(ctx context.Context) error)
	running int  // goroutines of spawn
	seeking bool // another process may hold the lease
}

const (
	deskRetry    = 30 * time.Second // before a desk that is not configured is looked for again
	resolveEvery = time.Second      // between two looks for the sessions of waiting links
	sweepEvery   = 5 * time.Minute
	finishTick   = 10 * time.Millisecond
	// linger is how long a lease is held without work. It is longer than the time
	// that a write in doubt is left to settle, which starts again with each holder.
	linger = settleTime + time.Second
)

// follow works until ctx ends, or until the log is closed and read to its end and no job is at work:
// a request that is cut off is in doubt. Its error is ctx's, or eventlog.ErrClosed. It returns when
// all its goroutines have ended. It may be called once.
func (d *delivery) follow(ctx context.Context, source *eventlog.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		start, err := d.load(ctx)
		if err != nil {
			return err
		}
		err = source.Entries(ctx, start, d.see)
		for errors.Is(err, eventlog.ErrClosed) && d.isWorking() && ctx.Err() == nil {
			time.Sleep(finishTick)
		}
		return err
	})
	group.Go(func() error {
		for ctx.Err() == nil {
			if wait, _ := d.wait(); wait > 0 {
				d.wake.Await(ctx, wait)
				continue
			}
			d.mu.Lock()
			d.seeking = true
			d.mu.Unlock()
			err := document.WithLease(ctx, d.store.docs, d.productID, leaseName, document.DefaultLeaseTTL, d.lead)
			if err != nil && !errors.Is(err, errIdle) {
				return err
			}
		}
		return ctx.Err()
	})
	return group.Wait()
}

// load reads the product's conversations and waiting links, and returns where to start following
// the log: at the oldest cursor of a session, or for triggers watchSpan ago if that is earlier.
// It waits while storage is unavailable.
//
// The bounds of the log are read before the documents, so a change between the two reads is seen
// twice rather than missed: its notice comes after start.
func (d *delivery) load(ctx context.Context) (start eventlog.ID, err error) {
	product := d.product()
	for {
		bounds, err := d.store.log.Bounds(ctx, d.productID)
		start = bounds.Newest
		d.mu.Lock()
		d.loaded, d.behind = bounds.Newest, true
		d.mu.Unlock()
		if err == nil {
			err = document.Each(ctx, d.store.docs, d.productID, conversationPrefix, func(doc document.Document) {
				start = d.takeOver(doc, start)
			})
		}
		if err == nil {
			err = document.Each(ctx, d.store.docs, d.productID, waitingPrefix, func(doc document.Document) {
				d.mu.Lock()
				defer d.mu.Unlock()
				if w, ok := decodeWaiting(doc.Value); ok {
					d.waiting[doc.Name] = w
				}
			})
		}
		if err == nil {
			break
		}
		if err := d.store.awaitStorage(ctx, d.logger, err); err != nil {
			return start, err
		}
	}
	if product.assists() {
		start = eventlog.Earlier(start, eventlog.IDAt(d.store.now().Add(-watchSpan)))
	}
	d.wake.Signal()
	return start, nil
}

// takeOver puts a stored conversation into memory, and returns where to start reading the
// entries of its sessions: at start, or at the oldest cursor if that is earlier. Work that the
// document itself names is due immediately, and its machine when the rules say so; actions become
// due as the log is read. A document that cannot be read is logged and left unchanged.
func (d *delivery) takeOver(doc document.Document, start eventlog.ID) eventlog.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := linkOf(strings.TrimPrefix(doc.Name, conversationPrefix))
	c, err := decodeConversation(doc)
	if err != nil {
		d.logger.Error("a conversation cannot be read and gets no notes", "desk", of.Desk, "conversation_id",
			of.ConversationID, "err", err)
		return start
	}
	now := time.Now()
	l := d.lane(of, now)
	for i := range c.Sessions {
		s := &c.Sessions[i]
		d.join(l, s.ID, s.LinkedAt, s.Cursor.After, s.by() == byStranger)
		start = eventlog.Earlier(start, s.Cursor.After)
	}
	if c.Machine != nil {
		l.ensureMemo().machine = c.Machine
		d.lookAtMachine(l)
	}
	l.calm = d.store.hostTime(calm(c.NotedAt, d.store.now(), d.config.Notes.Interval))
	if c.Writing != nil || len(c.Redact)+len(c.Messages) > 0 || c.Contact != nil {
		d.lookAt(l, now, c.owned() || len(c.Sessions) == 0 || len(c.Messages) > 0 || c.Contact != nil)
	}
	return start
}

// lookAtMachine makes a lane due when the product's rules say so. The caller holds mu.
func (d *delivery) lookAtMachine(l *lane) {
	rules := d.config.rules(l.account.desk)
	if rules == nil || l.memo == nil || l.memo.machine == nil {
		return
	}
	if due, ok := rules.Due(*l.memo.machine); ok {
		d.lookAt(l, d.store.hostTime(due), true)
	}
}

// see handles entries of the log: it wakes the conversations that they concern, and asks the
// triggers. It makes no request and never fails. The follower calls it with all entries in
// order, and reuses the slice.
//
// An entry may already be written, after a restart or by another server: the job compares it
// with the cursor.
func (d *delivery) see(_ eventlog.ID, entries []eventlog.Entry) error {
	d.seeAll(entries, d.product(), time.Now())
	balance(d.watches)
	return nil
}

// seeAll is see without the bound of all products' watches.
func (d *delivery) seeAll(entries []eventlog.Entry, product Product, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch.core != product.Assistance {
		d.watch.reset(product.Assistance)
		for _, l := range d.lanes { // other rules, and perhaps the first in a while
			d.lookAtMachine(l)
		}
	}
	for i := range entries {
		e := &entries[i]
		if n, ok := decodeNotice(e); ok {
			d.applyNotice(n, now)
			continue
		}
		if gone, err := e.DecodeErasure(); err == nil && gone != nil {
			d.erase(gone)
			continue
		}
		for _, l := range d.bySession[e.SessionID] {
			if s := l.session(e.SessionID); s != nil && e.ID.Compare(s.after) > 0 && d.concerns(e, l) {
				d.arrived(l, s, e.ID.Previous(), sooner(d.store.hostTime(e.ID.Time()), now), now, product.Notes.Debounce)
			}
		}
		if product.Assistance != nil && e.SessionID != "" {
			d.askAbout(e, product.Assistance)
		}
	}
	if n := len(entries); d.behind && n > 0 && entries[n-1].ID.Compare(d.loaded) >= 0 {
		d.behind = false
		d.wake.Signal()
	}
	d.watch.reportBytes()
	if now.Sub(d.swept) >= sweepEvery {
		d.sweep(now)
	}
}

// concerns reports whether an entry of a lane's session has an action of the lane's
// conversation. It reports true for entries up to loaded, whose actions may name no
// conversation: the job decides.
func (d *delivery) concerns(e *eventlog.Entry, l *lane) bool {
	if e.ID.Compare(d.loaded) <= 0 {
		return true
	}
	batch, err := e.Decode()
	if err != nil || batch == nil {
		return false
	}
	return slices.ContainsFunc(batch.Actions, func(a activity.BatchAction) bool {
		return a.ConversationID == l.link().ConversationID
	})
}

// applyNotice handles a notice: of a link that waits or no longer does, or of a change to a
// conversation's document, which makes its lane due. It does not read the document: the job
// does, and finds the state at that time.
func (d *delivery) applyNotice(n notice, now time.Time) {
	switch {
	case n.Gone != "":
		delete(d.waiting, n.Gone)
		return
	case n.Waiting != nil:
		d.waiting[n.Waiting.documentName()] = *n.Waiting
		d.wake.Signal()
		return
	}
	l := d.lane(n.Link, now)
	if n.SessionID != "" {
		d.join(l, n.SessionID, newLink, eventlog.ID{}, n.Stranger)
		l.session(n.SessionID).after = eventlog.ID{} // it may be linked again
		if n.Shared {
			d.watch.forget(n.SessionID) // triggers do not see another person's actions
		}
	}
	d.lookAt(l, now, !n.Stranger)
}

// erase forgets a person's sessions for triggers, models and offers. The result of a running
// model call is dropped: think sees the count. Notices name the conversations that change.
func (d *delivery) erase(e *feed.Erasure) {
	for _, id := range e.SessionIDs {
		d.watch.forget(id)
		for _, l := range d.bySession[id] {
			l.erasures++
			if m := l.memo; m != nil {
				m.draft, m.match, m.answer, m.machine = nil, nil, nil, nil
			}
		}
	}
}

// sweep forgets the conversations in which nothing has happened for as long as their
// documents are kept. It looks at every lane, so it runs once in sweepEvery.
func (d *delivery) sweep(now time.Time) {
	d.swept = now
	since := now.Add(-d.store.ttl)
	for _, l := range d.lanes {
		if !l.working && !l.slot.IsSet() && l.used.Before(since) {
			d.forget(l)
		}
	}
}

// wait returns how long the holder of the lease has to wait for work or for the time to ask a
// trigger again, an hour if there is none. Zero or less means work now. An account whose breaker
// is full has no work until a job ends. wait asks the triggers that are due first, because a match
// is work.
//
// busy reports whether the lease is to be kept: work is running, or a lane is due within linger,
// even if its desk is away. Another server would not know for how long the desk has asked to wait.
func (d *delivery) wait() (wait time.Duration, busy bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.askTriggers()
	now := time.Now()
	at, keep := now.Add(time.Hour), now.Add(linger)
	busy = d.running > 0
	for _, a := range d.accounts {
		for _, lanes := range []*schedule.Agenda[*lane]{&a.lanes, &a.turns.lanes} {
			due, some := lanes.Next()
			busy = busy || some && !due.After(keep)
			if opens, ok := a.opens(now, lanes == &a.turns.lanes); ok && some {
				at = sooner(at, schedule.Later(due, opens))
			}
		}
	}
	if len(d.waiting) > 0 {
		at = sooner(at, schedule.Later(d.lookAgain, now))
	}
	busy = busy || !at.After(keep)
	if ask, some := d.watch.asks.Next(); some && !d.behind {
		at = sooner(at, d.store.hostTime(ask))
	}
	return at.Sub(now), busy
}

// isWorking reports whether any job is at work.
func (d *delivery) isWorking() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		if a.others+a.strange > 0 {
			return true
		}
	}
	return false
}

// product returns the product's configuration: the last known one while storage is
// unavailable and after the product is gone, and the zero Product before any is known.
func (d *delivery) product() Product {
	config, ok, err := d.products.Product(d.productID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok && err == nil {
		d.config = config
	}
	return d.config
}
