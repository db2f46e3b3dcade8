// Package watchtest lets a test see the operations of a log and of its documents, and make them
// fail or wait.
package watchtest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// Op is an operation of a log or of its documents.
type Op struct {
	Name      string // "append", "read", "bounds", "drop", "get", "list" or "write"
	ProductID string
	Documents []string // names, of "append", "get" and "write"
}

// ErrDown is the error of operations while a log or a store is down.
var ErrDown = errors.New("storage is down")

// Watch is what happens around operations. Its functions run concurrently where operations do; nil
// functions do nothing.
type Watch struct {
	Down atomic.Bool // operations fail with ErrDown
	// Before runs before an operation. Its error takes the place of the operation.
	Before func(ctx context.Context, op Op) error
	// After runs after an operation, with its error, and returns the error of the answer.
	After func(ctx context.Context, op Op, err error) error
}

// watched makes an operation. An answer with an error has no value.
func watched[T any](ctx context.Context, w *Watch, op Op, do func() (T, error)) (v T, err error) {
	if w.Before != nil {
		if err := w.Before(ctx, op); err != nil {
			return v, err
		}
	}
	if w.Down.Load() {
		return v, ErrDown
	}
	got, err := do()
	if w.After != nil {
		err = w.After(ctx, op, err)
	}
	if err != nil {
		return v, err
	}
	return got, nil
}

// Log is a watched log. Its documents are watched, too.
type Log struct {
	eventlog.Log
	Watch
	Skew time.Duration // of its clock
}

// Now implements [eventlog.Log].
func (l *Log) Now() time.Time { return l.Log.Now().Add(l.Skew) }

// Append implements [eventlog.Log].
func (l *Log) Append(ctx context.Context, productID string, entries []eventlog.Entry,
	changes ...document.Change) error {
	_, err := watched(ctx, &l.Watch, Op{"append", productID, namesOf(changes)}, func() (any, error) {
		return nil, l.Log.Append(ctx, productID, entries, changes...)
	})
	return err
}

// Read implements [eventlog.Log].
func (l *Log) Read(ctx context.Context, productID string, after eventlog.ID, dst []eventlog.Entry) (int, error) {
	return watched(ctx, &l.Watch, Op{Name: "read", ProductID: productID}, func() (int, error) {
		return l.Log.Read(ctx, productID, after, dst)
	})
}

// Bounds implements [eventlog.Log].
func (l *Log) Bounds(ctx context.Context, productID string) (eventlog.Bounds, error) {
	return watched(ctx, &l.Watch, Op{Name: "bounds", ProductID: productID}, func() (eventlog.Bounds, error) {
		return l.Log.Bounds(ctx, productID)
	})
}

// Drop implements [eventlog.Log].
func (l *Log) Drop(ctx context.Context, productID string, through document.Version) error {
	_, err := watched(ctx, &l.Watch, Op{Name: "drop", ProductID: productID}, func() (any, error) {
		return nil, l.Log.Drop(ctx, productID, through)
	})
	return err
}

// Documents implements [eventlog.Log].
func (l *Log) Documents() document.Store { return Store{l.Log.Documents(), &l.Watch} }

// Store is a watched store of documents.
type Store struct {
	document.Store
	*Watch
}

// Get implements [document.Store].
func (s Store) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	return watched(ctx, s.Watch, Op{"get", productID, names}, func() ([]document.Document, error) {
		return s.Store.Get(ctx, productID, names...)
	})
}

// List implements [document.Store].
func (s Store) List(ctx context.Context, productID, prefix, after string, limit int) ([]document.Document, error) {
	return watched(ctx, s.Watch, Op{Name: "list", ProductID: productID}, func() ([]document.Document, error) {
		return s.Store.List(ctx, productID, prefix, after, limit)
	})
}

// Write implements [document.Store].
func (s Store) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	return watched(ctx, s.Watch, Op{"write", productID, namesOf(changes)}, func() (document.Version, error) {
		return s.Store.Write(ctx, productID, changes...)
	})
}

func namesOf(changes []document.Change) (names []string) {
	for _, c := range changes {
		names = append(names, c.Name)
	}
	return names
}
