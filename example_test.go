package liveactivity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// The whole service on a mux of one's own.
func Example() {
	product := liveactivity.Product{ProductID: "acme", WebhookSecret: "hush", CaptureTokens: []string{"phc_acme"}}
	service, err := liveactivity.New(&liveactivity.Options{
		Products: []liveactivity.Product{product},
		Keys:     []liveactivity.Key{{Key: "secret", ExternalID: "acme"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", service.Handler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Welcome to Acme.") })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- service.ServeHandler(ctx, listener, mux) }()

	server := "http://" + listener.Addr().String()
	event := `{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://` +
		`app.acme.example/projects/42"}}`
	fmt.Println(call(http.MethodPost, server+"/webhook/acme", "X-PostHog-Secret", "hush", event))
	answer := call(http.MethodGet, server+"/users/acme/ada/live-activity", "Authorization", "Bearer secret", "")
	fmt.Println(strings.Contains(answer, "User landed on the projects detail page"))

	stop() // first the requests in flight end, then the streams
	fmt.Println(<-served)
	// Output:
	// {"status":"ok","accepted":1,"ignored":0}
	// true
	// <nil>
}

// A consumer inside the service goes on after a restart where it stopped.
func ExampleView() {
	actions := func(_ context.Context, b activity.Batch) error {
		fmt.Println(b.Text())
		return nil
	}
	view := func(ctx context.Context, productID string, source *eventlog.Source) error {
		consumer, err := stream.NewSourceConsumer(source, stream.Handlers{Actions: actions}, &stream.ConsumerOptions{
			Cursor: source.Cursor("crm"),
			Since:  time.Unix(0, 0), // the first time, begin with all there is
		})
		if err != nil {
			return err
		}
		return consumer.Run(ctx)
	}
	_, err := liveactivity.New(&liveactivity.Options{Views: []liveactivity.View{view}})
	fmt.Println(err)
	// Output: <nil>
}

// acme is one product, to [intake.New].
type acme struct{}

func (acme) ProductOfID(productID string) (intake.Product, bool, error) {
	return intake.Product{WebhookSecret: "hush"}, productID == "acme", nil
}

func (acme) ProductOfToken(token string) (string, bool, error) {
	return "acme", token == "phc_acme", nil
}

func (acme) Refresh(string) error { return nil } // no other process changes it

// The parts of the service, for a program that wants only some of them.
func Example_parts() {
	entries, err := memorylog.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	recorder, err := eventlog.NewRecorder(entries, nil)
	if err != nil {
		log.Fatal(err)
	}

	keys := access.NewKeyring()
	if err := keys.Add("secret", "acme"); err != nil {
		log.Fatal(err)
	}

	ingest, err := intake.New(recorder, acme{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	lookup, err := recent.NewLookup(entries.Activity(), 0)
	if err != nil {
		log.Fatal(err)
	}
	streams, err := eventlog.NewHandler(entries, &eventlog.HandlerOptions{Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhook/{product_id}", ingest.Webhook(posthog.Source))
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, lookup))
	mux.Handle("GET /stream/{product_id}", streams)

	server := httptest.NewServer(mux)
	defer server.Close()
	event := `{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://` +
		`app.acme.example/projects/42"}}`
	fmt.Println(call(http.MethodPost, server.URL+"/webhook/acme", "X-PostHog-Secret", "hush", event))
	answer := call(http.MethodGet, server.URL+"/users/acme/ada/live-activity", "Authorization", "Bearer secret", "")
	fmt.Println(strings.Contains(answer, "User landed on the projects detail page"))
	// Output:
	// {"status":"ok","accepted":1,"ignored":0}
	// true
}

// consume writes notes until ctx ends or the service refuses the key. Before it returns, it writes
// the notes that still wait for a pause.
func consume(ctx context.Context, streamURL, key string, note func(context.Context, activity.Batch) error,
	replaceNotes func(context.Context, stream.Summary) error) error {
	summarizer, err := stream.NewSummarizer(replaceNotes, &stream.SummarizerOptions{Threshold: 3})
	if err != nil {
		return err
	}
	writer, err := stream.NewWriter(note, &stream.WriterOptions{Debounce: 50 * time.Millisecond, Summarizer: summarizer})
	if err != nil {
		return err
	}
	consumer, err := stream.NewConsumer(streamURL, key, stream.Handlers{Deliver: writer.Deliver}, nil)
	if err != nil {
		return err
	}
	group, writing := errgroup.WithContext(context.WithoutCancel(ctx)) // a refusal ends both
	group.Go(func() error { return writer.Run(writing) })
	group.Go(func() error {
		err := consumer.Run(ctx)
		limit, cancel := context.WithTimeout(writing, time.Minute)
		defer cancel()
		return errors.Join(err, writer.Flush(limit))
	})
	return group.Wait()
}

// A consumer of a stream writes a note when a session pauses, and replaces the notes with a summary
// after every third action.
func Example_consumer() {
	service, err := streamtest.NewServer(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	streamURL, key := service.URL(), service.Token()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
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

	done := make(chan error)
	go func() { done <- consume(ctx, streamURL, key, note, replaceNotes) }()

	if err := service.WaitConnected(ctx); err != nil {
		log.Fatal(err)
	}
	at := time.Now()
	service.Send(activitytest.NewBatch("acme", "s1", "ada",
		activitytest.Pageview(at, "https://app.acme.example/pricing"),
		activitytest.Pageview(at.Add(time.Second), "https://app.acme.example/checkout"),
		activitytest.Click(at.Add(2*time.Second), "Confirm plan", "https://app.acme.example/checkout")))
	<-done // it was stopped
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

func TestConsume_endsWhenTheKeyIsRefused(t *testing.T) {
	service, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	defer service.Close()
	err = consume(t.Context(), service.URL(), "wrong",
		func(context.Context, activity.Batch) error {
			return nil
		}, func(context.Context, stream.Summary) error { return nil })
	var refused *stream.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 401, refused.Status)
}

func TestConsume_writesWaitingBatchesBeforeItEnds(t *testing.T) {
	service, err := streamtest.NewServer(nil)
	require.NoError(t, err)
	defer service.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written := make(chan activity.Batch, 10)
	failed := false
	done := make(chan error)
	go func() {
		done <- consume(ctx, service.URL(), service.Token(), func(_ context.Context, b activity.Batch) error {
			if !failed {
				failed = true
				stop()
				return errors.New("the desk is busy")
			}
			written <- b
			return nil
		}, func(context.Context, stream.Summary) error { return nil })
	}()
	require.NoError(t, service.WaitConnected(ctx))
	service.Send(activitytest.NewBatch("acme", "s1", "ada",
		activitytest.Click(time.Now(), "Save", "https://app.acme.example/")))
	require.ErrorIs(t, <-done, context.Canceled)
	require.Len(t, written, 1)
}
