package directory

import (
	"context"

	"github.com/liveactivity/liveactivity/activity"
)

// Update changes a session, which starts out empty, and returns the result.
func (d *Directory) Update(ctx context.Context, productID, sessionID string, change func(*Session)) (Session, error) {
	var updated Session
	err := d.Amend(ctx, productID, sessionID, nil, func(a *Amendment) error {
		change(&a.Session)
		updated = a.Session
		return nil
	})
	if err != nil {
		return Session{}, err
	}
	return d.Book(productID).resolved(ctx, updated)
}

// Open returns a book that is about these events.
func (d *Directory) Open(ctx context.Context, productID string, events []activity.Event) (*Book, error) {
	b := d.Book(productID)
	return b, b.Open(ctx, events)
}
