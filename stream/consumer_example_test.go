package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// A consumer prints users' actions as they happen. Its handlers notice neither a connection that is
// cut in the middle of an event nor a server that is too busy for a while.
func ExampleConsumer() {
	server, err := streamtest.NewServer(nil) // liveactivity-server, usually
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	did := func(label string) activity.Batch {
		click := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/reports")
		return activity.Batch{SessionID: "s1", Actions: []activity.BatchAction{{Action: click}}}
	}

	ctx, cancel := context.WithCancel(context.Background())
	handlers := stream.Handlers{
		Actions: func(_ context.Context, b activity.Batch) error {
			for _, a := range b.Actions {
				fmt.Println(a.Description)
			}
			return nil // an error would bring the batch again
		},
		Summary: func(_ context.Context, s stream.Summary) error {
			fmt.Println("In short:", s.Text)
			cancel() // enough for an example
			return nil
		},
	}
	consumer, err := stream.NewConsumer(server.URL(), server.Token(), handlers, &stream.ConsumerOptions{
		Since:      time.Unix(0, 0), // with everything that the server still has
		MinBackoff: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}

	server.Send(did("Export CSV"))
	server.Tear(20)
	server.Refuse(503, 1)
	server.Send(did("Download"))
	server.SendSummary(stream.Summary{SessionID: "s1", Text: "The user exported a report."})

	var refused *stream.RefusedError
	switch err := consumer.Run(ctx); {
	case errors.As(err, &refused):
		fmt.Println("The key is wrong:", refused.Detail)
	default:
		fmt.Println("The end:", err)
	}
	// Output:
	// User clicked Export CSV on the reports page
	// User clicked Download on the reports page
	// In short: The user exported a report.
	// The end: context canceled
}
