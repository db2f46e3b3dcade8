package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/activity/feed"
)

// An erasure concerns sessions, and must come after what came before of each. So it is
// divided: a delivery for each session, in the session's own order, and one for what
// the user did outside any. They share the entry, which is finished when all of them are.

// parts counts the deliveries of an erasure that are not finished.
type parts struct{ left atomic.Int64 }

// finish records that a part was acknowledged, or has failed for long, and reports whether
// that finishes the entry.
func (p *parts) finish(done bool) bool { return p == nil || p.left.Add(-1) == 0 || !done }

// handErasure delivers an erasure, in parts. One that cannot be decoded is delivered as one
// part without a session. Raw sees it once. A pass may have read entries as they were before the
// live reader's erasure, so that one ends it first.
func (r *run) handErasure(ctx context.Context, d *Delivery) error {
	if !d.again {
		if err := r.interruptPass(ctx); err != nil {
			return err
		}
	}
	var e Erasure
	_ = d.Decode(&e)
	all := &parts{}
	all.left.Store(int64(len(e.SessionIDs) + 1))
	for _, id := range append([]string{""}, e.SessionIDs...) {
		part := &Delivery{Message: d.Message, run: r, entry: d.entry, again: d.again, parts: all, rawDone: id != ""}
		part.SessionID = id
		if err := r.hand(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// errNoErasure is the error of a delivery that is no erasure.
var errNoErasure = errors.New("no erasure")

// Erasure returns the erasure of a delivery of type "erase", of the delivery's session
// alone, or an error if the entry has none. Without a session, Kept has the sessions that the
// entry does not erase.
func (d *Delivery) Erasure() (Erasure, error) {
	e := Erasure{}
	if d.Type != feed.Erase {
		return e, errNoErasure
	}
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	maps.DeleteFunc(e.Kept, func(id string, _ []string) bool {
		if d.SessionID == "" {
			return slices.Contains(e.SessionIDs, id)
		}
		return id != d.SessionID
	})
	e.SessionIDs = []string{}
	if d.SessionID != "" {
		e.SessionIDs = []string{d.SessionID}
	}
	return e, nil
}
