package eventlog

import (
	"context"
	"errors"
	"iter"
	"time"
)

// pageTimeout bounds each read of [Pages].
const pageTimeout = 4 * time.Second

// Pages returns the entries that the log retains of a product, in order, up to the newest one at the
// start; a page may have a few more. It skips entries that are trimmed in the meantime. A page is
// never empty, and valid until the next one. The first error ends the sequence, with a nil page. Each
// read may take a few seconds, however long all of them take.
func Pages(ctx context.Context, log Log, productID string) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		bounds, err := timely(ctx, func(ctx context.Context) (Bounds, error) { return log.Bounds(ctx, productID) })
		if err != nil {
			yield(nil, err)
			return
		}
		into := make([]Entry, readEntries)
		for at := bounds.TrimmedTo; at.Compare(bounds.Newest) < 0; {
			n, err := timely(ctx, func(ctx context.Context) (int, error) { return log.Read(ctx, productID, at, into) })
			var gap *GapError
			switch {
			case errors.As(err, &gap):
				at = gap.TrimmedTo
				continue
			case err == nil && n == 0: // the rest has just expired
				return
			case err != nil:
				yield(nil, err)
				return
			}
			at = into[n-1].ID
			if !yield(into[:n], nil) {
				return
			}
			clear(into[:n]) // do not keep trimmed entries in memory
		}
	}
}

// timely returns the result of a read, with pageTimeout for it.
func timely[T any](ctx context.Context, read func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return read(ctx)
}
