package liveactivity_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// acme is a service with one product.
type acme struct{}

func (acme) WebhookSecret(productID string) (string, bool, error) {
	return "hush", productID == "acme", nil
}

func (acme) ProductOfToken(token string) (string, bool, error) {
	return "acme", token == "phc_acme", nil
}

// The whole service on a mux of one's own.
func Example() {
	store := activity.NewMemory(nil)
	entries := stream.NewMemoryLog(stream.Retention{})
	recorder := stream.NewRecorder(entries, store, nil)

	keys := access.NewKeyring()
	if err := keys.Add("secret", "acme"); err != nil {
		log.Fatal(err)
	}

	ingest := posthog.NewHandler(recorder, acme{}, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook/{product_id}", ingest.ServeWebhook)
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, activity.NewLookup(store, 0)))
	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, stream.NewHandler(entries, nil)))

	server := httptest.NewServer(mux)
	defer server.Close()
	event := `{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://app.acme.example/projects/42"}}`
	fmt.Println(call(http.MethodPost, server.URL+"/webhook/acme", "X-PostHog-Secret", "hush", event))
	answer := call(http.MethodGet, server.URL+"/users/acme/ada/live-activity", "Authorization", "Bearer secret", "")
	fmt.Println(strings.Contains(answer, "User landed on the projects detail page"))
	// Output:
	// {"status":"ok","accepted":1,"ignored":0}
	// true
}

// A consumer of a stream that writes a note when a session pauses, and replaces
// the notes by a summary after every third action.
func Example_consumer() {
	service := streamtest.NewServer(nil)
	defer service.Close()
	streamURL, key := service.URL(), service.Token()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()

	note := func(_ context.Context, b activity.Batch) error {
		for _, a := range b.Actions {
			fmt.Printf("%s: %s\n", b.SessionID, a.Description)
		}
		return nil
	}
	replaceNotes := func(_ context.Context, s stream.Summary) error {
		fmt.Printf("%s, instead of %d actions: %s\n", s.SessionID, s.Replaces, s.Text)
		stop() // of this example
		return nil
	}

	writer := stream.NewWriter(note, &stream.WriterOptions{
		Debounce:   50 * time.Millisecond,
		Summarizer: stream.NewSummarizer(replaceNotes, &stream.SummarizerOptions{Threshold: 3}),
	})
	consumer, err := stream.NewConsumer(streamURL, key, stream.Handlers{Actions: writer.Add}, nil)
	if err != nil {
		log.Fatal(err)
	}
	var both errgroup.Group
	both.Go(func() error { return writer.Run(ctx) })
	both.Go(func() error { return consumer.Run(ctx) })

	if err := service.WaitConnected(ctx); err != nil {
		log.Fatal(err)
	}
	at := time.Now()
	service.Send(activitytest.NewBatch("acme", "s1", "ada",
		activitytest.Pageview(at, "https://app.acme.example/pricing"),
		activitytest.Pageview(at.Add(time.Second), "https://app.acme.example/checkout"),
		activitytest.Click(at.Add(2*time.Second), "Confirm plan", "https://app.acme.example/checkout")))
	_ = both.Wait() // it was stopped
	// Output:
	// s1: User landed on the pricing page
	// s1: User landed on the checkout page
	// s1: User clicked Confirm plan on the checkout page
	// s1, instead of 3 actions: Visited pricing and checkout; clicked Confirm plan.
}

func call(method, url, header, value, body string) string {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set(header, value)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	return string(answer)
}
