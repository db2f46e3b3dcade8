package stream

import (
	"context"
	"fmt"
)

// CursorStore stores a consumer's cursor, a short opaque text, durably. Calls
// of its methods do not overlap.
type CursorStore interface {
	// Load returns the cursor saved last, or "" if there is none.
	Load(ctx context.Context) (string, error)
	// Save atomically replaces the saved cursor. It is called for every
	// acknowledged entry before the session's next one is handled; entries of
	// several sessions share a call. An error is logged, and the cursor is
	// saved with the next entry. Deliveries kept by a [Writer] are
	// acknowledged when they are written, possibly after Run has returned;
	// they are saved then unless Run was called again.
	Save(ctx context.Context, cursor string) error
}

func loadCursor(ctx context.Context, store CursorStore) (string, error) {
	if store == nil {
		return "", nil
	}
	text, err := store.Load(ctx)
	if err != nil {
		return "", fmt.Errorf("stream: load cursor: %w", err)
	}
	return text, nil
}
