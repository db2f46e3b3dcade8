package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
)

// Cursor stores a consumer's position in a product's log among the log's own
// documents, so that the consumer resumes there after a restart. It is a
// stream.CursorStore.
type Cursor struct {
	log       Log
	productID string
	name      string
}

// cursorTTL is how long a cursor is kept after its last save.
const cursorTTL = 30 * 24 * time.Hour

// Cursor returns the cursor with that name. Only one consumer may use a name at a
// time: programs that share a log need different names, or they overwrite each
// other's position. A cursor expires 30 days after its last save.
func (s *Source) Cursor(name string) *Cursor { return &Cursor{s.log, s.productID, "consumer/" + name} }

// Load returns the cursor saved last, or "" if there is none.
func (c *Cursor) Load(ctx context.Context) (string, error) {
	doc, err := c.document(ctx)
	return string(doc.Value), err
}

// Save replaces the saved cursor unconditionally: the last of concurrent calls wins. The cursor
// is stored when Save returns nil; after an error it may or may not be.
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

// document returns the cursor's current document, which may not exist.
func (c *Cursor) document(ctx context.Context) (document.Document, error) {
	docs, err := c.log.Documents().Get(ctx, c.productID, c.name)
	if err != nil {
		return document.Document{}, fmt.Errorf("eventlog: load cursor: %w", err)
	}
	return docs[0], nil
}
