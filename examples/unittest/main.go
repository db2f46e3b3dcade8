// Command unittest raises an alert when a user is about to leave: has viewed
// the page to cancel on three times in one session.
//
// What it shows is how such a consumer is tested: see main_test.go. To start
// it, start a server, and the consumer with the key that the server prints:
//
//	go run ./cmd/liveactivity-server
//	go run ./examples/unittest --token KEY --page /dashboard
//
// and paste the server's curl line in a third terminal, three times.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run prints alerts until ctx ends or the server refuses the stream.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("unittest", flag.ExitOnError)
	url := flags.String("stream-url", "http://127.0.0.1:8080/stream/demo", "the product's event stream")
	token := flags.String("token", "", "a key of the product; $LIVEACTIVITY_STREAM_TOKEN without it")
	page := flags.String("page", "/account/cancel", "end of the page's address")
	_ = flags.Parse(args) // ends the program when they are wrong

	w := newWatch(*page, func(_ context.Context, email string) error {
		_, err := fmt.Fprintln(stdout, email, "is about to leave")
		return err
	})
	consumer, err := stream.NewConsumer(*url, cmp.Or(*token, os.Getenv("LIVEACTIVITY_STREAM_TOKEN")),
		stream.Handlers{Actions: w.actions}, nil)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// threshold is how many views of the page make an alert.
const threshold = 3

// maxSessions is how many sessions are watched; those that did something least
// recently are forgotten first.
const maxSessions = 10_000

// watch counts the views of a page in each session, and raises one alert in
// each that has enough.
type watch struct {
	page  string
	alert func(ctx context.Context, email string) error
	views *lru.Cache[string, int]
}

func newWatch(page string, alert func(ctx context.Context, email string) error) *watch {
	views, err := lru.New[string, int](maxSessions)
	if err != nil { // only for a size below one
		panic(err)
	}
	return &watch{page: page, alert: alert, views: views}
}

// actions takes a batch from the consumer. When it returns an error it is
// called again with the same batch, so it counts only when nothing can fail any
// more. The calls for one session come one after the other: what is got from
// the cache here is what is there when it is added to.
func (w *watch) actions(ctx context.Context, b activity.Batch) error {
	if b.SessionID == "" {
		return nil // these actions may be of many people
	}
	before, _ := w.views.Get(b.SessionID)
	views := before
	for _, a := range b.Actions {
		if a.Type == activity.TypePageview && strings.HasSuffix(a.CanonicalURL, w.page) {
			views++
		}
	}
	if before < threshold && views >= threshold {
		if err := w.alert(ctx, cmp.Or(b.Email, b.UserID, "somebody")); err != nil {
			return err
		}
	}
	w.views.Add(b.SessionID, views)
	return nil
}
