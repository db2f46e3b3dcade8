package redislog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// commit holds the changes of one call. Commits of a product share round trips. The caller
// fills it in; from the call of commit on it belongs to the goroutine that commits, until that
// has set err and version. args has the documents, the entries and the runs of actions, one
// behind the other; counts says how many there are of each. Entries and arguments have memory
// of their own.
type commit struct {
	entries []eventlog.Entry // copies, which get their IDs
	args    []any            // of the script, behind those that all calls share
	size    int              // of the arguments, about, in bytes
	counts  [3]int           // of documents, entries and runs of actions
	actions int              // in the runs
	work    int              // about how long Redis is busy with it: documents, keys and actions
	appends bool             // refused once the log is closed
	of      document.Version // the generation that it belongs to
	since   time.Time        // when it was ready
	gone    <-chan struct{}  // closed when its caller has given up; nil for never

	err     error
	version document.Version // of the documents put
}

// Append implements [eventlog.Log]. It files the actions of the entries' batches, too.
// Everything is encoded, and may be refused, before the round trip. The commit is never sent
// again: after an error of storage it is unknown whether the call had an effect.
func (l *Log) Append(
	ctx context.Context, productID string, entries []eventlog.Entry, changes ...document.Change,
) error {
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
			if err != nil {
				return fmt.Errorf("%w: %w", eventlog.ErrInvalid, err)
			}
			if who != nil {
				c.addIdentity(who, e.Keys)
			}
			gone, err := e.DecodeErasure()
			if err != nil {
				return fmt.Errorf("%w: %w", eventlog.ErrInvalid, err)
			}
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

// eraseWork is about how long Redis is busy with the erasure of a session.
const eraseWork = 50

// addDocuments adds changes that are valid, six arguments for each.
func (c *commit) addDocuments(changes []document.Change) {
	for i := range changes {
		change := &changes[i]
		c.args = append(c.args, int64(change.Op), change.Name, uint64(change.Prev), milliseconds(change.TTL),
			bytes.Clone(change.Value), order(change))
		c.size += len(change.Name) + len(change.Value)
	}
	c.counts[0] = len(changes)
	c.work += len(changes)
}

// order is added to the version of a document that does not yield: all such documents
// come after the others in the order of eviction. Versions are below 2^52, and scores
// exact up to 2^53.
func order(c *document.Change) int64 {
	if c.Yields {
		return 0
	}
	return 1 << 52
}

// milliseconds returns a time to live, rounded up, so that only zero means for ever.
func milliseconds(ttl time.Duration) int64 {
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

// addEntries adds copies of the entries, three arguments for each; the keys, 16 bytes each, are
// one.
func (c *commit) addEntries(entries []eventlog.Entry) {
	c.entries = slices.Clone(entries)
	for i := range c.entries {
		e := &c.entries[i]
		e.Own()
		keys := make([]byte, 0, len(e.Keys)*len(activity.Key{}))
		for k := range e.Keys {
			keys = append(keys, e.Keys[k][:]...)
		}
		c.args = append(c.args, e.SessionID, e.Data, keys)
		c.size += len(e.SessionID) + len(e.Data) + len(keys)
		c.work += 1 + len(e.Keys)
	}
	c.counts[1] = len(entries)
}
