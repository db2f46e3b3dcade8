package directory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// BenchmarkDirectory learns from a request of one session and remembers it.
func BenchmarkDirectory(b *testing.B) {
	const sessions = 10_000
	at := time.Now()
	cases := map[string]func(i int) activity.Event{
		"identity=none": func(i int) activity.Event { return activity.Event{} },
		"identity=user": func(i int) activity.Event { return activity.Event{UserID: fmt.Sprint("user_", i)} },
		"identity=user and email": func(i int) activity.Event {
			return activity.Event{UserID: fmt.Sprint("user_", i), Email: fmt.Sprint("user_", i, "@acme.example"),
				Identified: true}
		},
	}
	for name, identity := range cases {
		b.Run(name, func(b *testing.B) {
			docs := musttest.New(document.NewMemory(nil))
			d := musttest.New(directory.New(docs, 0))
			events := make([]activity.Event, 5)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := identity(i % sessions)
				e.Time, e.SessionID = at.Add(time.Duration(i)*time.Millisecond), fmt.Sprint("session_", i%sessions)
				for j := range events {
					events[j] = e
				}
				if err := record(b.Context(), d, docs, e.SessionID, events); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// record makes the calls that a request of one session makes.
func record(ctx context.Context, d *directory.Directory, docs document.Store, sessionID string,
	events []activity.Event) error {
	book, err := d.Open(ctx, "acme", events)
	if err != nil {
		return err
	}
	if _, err := book.Learn(ctx, sessionID, events); err != nil {
		return err
	}
	book.Count(sessionID, len(events))
	_, err = docs.Write(ctx, "acme", book.Changes()...)
	return err
}
