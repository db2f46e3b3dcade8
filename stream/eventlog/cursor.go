package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
)

// Cursor is a consumer's place in a product's log, stored in the documents of the log,
// so that the consumer goes on there after a restart. It is a stream.CursorStore.
type Cursor struct {
	log       Log
	productID string
	name      string
}

// cursorTTL is how long a cursor is kept after it was saved last.
const cursorTTL = 30 * 24 * time.Hour

// Cursor returns the cursor of that name. A name belongs to one consumer at a time:
// programs that share a log need a name each, or they take over each other's place. A
// cursor that is not saved for 30 days is forgotten.
func (s *Source) Cursor(name string) *Cursor {
	return &Cursor{s.log, s.productID, "consumer/" + name}
}

// Load returns the cursor saved last, or "" if there is none.
func (c *Cursor) Load(ctx context.Context) (string, error) {
	doc, err := c.document(ctx)
	return string(doc.Value), err
}

// Save replaces the saved cursor, whatever that is: of concurrent calls the last one counts. It
// is stored when Save returns nil; after an error it may be.
func (c *Cursor) Save(ctx context.Context, cursor string) error {
	return document.Retry(ctx, func() error {
		doc, err := c.document(ctx)
		if err != nil {
			return err
		}
		_, err = c.log.Documents().Write(ctx, c.productID, document.Put(doc, []byte(cursor), cursorTTL))
		if err != nil {
			return fmt.Errorf("eventlog: save cursor: %w", err)
		}
		return nil
	})
}

// document returns the cursor's document as it is now, which may not exist.
func (c *Cursor) document(ctx context.Context) (document.Document, error) {
	docs, err := c.log.Documents().Get(ctx, c.productID, c.name)
	if err != nil {
		return document.Document{}, fmt.Errorf("eventlog: load cursor: %w", err)
	}
	return docs[0], nil
}
