package eventlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// replayEntries is the most entries that Replay reads at a time.
const replayEntries = 512

// Replay reads a product's log after the cursor, up to the entry that was the newest at the
// start, and passes the entries to file, in order and hundreds at a time. An entry made from
// a batch has its Batch. Replay is for engines that keep filed actions in memory: it decodes
// ahead, on all processors. It returns the ID up to which the log has been filed, or the
// error of file. Entries appended during the call may or may not be filed.
//
// Calls of file do not overlap, and it may keep the slices. If entries are trimmed in
// the meantime, Replay continues after them. When ctx ends it returns the error of
// ctx.
func Replay(ctx context.Context, log Log, productID string, after ID, file func(entries []Entry) error) (ID, error) {
	bounds, err := log.Bounds(ctx, productID)
	if err != nil {
		return ID{}, fmt.Errorf("eventlog: replay: %w", err)
	}
	if bounds.TrimmedTo.Compare(after) < 0 {
		bounds.TrimmedTo = after
	}
	var end ID
	group, ctx := errgroup.WithContext(ctx)
	portions := make(chan *portion, runtime.GOMAXPROCS(0))
	group.Go(func() error {
		defer close(portions)
		var err error
		end, err = readPortions(ctx, log, productID, bounds, func(p *portion) error {
			group.Go(p.decode)
			select {
			case portions <- p:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return err
	})
	group.Go(func() error {
		for p := range portions {
			<-p.decoded
			if p.err != nil {
				return p.err
			}
			if err := file(p.entries); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return ID{}, fmt.Errorf("eventlog: replay: %w", err)
	}
	return end, nil
}

// portion is a run of the entries to file. It passes from the reading goroutine to a decoding
// one, and then to the filing one, which waits for decoded. A portion waits in the channel
// while earlier ones are decoded, so that they are filed in order.
type portion struct {
	entries []Entry
	decoded chan struct{} // closed when the entries have their batches
	err     error
}

// errReplayed ends the replay at its upper bound.
var errReplayed = errors.New("eventlog: replayed")

// readPortions reads the entries between the bounds, calls send with each portion, and
// returns the cursor it has reached. The last portion may extend beyond the upper bound.
func readPortions(
	ctx context.Context, log Log, productID string, bounds Bounds, send func(*portion) error,
) (at ID, err error) {
	at = bounds.TrimmedTo
	err = follow(ctx, log, productID, func(ctx context.Context) (pace, error) {
		if at.Compare(bounds.Newest) >= 0 {
			return pace{}, errReplayed
		}
		p := &portion{entries: make([]Entry, replayEntries), decoded: make(chan struct{})}
		n, err := log.Read(ctx, productID, at, p.entries)
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			at = gap.TrimmedTo
			return pace{}, nil
		case errors.Is(err, ErrClosed), err == nil && n == 0:
			return pace{}, errReplayed
		case err != nil:
			return pace{}, err
		}
		p.entries = p.entries[:n]
		at = p.entries[n-1].ID
		return pace{}, send(p)
	})
	if errors.Is(err, errReplayed) {
		err = nil
	}
	return at, err
}

// decode sets the entries' batches, up to the first that cannot be decoded, and err.
func (p *portion) decode() error {
	defer close(p.decoded)
	for i := range p.entries {
		if p.entries[i].Batch, p.err = p.entries[i].Decode(); p.err != nil {
			return p.err
		}
	}
	return nil
}
