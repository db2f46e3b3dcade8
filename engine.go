package liveactivity

import (
	"context"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// engine is a log and what it can do beyond the interface.
type engine struct {
	eventlog.Log
	store  activity.Store
	filing activity.Store // the store again, or nil when the log files actions itself
	isNew  bool           // nothing can be in the log yet
}

// What a log may be able to do beyond the interface.
type (
	runner interface {
		Run(ctx context.Context) error
	}
	pinger interface {
		Ping(ctx context.Context) error
	}
	expirer interface {
		Expire(ctx context.Context) error
	}
	counter interface {
		Stats() map[string]eventlog.Stats
	}
	filer  interface{ Activity() activity.Store }
	clock  interface{ Now() time.Time }
	storer interface {
		Storage(ctx context.Context, productID string) (eventlog.Storage, error)
	}
)

// newEngine returns the log and the store of the options, or their defaults.
func newEngine(o *Options) (e engine, err error) {
	e = engine{Log: o.Log, store: o.Store}
	if e.Log == nil {
		if e.Log, err = memorylog.New(&memorylog.Options{Retention: o.Retention}); err != nil {
			return e, err
		}
		e.isNew = true
	}
	filer, files := e.Log.(filer)
	switch {
	case e.store != nil:
		e.filing = e.store
	case files:
		e.store = filer.Activity()
	default:
		users := &activity.MemoryOptions{TTL: o.Retention.TTL, MaxEvents: o.MaxEvents, MaxBytes: o.Retention.StateMaxBytes / 8 * 3} // what presence leaves of a half
		if e.store, err = activity.NewMemory(users); err != nil {
			return e, err
		}
		e.filing = e.store
	}
	return e, nil
}

// isBehind reports whether the store has to catch up with the log first.
func (e engine) isBehind() bool { return e.filing != nil && !e.isNew }

// users returns the store where it is in memory.
func (e engine) users() (users *activity.Memory, ok bool) {
	users, ok = e.filing.(*activity.Memory)
	return users, ok
}

// drop removes everything that is kept of a product.
func (e engine) drop(ctx context.Context, productID string) error {
	if err := e.Drop(ctx, productID); err != nil {
		return err
	}
	if users, ok := e.users(); ok {
		users.Drop(productID)
	}
	return nil
}

// now returns the time by the clock that the log's ids are by.
func (e engine) now() time.Time {
	if log, ok := e.Log.(clock); ok {
		return log.Now()
	}
	return time.Now()
}

// storage returns what is kept of a product, in the log and in memory. Of a log
// that cannot say it is the zero value.
func (e engine) storage(ctx context.Context, productID string) (s eventlog.Storage, err error) {
	log, ok := e.Log.(storer)
	if !ok {
		return s, nil
	}
	if s, err = log.Storage(ctx, productID); err != nil {
		return s, err
	}
	if users, ok := e.users(); ok {
		s.StateBytes += users.Bytes(productID)
	}
	return s, nil
}

// entries returns how many entries of these products the log has, zero where it
// cannot say.
func (e engine) entries(productIDs []string) (n int64) {
	log, ok := e.Log.(counter)
	if !ok {
		return 0
	}
	all := log.Stats()
	for _, id := range productIDs {
		n += int64(all[id].Entries)
	}
	return n
}

// run does the log's own work until ctx ends.
func (e engine) run(ctx context.Context) error {
	if log, ok := e.Log.(runner); ok {
		return log.Run(ctx)
	}
	return nil
}

// ping returns why the log cannot be written to.
func (e engine) ping(ctx context.Context) error {
	if log, ok := e.Log.(pinger); ok {
		return log.Ping(ctx)
	}
	return nil
}

// expire frees what has expired.
func (e engine) expire(ctx context.Context) error {
	if users, ok := e.users(); ok {
		users.Expire()
	}
	if log, ok := e.Log.(expirer); ok {
		return log.Expire(ctx)
	}
	return nil
}
