package tracing_test

import (
	"context"
	"fmt"
	"log"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/tracing"
)

// A tracer is a function; here it sees that a tool reads a user's actions.
func ExampleTracer() {
	memory, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	store := tracing.Store(memory, func(s tracing.Step) { fmt.Println(s.Name, s.ProductID, s.Via) })
	ctx := tracing.WithVia(context.Background(), "get_user_context")
	if _, err := store.Recent(ctx, "acme", recent.Subject{UserID: "ada"}, 50); err != nil {
		log.Fatal(err)
	}
	// Output: lookup acme get_user_context
}
