package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/stream"
)

// batches is a source of a program's own. A service's stream is the usual one.
type batches []activity.Batch

// Follow implements [stream.Source]. It delivers each batch as an entry whose ID is its number.
func (all batches) Follow(ctx context.Context, after string, _ time.Time, deliver func(feed.Event) error) error {
	n, _ := strconv.Atoi(after)
	for ; n < len(all); n++ {
		data, err := all[n].AppendJSON(nil)
		if err != nil {
			return err
		}
		if err := deliver(feed.Event{Message: feed.NewMessage(strconv.Itoa(n+1), data)}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// clicks are batches of a click each, all in one session.
func clicks(labels ...string) (all batches) {
	for _, label := range labels {
		click := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/checkout")
		all = append(all, activity.Batch{Type: activity.BatchType, SessionID: "session_1", Count: 1,
			Actions: []activity.BatchAction{{Action: click, SessionID: "session_1"}}})
	}
	return all
}

// runBoth runs a writer and the consumer that reads a source for it, until stop is called.
func runBoth(writer *stream.Writer, source stream.Source) (stop func()) {
	consumer, err := stream.NewSourceConsumer(source, stream.Handlers{Deliver: writer.Deliver}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = consumer.Run(ctx) })
	ended.Go(func() { _ = writer.Run(ctx) })
	return func() {
		cancel()
		ended.Wait()
	}
}

// A writer merges batches that come quickly one after the other.
func ExampleWriter() {
	noted := make(chan struct{})
	note := func(_ context.Context, b activity.Batch) error {
		fmt.Println("note on", b.SessionID)
		for _, a := range b.Actions {
			fmt.Printf("[%d] %s\n", a.Index+1, a.Description)
		}
		close(noted)
		return nil
	}
	writer, err := stream.NewWriter(note, &stream.WriterOptions{Debounce: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	stop := runBoth(writer, clicks("Next", "Confirm plan"))
	<-noted
	stop()
	// Output:
	// note on session_1
	// [1] User clicked Next on the checkout page
	// [2] User clicked Confirm plan on the checkout page
}

// Nothing is written before the conversation of a session is known.
func ExampleWriter_SessionLinked() {
	posted := make(chan struct{}, 3)
	post := func(_ context.Context, b activity.Batch) error {
		for _, a := range b.Actions {
			fmt.Println(a.Description, "to", b.ConversationID)
			posted <- struct{}{}
		}
		return nil
	}
	writer, err := stream.NewWriter(post, &stream.WriterOptions{AwaitLink: true})
	if err != nil {
		log.Fatal(err)
	}
	stop := runBoth(writer, clicks("Next", "Confirm plan", "Help"))
	if err := writer.SessionLinked(context.Background(), "session_1", "conversation_7"); err != nil {
		log.Fatal(err)
	}

	// The first link stays.
	err = writer.SessionLinked(context.Background(), "session_1", "conversation_8")
	var linked *stream.LinkError
	if errors.As(err, &linked) {
		fmt.Println("refused: it belongs to", linked.ConversationID)
	}
	for range 3 {
		<-posted
	}
	stop()
	// Unordered output:
	// refused: it belongs to conversation_7
	// User clicked Next on the checkout page to conversation_7
	// User clicked Confirm plan on the checkout page to conversation_7
	// User clicked Help on the checkout page to conversation_7
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
	stop := runBoth(writer, clicks("Compare plans", "Next"))
	s := <-summaries
	fmt.Printf("in place of %d actions: %s\n", s.Replaces, s.Text)
	stop()
	// Output:
	// note: User clicked Compare plans on the checkout page
	// note: User clicked Next on the checkout page
	// in place of 2 actions: The user compared the plans and is at the checkout now.
}
