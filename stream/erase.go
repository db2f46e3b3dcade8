package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/activity/feed"
)

// An erasure covers several sessions and must follow the earlier entries of each. It is
// therefore split into one delivery per session, in the session's own order, and one for
// the user's actions outside any session. They share the entry, which is finished when
// all of them are. The live reader's parts fall behind only if they hold up other sessions:
// redelivered later, they also erase the entries handled since.

// keyOf returns an entry's key in the ledger: its session or, for an erasure, a key of its
// own, which is never behind when the erasure arrives.
func keyOf(m Message) string {
	if m.Type == feed.Erase {
		return m.Type + " " + m.ID
	}
	return m.SessionID
}

// canFall reports whether deliveries of a session will be redelivered if it falls behind now. A part of
// an erasure from the live reader must be blocking others.
func canFall(deliveries []*Delivery, blocking bool) bool {
	return !slices.ContainsFunc(deliveries, func(d *Delivery) bool {
		return d.parts != nil && !d.again && !blocking || !d.run.ledger.CanFall()
	})
}

// handErasure splits an erasure and delivers the parts. An erasure that cannot be decoded
// becomes one part without a session. Raw sees the entry once. A pass in progress may have read
// entries as they were before the erasure, so the live reader interrupts it first.
func (r *run) handErasure(ctx context.Context, d *Delivery) error {
	if !d.again {
		if err := r.interruptPass(ctx); err != nil {
			return err
		}
	}
	var e Erasure
	_ = d.Decode(&e)
	parts := &atomic.Int64{}
	parts.Store(int64(len(e.SessionIDs) + 1))
	for _, id := range append([]string{""}, e.SessionIDs...) {
		part := &Delivery{Message: d.Message, run: r, entry: d.entry, again: d.again, parts: parts, rawDone: id != ""}
		part.SessionID = id
		if err := r.hand(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// Erasure returns the erasure in a delivery of type "erase", reduced to the delivery's
// session, or an error if the entry has none. In the delivery without a session, Kept lists
// the sessions that the entry does not erase.
func (d *Delivery) Erasure() (Erasure, error) {
	e := Erasure{}
	if d.Type != feed.Erase {
		return e, errors.New("no erasure")
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
