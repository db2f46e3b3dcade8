package directory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
)

// A directory learns a session's user from any event that states it.
func ExampleDirectory_Amend() {
	ctx := context.Background()
	docs, err := document.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := directory.New(docs, 0)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	for _, e := range []activity.Event{
		{Time: now, UserID: "anonymous"},
		{Time: now.Add(time.Second), UserID: "user_42", Email: "ada@example.com"},
	} {
		err := dir.Amend(ctx, "acme", "session_1", nil, func(a *directory.Amendment) error {
			a.Session.Learn(e)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	s, _, err := dir.Session(ctx, "acme", "session_1")
	fmt.Println(s.UserID, s.Email, err)
	// Output: user_42 ada@example.com <nil>
}
