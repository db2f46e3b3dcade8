// Command embed is a web shop with the whole service inside: it takes events
// from PostHog, serves live activity by REST and MCP, and the stream, beside
// the shop's own pages and behind the shop's own keys, and it reads its own
// stream. It stops in good order.
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
	"crypto/rand"
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

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/boltlog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

const (
	productID = "shop"

	tidyEvery = time.Minute      // expired data is freed
	stopTime  = 10 * time.Second // for everything that is under way
)

// run is the shop: it returns when ctx ends and everything is finished.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("embed", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "listen address")
	dir := flags.String("data-dir", "", "folder to keep everything in; without it all is in memory")
	_ = flags.Parse(args) // ends the program when they are wrong

	key := cmp.Or(os.Getenv("SHOP_KEY"), rand.Text())
	secret := cmp.Or(os.Getenv("SHOP_WEBHOOK_SECRET"), rand.Text())
	s, err := open(ctx, *dir)
	if err != nil {
		return err
	}
	if err := s.mount(key, secret); err != nil {
		return errors.Join(err, s.release())
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return errors.Join(err, s.release())
	}
	fmt.Fprintf(stdout, "listening on http://%s\nkey: %s\nwebhook secret: %s\n", listener.Addr(), key, secret)
	return errors.Join(s.serve(ctx, listener, key, stdout), s.release())
}

// service is what the shop is made of.
type service struct {
	entries stream.Log
	store   *activity.Memory // of what users did of late
	streams *stream.Handler
	mux     *http.ServeMux

	expire  func(context.Context) error // frees what is too old
	release func() error                // comes last
}

// open opens the log, in memory or in a folder, and fills the store with what
// is in it.
func open(ctx context.Context, dir string) (*service, error) {
	s := &service{store: activity.NewMemory(nil), mux: http.NewServeMux()}
	if dir == "" {
		entries := stream.NewMemoryLog(stream.Retention{})
		s.entries = entries
		s.expire = func(context.Context) error {
			entries.Expire()
			return nil
		}
		s.release = func() error { return nil }
		return s, nil
	}
	entries, err := boltlog.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	s.entries, s.expire, s.release = entries, entries.Expire, entries.Release
	if _, err := stream.Replay(ctx, entries, productID, s.store); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// mount puts the service's endpoints beside the shop's own. A real shop takes
// the keys from where it keeps its customers, each with a product of its own.
func (s *service) mount(key, secret string) error {
	keys := access.NewKeyring()
	if err := keys.Add(key, productID, access.MCP, access.Stream); err != nil {
		return err
	}
	ingest := posthog.NewHandler(stream.NewRecorder(s.entries, s.store, nil), credentials{secret}, nil)
	lookup := activity.NewLookup(s.store, 0)
	s.streams = stream.NewHandler(s.entries, nil)

	s.mux.HandleFunc("POST /webhook/{product_id}", ingest.ServeWebhook)
	for _, pattern := range posthog.SDKPatterns() {
		s.mux.HandleFunc(pattern, ingest.ServeSDK)
	}
	s.mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, lookup))
	s.mux.Handle("/mcp", mcptool.NewHandler(lookup, keys, nil))
	s.mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, s.streams))

	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Welcome to the shop.") })
	s.mux.Handle("GET /support/{user_id}", requireKey(keys, support(lookup)))
	return nil
}

// credentials are the shop's, as PostHog's side sends them: the secret with
// webhooks, and with calls of posthog-js a token that everybody can see.
type credentials struct{ secret string }

func (c credentials) WebhookSecret(id string) (string, bool, error) {
	return c.secret, id == productID, nil
}

func (c credentials) ProductOfToken(token string) (string, bool, error) {
	return productID, token == "phc_shop", nil
}

// requireKey is for the shop's own routes: it is what Keyring.Require is where
// the path does not name a product. Authentication of your own goes here.
func requireKey(keys *access.Keyring, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := keys.Check(access.BearerToken(r), productID, access.MCP); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// support tells the shop's people what a user did of late. Inside the program
// that is a function call.
func support(lookup *activity.Lookup) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		live, err := lookup.Get(r.Context(), productID, r.PathValue("user_id"), 10)
		if err != nil {
			http.Error(w, "Please try again.", http.StatusServiceUnavailable)
			return
		}
		for _, a := range live.Actions {
			fmt.Fprintln(w, a.Description)
		}
	})
}

// serve serves until ctx ends and everything is finished, or until something
// fails.
func (s *service) serve(ctx context.Context, listener net.Listener, key string, stdout io.Writer) error {
	web := &http.Server{Handler: s.mux, ReadHeaderTimeout: 10 * time.Second}
	consumer, err := newConsumer("http://"+listener.Addr().String()+"/stream/"+productID, key, stdout)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	consuming, stopConsuming := context.WithCancel(context.WithoutCancel(ctx)) // as long as there is a stream
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return unless(http.ErrServerClosed, web.Serve(listener)) })
	group.Go(func() error { return unless(context.Canceled, consumer.Run(consuming)) })
	group.Go(func() error { return s.tidy(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		defer stopConsuming()
		return s.stop(web)
	})
	return group.Wait()
}

// unless returns err when it is not the expected one.
func unless(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// newConsumer returns a consumer of the shop's own stream, which prints what is
// done. What it has not handled when the shop stops it does not print any more;
// for one that goes on there, see examples/consumer.
func newConsumer(url, key string, stdout io.Writer) (*stream.Consumer, error) {
	lines := log.New(stdout, "", 0) // for sessions that come at the same time
	handle := func(_ context.Context, b activity.Batch) error {
		for _, a := range b.Actions {
			lines.Printf("%s: %s", cmp.Or(b.Email, b.UserID, "somebody"), a.Description)
		}
		return nil
	}
	return stream.NewConsumer(url, key, stream.Handlers{Actions: handle}, &stream.ConsumerOptions{
		Since: time.Now(), // events may come before the consumer is connected
	})
}

// tidy frees what is too old now and then, until ctx ends.
func (s *service) tidy(ctx context.Context) error {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.store.Expire()
			if err := s.expire(ctx); err != nil && ctx.Err() == nil {
				log.Print("expired data was not removed: ", err) // the next time will do
			}
		}
	}
}

// stop ends everything in order: the requests, so that what is acknowledged is
// in the log; then the log; then its readers, once they have been sent the
// rest. Only the log can end them, http.Server does not know of streams.
func (s *service) stop(web *http.Server) error {
	limit, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := web.Shutdown(limit)
	err = errors.Join(err, s.entries.Close())
	return errors.Join(err, s.streams.Wait(limit))
}
