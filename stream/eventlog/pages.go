package eventlog

import (
	"context"
	"errors"
	"iter"
	"time"
)

// pageTimeout bounds the read of a page.
const pageTimeout = 4 * time.Second

// Pages returns the entries that the log retains of a product, in order, up to its end. It skips
// entries that are trimmed in the meantime. A page is never empty, and valid until the next one.
// The first error ends the sequence, with a nil page; a closed log is not an error. Each read may
// take a few seconds, however long all of them take.
func Pages(ctx context.Context, log Log, productID string) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		into := make([]Entry, readEntries)
		for at := (ID{}); ; {
			n, err := readPage(ctx, log, productID, at, into)
			var gap *GapError
			switch {
			case errors.As(err, &gap):
				at = gap.TrimmedTo
				continue
			case errors.Is(err, ErrClosed), err == nil && n == 0:
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

func readPage(ctx context.Context, log Log, productID string, at ID, into []Entry) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return log.Read(ctx, productID, at, into)
}
