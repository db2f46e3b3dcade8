// Command embed is a web shop with the whole service inside: it takes events
// from PostHog, serves live activity by REST and MCP, and the stream, beside
// the shop's own pages and behind the shop's own keys, and it follows its
// own log. It stops gracefully.
//
// It takes the place of the server, so it is started alone, in memory or with a
// folder to keep everything in:
//
//	go run ./examples/embed
//	go run ./examples/embed --data-dir /tmp/shop
//
// It prints its key and secret, which SHOP_KEY and SHOP_WEBHOOK_SECRET set.
// Report a page view, see it printed, and look it up:
//
//	curl -H 'X-PostHog-Secret: SECRET' http://127.0.0.1:8080/webhook/shop -d \
//	  '{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://shop.example/cart"}}'
//	curl -H 'Authorization: Bearer KEY' http://127.0.0.1:8080/users/shop/ada/live-activity
//	curl -H 'Authorization: Bearer KEY' http://127.0.0.1:8080/support/ada
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

const productID = "shop"

// run is the shop: it returns when ctx ends and everything is finished.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("embed", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "listen address")
	dir := flags.String("data-dir", "", "folder to keep everything in; without it all is in memory")
	_ = flags.Parse(args) // ends the program when they are wrong

	// A real shop takes these from where it keeps its customers, each with a
	// separate product.
	product, key := liveactivity.NewProduct(productID)
	product.WebhookSecret = cmp.Or(os.Getenv("SHOP_WEBHOOK_SECRET"), product.WebhookSecret)
	product.CaptureTokens = []string{"phc_shop"} // public: posthog-js sends it
	key.Key = cmp.Or(os.Getenv("SHOP_KEY"), key.Key)

	options := &liveactivity.Options{
		Products: []liveactivity.Product{product}, Keys: []liveactivity.Key{key},
		Views: []liveactivity.View{printer(stdout)},
	}
	if *dir != "" {
		entries, err := boltlog.Open(*dir, nil)
		if err != nil {
			return err
		}
		defer entries.Release()
		options.Log = entries
	}
	service, err := liveactivity.New(options)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\nkey: %s\nwebhook secret: %s\n", listener.Addr(), key.Key, product.WebhookSecret)
	return serve(ctx, listener, service)
}

// serve serves the shop until ctx ends: then it finishes the requests in flight,
// and after them the service, which gives every stream the rest of the log.
func serve(ctx context.Context, listener net.Listener, service *liveactivity.Service) error {
	web := &http.Server{Handler: pages(service), ReadHeaderTimeout: 10 * time.Second}
	web.RegisterOnShutdown(service.Stopping)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return service.Run(running) })
	group.Go(func() error {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		defer stop()
		limit, cancel := context.WithTimeout(running, 5*time.Second)
		defer cancel()
		return web.Shutdown(limit)
	})
	return group.Wait()
}

// pages are the shop's own pages, and behind them the service's.
func pages(service *liveactivity.Service) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Welcome to the shop.") })
	mux.HandleFunc("GET /support/{user_id}", func(w http.ResponseWriter, r *http.Request) { support(service, w, r) })
	mux.Handle("/", service.Handler())
	return mux
}

// support shows the shop's people what a user did of late: inside the program
// that is a function call. Authentication of your own goes here.
func support(service *liveactivity.Service, w http.ResponseWriter, r *http.Request) {
	if err := service.Keys().Check(access.BearerToken(r), productID, access.MCP); err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	live, err := service.LiveActivity(r.Context(), productID, r.PathValue("user_id"), 10)
	if err != nil {
		http.Error(w, "Please try again.", http.StatusServiceUnavailable)
		return
	}
	for _, a := range live.Actions {
		fmt.Fprintln(w, a.Description)
	}
}

// printer is a view that prints what is done from now on. What it has not handled
// when the shop stops it does not print any more; for a consumer that goes on
// where it stopped, see examples/consumer.
func printer(stdout io.Writer) liveactivity.View {
	began := time.Now()             // events may come before the view is started
	lines := log.New(stdout, "", 0) // for sessions that come at the same time
	handle := func(_ context.Context, b activity.Batch) error {
		for _, a := range b.Actions {
			lines.Printf("%s: %s", cmp.Or(b.Email, b.UserID, "somebody"), a.Description)
		}
		return nil
	}
	return func(ctx context.Context, _ string, source *eventlog.Source) error {
		consumer, err := stream.NewSourceConsumer(source, stream.Handlers{Actions: handle}, &stream.ConsumerOptions{Since: began})
		if err != nil {
			return err
		}
		return consumer.Run(ctx)
	}
}
