package connector

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// delivery is the work on the conversations of a product in this process. It follows
// the log all the time and so knows what is due; it does it while it holds the
// product's lease, which it takes when something is due and gives up soon after.
type delivery struct {
	productID string
	store     *store
	linker    *linker
	products  Products
	opts      *Options
	metrics   *connectorMetrics
	assisted  *assisted
	writer    *writer
	logger    *slog.Logger
	wake      chan struct{} // full when something may be due earlier, or work has ended

	mu        sync.Mutex
	lanes     map[string]*lane // by the conversation's key
	bySession map[string]*lane
	accounts  map[string]*account // by desk
	waiting   map[string]waiting  // links that wait for their sessions, by the document's name
	lookedFor time.Time           // when their sessions were looked for last
	watch     watch
	config    Product // the last known
	swept     time.Time
	closing   bool // nothing waits for the debounce time any more

	spawn   func(work func(ctx context.Context) error) // while the lease is held
	running int                                        // goroutines of spawn
	leading bool                                       // the lease is held
	seeking bool                                       // another process may hold it
}

const (
	deskRetry  = 30 * time.Second // before a desk is looked for again that is not configured
	resolving  = time.Second      // how often the sessions of waiting links are looked for
	sweepEvery = 5 * time.Minute
	finishTick = 10 * time.Millisecond
	finishTime = 2 * time.Second // that a stop waits for a lease
	// linger is how long a lease is held without work: longer than a write in doubt
	// is left to settle, which each holder counts anew.
	linger = settleTime + time.Second
)

// follow works until ctx ends, or the log is closed and read and everything is
// written that waits for the debounce time, as far as the desks answer.
func (d *delivery) follow(ctx context.Context, source *eventlog.Source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		start, err := d.load(ctx)
		if err != nil {
			return err
		}
		err = source.Entries(ctx, start, d.see)
		if errors.Is(err, eventlog.ErrClosed) {
			d.finish(ctx)
		}
		return err
	})
	group.Go(func() error {
		for ctx.Err() == nil {
			if !d.awaitWork(ctx) {
				break
			}
			d.mu.Lock()
			d.seeking = true
			d.mu.Unlock()
			err := document.WithLease(ctx, d.store.docs, d.productID, leaseName, d.opts.LeaseTTL, d.lead)
			if err != nil && !errors.Is(err, errIdle) {
				return err
			}
		}
		return ctx.Err()
	})
	return group.Wait()
}

// load reads the product's conversations and waiting links, and returns from where
// on the log is to be followed.
func (d *delivery) load(ctx context.Context) (start eventlog.ID, err error) {
	product := d.product()
	for {
		bounds, err := d.store.log.Bounds(ctx, d.productID)
		start = bounds.Newest
		if err == nil {
			err = d.store.each(ctx, d.productID, conversationPrefix, func(docs []document.Document) {
				d.mu.Lock()
				defer d.mu.Unlock()
				for _, doc := range docs {
					if from := d.takeOver(doc); from.Compare(start) < 0 {
						start = from
					}
				}
			})
		}
		if err == nil {
			err = d.store.each(ctx, d.productID, waitingPrefix, func(docs []document.Document) {
				d.mu.Lock()
				defer d.mu.Unlock()
				for _, doc := range docs {
					if w, ok := decodeWaiting(doc.Value); ok {
						d.waiting[doc.Name] = w
					}
				}
			})
		}
		if err == nil {
			break
		}
		if err := await(ctx, d.logger, err); err != nil {
			return start, err
		}
	}
	if product.assists() {
		if from := eventlog.IDAt(d.store.now().Add(-watchSpan)); from.Compare(start) < 0 {
			start = from
		}
	}
	signal(d.wake)
	return start, nil
}

// takeOver puts a stored conversation into memory, and returns from where on its
// sessions' entries are to be read.
func (d *delivery) takeOver(doc document.Document) (from eventlog.ID) {
	from = eventlog.IDAt(time.Now().Add(24 * time.Hour))
	key := strings.TrimPrefix(doc.Name, conversationPrefix)
	c, err := decodeConversation(doc)
	if err != nil {
		d.logger.Error("a conversation cannot be read and gets no notes", "conversation_id", key, "err", err)
		return from
	}
	now := time.Now()
	l := d.lane(key, now)
	for i := range c.Sessions {
		s := &c.Sessions[i]
		d.join(l, s.ID, s.Cursor.After)
		if s.Cursor.After.Compare(from) < 0 {
			from = s.Cursor.After
		}
	}
	if m, ok := c.machine(); c.Machine != nil {
		l.rare().machine = c.Machine
		if ok && d.config.offers(l.account.desk) {
			if due, ok := d.config.rules(l.account.desk).Due(m, d.store.now()); ok {
				d.lookAt(l, due)
			}
		}
	}
	if interval := d.config.Notes.Interval; interval > 0 && !c.NotedAt.IsZero() {
		l.calm = c.NotedAt.Add(interval).UnixNano()
	}
	if c.Writing != nil || len(c.Redact)+len(c.Messages) > 0 || c.Contact != nil {
		d.lookAt(l, now)
	}
	return from
}

// awaitWork returns when something is due, and reports false when ctx has ended.
func (d *delivery) awaitWork(ctx context.Context) bool {
	for ctx.Err() == nil {
		wait := time.Hour
		if at, ok := d.next(); ok {
			if wait = time.Until(at); wait <= 0 {
				return true
			}
		}
		d.sleep(ctx, wait)
	}
	return false
}

// sleep waits until something wakes the delivery.
func (d *delivery) sleep(ctx context.Context, wait time.Duration) {
	d.mu.Lock()
	if at, ok := d.watch.asks.Next(); ok {
		wait = min(wait, time.Until(at))
	}
	d.mu.Unlock()
	timer := time.NewTimer(max(0, wait))
	defer timer.Stop()
	select {
	case <-d.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// next returns when there is work for whoever holds the lease, and false for none.
// While the breaker of an account is full there is none for it until work ends.
func (d *delivery) next() (at time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ask()
	for _, a := range d.accounts {
		due, some := a.lanes.Next()
		opens, isOpen := a.opens()
		if some && isOpen {
			at = sooner(at, later(due, opens))
		}
	}
	if len(d.waiting) > 0 {
		at = sooner(at, d.lookedFor.Add(resolving))
	}
	return at, !at.IsZero()
}

// errIdle ends the hold of a lease: there is nothing to do for a while.
var errIdle = errors.New("connector: nothing to do")

// lead does what is due until nothing is for as long as the lease lasts, or the
// lease is lost.
func (d *delivery) lead(ctx context.Context, lease *document.Lease) error {
	owned := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	d.mu.Lock()
	d.leading, d.seeking = true, false
	d.spawn = func(work func(context.Context) error) { // the mutex is held
		d.running++
		group.Go(func() error {
			defer func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.running--
				signal(d.wake)
			}()
			return work(ctx)
		})
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leading = false
	}()
	group.Go(func() error {
		for used := time.Now(); ctx.Err() == nil; {
			if err := d.dispatch(ctx, lease, owned); err != nil {
				return err
			}
			wait := time.Hour
			if at, ok := d.next(); ok {
				wait = time.Until(at)
			}
			if wait <= linger || !d.isIdle(linger) {
				used = time.Now()
			} else if time.Since(used) >= linger {
				return errIdle
			} else {
				wait = min(wait, time.Until(used.Add(linger)))
			}
			d.sleep(ctx, wait)
		}
		return ctx.Err()
	})
	return group.Wait()
}

// isIdle reports whether nothing is being done, and nothing is due within the time
// that waits for its desk only.
func (d *delivery) isIdle(within time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		if due, ok := a.lanes.Next(); ok && time.Until(due) <= within {
			return false
		}
	}
	return d.running == 0
}

// dispatch starts the work on everything that is due.
func (d *delivery) dispatch(ctx context.Context, lease *document.Lease, owned time.Time) error {
	product := d.product()
	d.resolve()
	d.mu.Lock()
	accounts := make([]*account, 0, len(d.accounts))
	for _, a := range d.accounts {
		accounts = append(accounts, a)
	}
	d.mu.Unlock()
	for _, a := range accounts {
		desk, configured := product.find(a.desk)
		lanes := d.take(a, configured)
		if len(lanes) == 0 {
			continue
		}
		can := helpdesk.CapabilitiesOf(desk.Desk)
		jobs := make([]*job, len(lanes))
		for i, l := range lanes {
			jobs[i] = &job{d: d, lane: l, account: a, product: product, desk: desk.Desk, can: can, lease: lease, owned: owned}
		}
		if err := d.start(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// take returns the lanes of an account that are due, as many as the breaker lets
// pass. Those of a desk that is not configured wait.
func (d *delivery) take(a *account, configured bool) (lanes []*lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	room := a.room()
	for configured && len(lanes) < room {
		l, ok := a.lanes.Pop(now)
		if !ok {
			return lanes
		}
		l.working = true
		lanes = append(lanes, l)
	}
	if configured {
		return lanes
	}
	for l, ok := a.lanes.Pop(now); ok; l, ok = a.lanes.Pop(now) {
		lanes = append(lanes, l)
	}
	if len(lanes) > 0 {
		d.logger.Warn("notes are late: the desk is not configured", "desk", a.desk)
	}
	for _, l := range lanes {
		d.put(l, now.Add(deskRetry))
	}
	return nil
}

// start reads the documents of jobs, and what they are to write from the log, at
// once, and starts them. It fails only when the lease is of no use any more.
func (d *delivery) start(ctx context.Context, jobs []*job) error {
	// What is to be written is taken first: a session that joins while the documents
	// are read is not in them, and its lane is due again.
	names := make([]string, len(jobs))
	d.mu.Lock()
	for i, j := range jobs {
		names[i] = documentName(j.lane.key)
		j.from, j.lane.from, j.lane.other = j.lane.from, eventlog.ID{}, 0
	}
	d.mu.Unlock()
	docs, err := d.store.docs.Get(ctx, d.productID, names...)
	if err != nil {
		return d.putBack(ctx, jobs, err)
	}
	var ready []*job
	var wants []*want
	for i, j := range jobs {
		j.r.doc = docs[i]
		if j.r.conversation, err = decodeConversation(docs[i]); err != nil || !docs[i].Exists() {
			d.drop(j.lane)
			continue
		}
		d.mu.Lock()
		j.begin()
		d.mu.Unlock()
		d.know(j.lane, j.r.Machine)
		ready, wants = append(ready, j), append(wants, j.wants...)
	}
	if err := scan(ctx, d.store.log, d.productID, wants); err != nil {
		return d.putBack(ctx, ready, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range ready {
		j.wants = inOrder(j.wants)
		if !j.account.enter() { // it has closed meanwhile
			l := j.lane
			if j.from != (eventlog.ID{}) {
				l.readFrom(j.from)
			}
			l.working, l.other = false, l.slot.Due().UnixNano()
			d.put(l, l.slot.Due())
			continue
		}
		d.spawn(func(ctx context.Context) error {
			defer j.account.leave()
			return j.run(ctx)
		})
	}
	return nil
}

// putBack ends jobs for which storage is away.
func (d *delivery) putBack(ctx context.Context, jobs []*job, err error) error {
	for _, j := range jobs {
		j.back(time.Now())
	}
	return await(ctx, d.logger, err)
}

// draft has a model make a summary. The conversation is due when it is there. After
// a failure the model is asked again with the next note.
func (d *delivery) draft(l *lane, s *step) {
	d.think(l, func(m *more) { m.drafting = true }, func(ctx context.Context) func(*more) {
		text, err := d.writer.summarize(ctx, s.text)
		if err != nil && ctx.Err() == nil {
			d.logger.Warn("a session was not summarized; retrying at its next note", "session_id", s.session, "err", err)
		}
		return func(m *more) { m.drafting, m.draft = false, &draft{s.session, summed{s.upto, text}} }
	})
}

// compose has the reply to a message made. The conversation is due when it is there.
func (d *delivery) compose(l *lane, s *step, q Question, sessions []Linked) {
	d.think(l, func(m *more) { m.composing = true }, func(ctx context.Context) func(*more) {
		text, err := d.writer.reply(ctx, q, sessions)
		return func(m *more) {
			m.composing = false
			switch {
			case errors.Is(err, ErrNoReply):
				m.answer = &composed{message: s.message.ID, left: true}
			case err == nil:
				m.answer, m.failures[answers] = &composed{message: s.message.ID, text: text}, 0
			case ctx.Err() == nil:
				d.metrics.replies.WithLabelValues(d.productID, q.Desk, "retried").Inc()
				if m.failures[answers]++; m.failures[answers] == 1 {
					d.logger.Warn("a message is answered late", "desk", q.Desk, "conversation_id", q.ConversationID, "err", err)
				}
				m.again[answers] = time.Now().Add(pausing[answers].After(m.failures[answers]))
			}
		}
	})
}

// think has a model work beside the conversation, of which it remembers that it
// does, and what came of it.
func (d *delivery) think(l *lane, begun func(*more), work func(ctx context.Context) func(*more)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun(l.rare())
	d.spawn(func(ctx context.Context) error {
		done := work(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		done(l.rare())
		d.lookAt(l, time.Now())
		return ctx.Err()
	})
}

// finish writes what waits for the debounce time. It returns when that is written,
// when everything left has to wait for its desk or for another server, or when ctx
// ends.
func (d *delivery) finish(ctx context.Context) {
	d.mu.Lock()
	d.closing = true
	now := time.Now()
	for _, l := range d.lanes {
		if l.slot.IsSet() && l.from != (eventlog.ID{}) && l.failures == 0 && l.slot.Due().After(now) {
			l.calm = 0
			d.put(l, now)
		}
	}
	d.mu.Unlock()
	signal(d.wake)
	for ctx.Err() == nil && d.isBusy(time.Since(now)) {
		time.Sleep(finishTick)
	}
}

// isBusy reports whether notes are being written, or are due and their desk takes
// them. For the lease it is patient for so long.
func (d *delivery) isBusy(waited time.Duration) bool {
	product := d.product()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading && waited > finishTime {
		return false
	}
	now := time.Now()
	for _, l := range d.lanes {
		_, configured := product.find(l.account.desk)
		due := l.slot.IsSet() && !l.slot.Due().After(now) && (l.from != eventlog.ID{})
		if l.working || due && configured && l.account.isOpen() {
			return true
		}
	}
	return false
}

// product returns the product's configuration, the last known one while storage
// cannot say.
func (d *delivery) product() Product {
	config, ok, err := d.products.Product(d.productID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok && err == nil {
		d.config = config
	}
	config = d.config
	if d.closing {
		config.Notes.Debounce = 0
	}
	return config
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
	c.mu.Lock()
	d := c.followed[productID]
	c.mu.Unlock()
	if d == nil {
		return Backlog{Desks: map[string]DeskBacklog{}}
	}
	backlog, _ := d.backlog(time.Now())
	return backlog
}

// backlog returns the work that is late, and by desk since when; none while another
// process has the lease.
func (d *delivery) backlog(now time.Time) (all Backlog, since map[string]time.Time) {
	all, since = Backlog{Desks: map[string]DeskBacklog{}}, map[string]time.Time{}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seeking {
		return all, since
	}
	for _, l := range d.lanes {
		if l.isOverdue(now) {
			desk := all.Desks[l.account.desk]
			if desk.Parked++; l.failures > 0 {
				desk.Retrying++
			}
			all.Desks[l.account.desk] = desk
			since[l.account.desk] = sooner(since[l.account.desk], time.Unix(0, l.since))
		}
		if l.since != 0 && (l.failures > 0 || !l.working && l.slot.IsSet() && !l.slot.Due().After(now)) {
			all.Lag = max(all.Lag, now.Sub(time.Unix(0, l.since)))
		}
	}
	return all, since
}

// desks returns the names of the desks that had work while this process has the
// lease.
func (d *delivery) desks() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seeking {
		return nil
	}
	return slices.Collect(maps.Keys(d.accounts))
}

// signal fills a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
