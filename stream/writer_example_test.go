package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// A writer merges batches that come quickly one after the other. A consumer calls Add.
func ExampleWriter() {
	note := func(_ context.Context, b activity.Batch) error {
		fmt.Println("note on", b.SessionID)
		for _, a := range b.Actions {
			fmt.Printf("[%d] %s\n", a.Index+1, a.Description)
		}
		return nil
	}
	writer, err := stream.NewWriter(note, &stream.WriterOptions{Debounce: 3 * time.Second})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- writer.Run(ctx) }()

	for _, label := range []string{"Next", "Confirm plan"} {
		click := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/checkout")
		err := writer.Add(ctx, activity.Batch{SessionID: "session_1", Count: 1,
			Actions: []activity.BatchAction{{Action: click}}})
		if err != nil {
			log.Fatal(err)
		}
	}

	// Before the end of the process, do not wait for the pause.
	if err := writer.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	<-done
	// Output:
	// note on session_1
	// [1] User clicked Next on the checkout page
	// [2] User clicked Confirm plan on the checkout page
}

// Nothing is written before the conversation of a session is known.
func ExampleWriter_SessionLinked() {
	post := func(_ context.Context, b activity.Batch) error {
		fmt.Printf("%d actions to %s\n", b.Count, b.ConversationID)
		return nil
	}
	writer, err := stream.NewWriter(post, &stream.WriterOptions{AwaitLink: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- writer.Run(ctx) }()

	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Help"}, "https://app.example.com/checkout")
	batch := activity.Batch{SessionID: "session_1", Count: 1, Actions: []activity.BatchAction{{Action: click}}}
	for range 3 {
		if err := writer.Add(ctx, batch); err != nil {
			log.Fatal(err)
		}
	}
	if err := writer.SessionLinked(ctx, "session_1", "conversation_7"); err != nil {
		log.Fatal(err)
	}

	// The first link stays.
	err = writer.SessionLinked(ctx, "session_1", "conversation_8")
	var linked *stream.LinkError
	if errors.As(err, &linked) {
		fmt.Println("refused: it belongs to", linked.ConversationID)
	}
	if err := writer.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	<-done
	// Unordered output:
	// refused: it belongs to conversation_7
	// 3 actions to conversation_7
}

// Without a model a summarizer makes summaries all the same, and each covers
// the whole session.
func ExampleSummarizer() {
	overwrite := func(_ context.Context, s stream.Summary) error {
		fmt.Printf("in place of %d actions: %s\n", s.Replaces, s.Text)
		return nil
	}
	summarizer, err := stream.NewSummarizer(overwrite, &stream.SummarizerOptions{Threshold: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"/pricing", "/checkout", "/billing-settings", "/"} {
		view := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com"+path)
		_ = summarizer.Add(context.Background(), activity.Batch{SessionID: "session_1", Count: 1,
			Actions: []activity.BatchAction{{Action: view}}})
	}
	// Output:
	// in place of 2 actions: Visited pricing and checkout.
	// in place of 2 actions: Visited pricing, checkout, billing settings and home.
}

// Batches are written first, and summed up afterwards, with a language model.
func ExampleWriterOptions_summarizer() {
	model := func(context.Context, string) (string, error) { // any function that answers a prompt
		return "The user compared the plans and is at the checkout now.", nil
	}
	summaries := make(chan stream.Summary, 1)
	summarizer, err := stream.NewSummarizer(func(_ context.Context, s stream.Summary) error {
		summaries <- s
		return nil
	}, &stream.SummarizerOptions{Threshold: 2, Model: model})
	if err != nil {
		log.Fatal(err)
	}
	writer, err := stream.NewWriter(func(_ context.Context, b activity.Batch) error {
		fmt.Println("note:", b.Actions[0].Description)
		return nil
	}, &stream.WriterOptions{Summarizer: summarizer})
	if err != nil {
		log.Fatal(err)
	}

	views := []activity.BatchAction{
		{Action: activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/pricing")},
		{Action: activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/checkout")},
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- writer.Run(ctx) }()
	if err := writer.Add(ctx, activity.Batch{SessionID: "session_1", Count: len(views), Actions: views}); err != nil {
		log.Fatal(err)
	}
	s := <-summaries
	fmt.Printf("in place of %d actions: %s\n", s.Replaces, s.Text)
	stop()
	<-done
	// Output:
	// note: User landed on the pricing page
	// in place of 2 actions: The user compared the plans and is at the checkout now.
}
