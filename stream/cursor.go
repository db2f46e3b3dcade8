package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// CursorStore keeps a consumer's cursor, a short opaque text, in a place that
// outlives the process. Its methods are not called at the same time.
type CursorStore interface {
	// Load returns what was saved last, and "" where nothing was.
	Load(ctx context.Context) (string, error)
	// Save replaces what was saved before, all of it or nothing. It is called
	// for every entry that is finished, before the session's next one is
	// handled; entries of several sessions share a call. An error is logged,
	// and the cursor saved with the next entry. What a [Writer] has kept is
	// finished when it is written, which may be after Run has returned; it is
	// saved then unless Run was called again.
	Save(ctx context.Context, cursor string) error
}

// cursor is a place in a stream.
type cursor struct {
	// ID is that of the last entry that is finished with all before it.
	ID string `json:"id,omitempty"`
	// Since is where the stream began, in epoch seconds, while there is no ID.
	Since int64 `json:"since,omitempty"`
	// Finished are the entries that are finished beyond ID.
	Finished []string `json:"finished,omitempty"`
}

func loadCursor(ctx context.Context, store CursorStore) (c cursor, err error) {
	if store == nil {
		return c, nil
	}
	text, err := store.Load(ctx)
	if err != nil {
		return c, fmt.Errorf("stream: load cursor: %w", err)
	}
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("stream: load cursor: what is stored is no cursor: %w", err)
	}
	if !validID([]byte(c.ID)) {
		return c, errors.New("stream: load cursor: what is stored is no cursor: the id is none")
	}
	return c, nil
}

func (c cursor) String() string {
	text, err := json.Marshal(c)
	if err != nil { // strings and a number always encode
		panic(err)
	}
	return string(text)
}

// start returns the query parameter since, and false where there is none.
func (c cursor) start(since time.Time) (seconds float64, ok bool) {
	switch {
	case c.ID != "":
		return 0, false
	case c.Since != 0:
		return float64(c.Since), true
	case !since.IsZero():
		return max(float64(since.UnixMicro())/1e6, 0), true
	}
	return 0, false
}
