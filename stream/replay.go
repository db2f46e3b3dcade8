package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
)

// replayPage is how many entries Replay reads at a time.
const replayPage = 512

// Replay files the actions that a product's log holds in a store, in their
// order: how a store in memory catches up with a log that lasts. It returns the
// ID of the newest entry filed; what is appended meanwhile may be filed or not.
func Replay(ctx context.Context, log Log, productID string, store activity.Store) (ID, error) {
	bounds, err := log.Bounds(ctx, productID)
	if err != nil {
		return ID{}, fmt.Errorf("stream: replay: %w", err)
	}
	newest := bounds.Floor
	group, ctx := errgroup.WithContext(ctx)
	pages := make(chan *page, runtime.GOMAXPROCS(0))
	group.Go(func() error {
		defer close(pages)
		return readPages(ctx, log, productID, bounds, func(p *page) error {
			group.Go(p.decode)
			select {
			case pages <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	group.Go(func() error {
		for p := range pages {
			<-p.decoded
			for _, b := range p.batches {
				if err := store.Add(ctx, b); err != nil {
					return err
				}
			}
			newest = p.entries[len(p.entries)-1].ID
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return ID{}, fmt.Errorf("stream: replay: %w", err)
	}
	return newest, nil
}

// page is some entries of a log on their way into a store.
type page struct {
	entries []Entry
	decoded chan struct{} // closed when the batches are there
	batches []activity.Batch
}

// readPages reads what is between the bounds and calls send with each page.
func readPages(ctx context.Context, log Log, productID string, bounds Bounds, send func(*page) error) error {
	for at := bounds.Floor; at.Compare(bounds.Newest) < 0; {
		p := &page{entries: make([]Entry, replayPage), decoded: make(chan struct{})}
		n, err := log.Read(ctx, productID, at, p.entries)
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			at = gap.Floor
			continue
		case errors.Is(err, ErrClosed), err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
		p.entries = p.entries[:n]
		at = p.entries[n-1].ID
		if err := send(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *page) decode() error {
	defer close(p.decoded)
	for _, e := range p.entries {
		b, err := decodeBatch(e)
		if err != nil {
			return err
		}
		if b.Type == activity.BatchType {
			p.batches = append(p.batches, b)
		}
	}
	return nil
}

// decodeBatch returns the batch that an entry was made of, or of anything else
// its type. Actions have IDs of the same keys as those they had.
func decodeBatch(e Entry) (activity.Batch, error) {
	var b activity.Batch
	if err := decode(e.Data, &b); err != nil {
		var other struct {
			Type string `json:"type"`
		}
		if decode(e.Data, &other) == nil && other.Type != activity.BatchType {
			return activity.Batch{Type: other.Type}, nil
		}
		return b, fmt.Errorf("entry %s cannot be read: %w", e.ID, err)
	}
	for i := range min(len(e.Keys), len(b.Actions)) {
		b.Actions[i].ID = uuid.UUID(e.Keys[i]).String()
	}
	return b, nil
}
