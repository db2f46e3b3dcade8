package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// errIdle ends the hold of a lease because there is nothing to do for a while. It is not a
// failure: the worker waits for work again, without the lease.
var errIdle = errors.New("connector: nothing to do")

// lead works until nothing is due soon, or the lease is lost. It returns after all goroutines
// that it spawned, so the lease is released only when nothing of this server is being written
// any more. Its error is errIdle, ctx's, or the first error of a job.
func (d *delivery) lead(ctx context.Context, lease *document.Lease) error {
	owned := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	d.mu.Lock()
	d.seeking = false
	d.spawn = func(work func(context.Context) error) { // the mutex is held
		d.running++
		group.Go(func() error {
			defer func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.running--
				d.wake.Signal()
			}()
			return work(ctx)
		})
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.spawn = nil
	}()
	group.Go(func() error {
		// The lease is kept for linger after the last work: taking it again costs writes to storage.
		for used := time.Now(); ctx.Err() == nil; {
			if err := d.dispatch(ctx, lease, owned); err != nil {
				return err
			}
			wait, busy := d.wait()
			if busy {
				used = time.Now()
			} else if time.Since(used) >= linger {
				return errIdle
			} else {
				wait = min(wait, time.Until(used.Add(linger)))
			}
			d.wake.Await(ctx, wait)
		}
		return ctx.Err()
	})
	return group.Wait()
}

// dispatch starts the work on everything that is due, as far as the accounts have room. The jobs
// of one account read their documents and their ranges of the log together. Only the goroutine of
// lead calls it.
func (d *delivery) dispatch(ctx context.Context, lease *document.Lease, owned time.Time) error {
	product := d.product()
	d.resolve()
	d.mu.Lock()
	accounts := slices.Collect(maps.Values(d.accounts))
	d.mu.Unlock()
	for _, a := range accounts {
		desk, configured := product.find(a.desk)
		lanes := d.popDue(a, configured)
		if len(lanes) == 0 {
			continue
		}
		can := desk.capabilities()
		jobs := make([]*job, len(lanes))
		for i, l := range lanes {
			jobs[i] = &job{d: d, lane: l, product: product, desk: desk.Desk, can: can, lease: lease, owned: owned}
		}
		if err := d.start(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// resolve starts to look for the sessions of waiting links if it is time. There is one look at a
// time, because many links on slow storage take long. The oldest link comes first, so that it wins
// if two wait for one session. Expired links are forgotten; their documents expire by themselves.
func (d *delivery) resolve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.store.now()
	maps.DeleteFunc(d.waiting, func(_ string, w Waiting) bool { return now.Sub(w.At) > 2*MaxWait }) // expired
	if len(d.waiting) == 0 || time.Now().Before(d.lookAgain) {
		return
	}
	d.lookAgain = time.Now().Add(time.Hour)
	links := slices.SortedFunc(maps.Values(d.waiting), func(a, b Waiting) int { return a.At.Compare(b.At) })
	d.spawn(func(ctx context.Context) error {
		err := d.linker.resolve(ctx, d.productID, links)
		if err != nil {
			err = d.store.awaitStorage(ctx, d.logger, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lookAgain = time.Now().Add(resolveEvery)
		return err
	})
}

// popDue returns the lanes of an account that are due, as many as the breaker lets pass, with
// strangers' lanes in their turn. It marks them as being worked on. Lanes of a desk that is
// not configured wait: popDue puts them back and returns none.
func (d *delivery) popDue(a *account, configured bool) (lanes []*lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	room := a.room()
	if a.isClosed() {
		room = 0
	}
	pop := func(from *schedule.Agenda[*lane]) (ok bool) {
		var l *lane
		if configured && !a.failing.IsZero() {
			l, ok = from.PopBest(now, probesBetter)
		} else {
			l, ok = from.Pop(now)
		}
		if ok {
			lanes = append(lanes, l)
		}
		return ok
	}
	if configured {
		// Each begin changes the account's counts, by which isTurn decides about the next one.
		for len(lanes) < room && pop(&a.lanes) {
			lanes[len(lanes)-1].begin()
		}
		for len(lanes) < room && a.strange < maxStrange && a.isTurn(now) && pop(&a.turns.lanes) {
			lanes[len(lanes)-1].begin()
		}
		return lanes
	}
	for pop(&a.lanes) || pop(&a.turns.lanes) {
	}
	if len(lanes) > 0 {
		d.logger.Warn("notes are late: the desk is not configured", "desk", a.desk)
	}
	for _, l := range lanes {
		d.put(l, now.Add(deskRetry))
	}
	return nil
}

// start reads the documents of jobs in one call and their ranges of the log in one scan, and
// starts the jobs. A lane whose document is gone or cannot be read is dropped. While storage is
// unavailable start puts all lanes back and waits. It fails only if the lease is lost, ctx has
// ended or the log is closed.
func (d *delivery) start(ctx context.Context, jobs []*job) error {
	// The ranges are determined first: a session that joins while the documents
	// are read is not in them, and its lane is due again.
	names := make([]string, len(jobs))
	d.mu.Lock()
	for i, j := range jobs {
		names[i] = j.lane.link().documentName()
		j.from, j.lane.from, j.lane.otherDue = j.lane.from, eventlog.ID{}, time.Time{}
		j.erasures, j.settles = j.lane.erasures, j.lane.settles
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
		j.plan()
		d.mu.Unlock()
		ready, wants = append(ready, j), append(wants, j.wants...)
	}
	// One scan serves all jobs: when a desk comes back, many lanes are due together and behind
	// in the same part of the log.
	if err := scan(ctx, d.store.log, d.productID, wants); err != nil {
		return d.putBack(ctx, ready, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range ready {
		d.spawn(j.run)
	}
	return nil
}

// putBack ends jobs because storage is unavailable, and waits before storage is asked again. The
// lanes are due immediately, and no failure is counted for them.
func (d *delivery) putBack(ctx context.Context, jobs []*job, err error) error {
	for _, j := range jobs {
		j.back(time.Now())
	}
	return d.store.awaitStorage(ctx, d.logger, err)
}
