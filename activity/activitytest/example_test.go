package activitytest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// The suite needs a function that opens an empty engine. This is the whole conformance test of an engine.
func ExampleTestStore() {
	testMyStore := func(t *testing.T) {
		activitytest.TestStore(t, func(t *testing.T, o activitytest.Options) activitytest.Engine {
			store, err := recent.NewMemory(&recent.MemoryOptions{TTL: o.TTL, MaxEvents: o.MaxEvents})
			require.NoError(t, err)
			return store
		})
	}
	_ = testMyStore // named TestMyStore in the engine's package
}

func ExampleNewBatch() {
	ctx := context.Background()
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	_ = store.Add(ctx, activitytest.NewBatch("acme", "session_1", "user_42",
		activitytest.Pageview(now.Add(-2*time.Second), "https://app.acme.example/reports"),
		activitytest.Click(now, "Export CSV", "https://app.acme.example/reports"),
	))

	found, _ := store.Recent(ctx, "acme", recent.Subject{UserID: "user_42"}, 10)
	actions, _ := found.Actions()
	for _, a := range actions {
		fmt.Println(a.Description)
	}
	// Output:
	// User landed on the reports page
	// User clicked Export CSV on the reports page
}
