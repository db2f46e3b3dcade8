package redislog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// commit holds the changes of one call. Commits of a product share round trips. The caller
// fills it in. From the call of product.commit until err and version are set, it belongs to
// the committing goroutine. args has the documents, the entries and the runs of actions, in
// this order. Entries and arguments do not share the caller's memory.
type commit struct {
	entries   []eventlog.Entry // copies, which get their IDs
	args      []any            // of the script, after the ones that all calls share
	size      int              // of the arguments, approximately, in bytes
	documents int              // changed
	runs      int              // of actions
	actions   int              // in the runs
	work      int              // approximate work for Redis: documents, keys and actions
	appends   bool             // refused once the log is closed
	of        document.Version // the generation that it belongs to
	since     time.Time        // when it was ready

	err     error
	version document.Version // of the documents put
}

// Append implements [eventlog.Log]. It also files the actions of the entries' batches.
// Everything is encoded, and invalid arguments are refused, before the round trip. The
// commit is never sent again: after a storage error it is unknown whether the call had an
// effect.
func (l *Log) Append(ctx context.Context, productID string, entries []eventlog.Entry,
	changes ...document.Change) error {
	if err := errors.Join(engine.Validate(entries), document.Validate(changes)); err != nil {
		return err
	}
	switch {
	case l.closed.Load():
		return eventlog.ErrClosed
	case len(entries) == 0 && len(changes) == 0:
		return nil
	}
	if err := engine.Duplicates(entries, nil); err != nil {
		return err
	}
	c := &commit{appends: true, of: document.Generation(ctx, productID)}
	c.addDocuments(changes)
	c.addEntries(entries)
	for _, e := range entries {
		if e.Batch == nil {
			who, err := e.DecodeIdentity()
			gone, err2 := e.DecodeErasure()
			if err := errors.Join(err, err2); err != nil {
				return fmt.Errorf("%w: %w", eventlog.ErrInvalid, err)
			}
			c.addIdentity(who, e.Keys)
			if gone != nil {
				c.work += eraseWork * len(gone.SessionIDs)
			}
			continue
		}
		if err := c.addActions(e.Batch); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrInvalid, err)
		}
	}
	err := l.product(productID).commit(ctx, c)
	if err == nil {
		copy(entries, c.entries)
	}
	return err
}

// eraseWork is the approximate work of Redis for the erasure of a session.
const eraseWork = 50

// addDocuments adds valid changes, six arguments for each.
func (c *commit) addDocuments(changes []document.Change) {
	for i := range changes {
		change := &changes[i]
		c.args = append(c.args, int64(change.Op), change.Name, uint64(change.Prev), milliseconds(change.TTL),
			bytes.Clone(change.Value), order(change))
		c.size += len(change.Name) + len(change.Value)
	}
	c.documents = len(changes)
	c.work += len(changes)
}

// order returns the number to add to a document's version for the order of eviction:
// documents that do not yield come after all others. Versions are below 2^52, and
// scores are exact up to 2^53.
func order(c *document.Change) int64 {
	if c.Yields {
		return 0
	}
	return 1 << 52
}

// milliseconds returns a time to live, rounded up, so that only a zero TTL means
// forever.
func milliseconds(ttl time.Duration) int64 {
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

// addEntries adds copies of the entries, three arguments for each; its keys, 16 bytes each, are
// one argument.
func (c *commit) addEntries(entries []eventlog.Entry) {
	c.entries = slices.Clone(entries)
	for i := range c.entries {
		e := &c.entries[i]
		e.Own()
		keys := make([]byte, 0, len(e.Keys)*len(feed.Key{}))
		for k := range e.Keys {
			keys = append(keys, e.Keys[k][:]...)
		}
		c.args = append(c.args, e.SessionID, e.Data, keys)
		c.size += len(e.SessionID) + len(e.Data) + len(keys)
		c.work += 1 + len(e.Keys)
	}
}
