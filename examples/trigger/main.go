// Command trigger is the service with a trigger of its own: a user who comes
// to the cart for the third time without having gone to the checkout is asked in
// the Messenger whether something is missing, and who wants advice gets it.
//
// It takes a product file, whose product has proactive enabled beside its desk:
//
//	"intercom": {"access_token": "${INTERCOM_ACCESS_TOKEN}", "client_secret": "${INTERCOM_CLIENT_SECRET}"},
//	"proactive": {"enabled": true, "triggers": [{"id": "undecided"}, {"id": "canonical_url_ping_pong", "page": "/help"}]}
//
//	go run ./examples/trigger --config products.json
//
// Without a list of triggers, undecided comes first and then those that are on by
// default. How such a trigger is tested is in main_test.go.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/assist"
)

// undecided matches at the third visit of the cart without one of the checkout.
type undecided struct{}

func (undecided) ID() string { return "undecided" }

func (undecided) Evaluate(c proactive.TriggerContext) (proactive.Result, bool) {
	visits, inCart := 0, false
	for _, url := range c.CanonicalURLs {
		switch {
		case url == "": // unknown
		case proactive.Under(url, "/checkout"):
			visits, inCart = 0, false
		case !proactive.Under(url, "/cart"):
			inCart = false
		case !inCart:
			visits, inCart = visits+1, true
		}
	}
	return proactive.Result{
		Body:              "Is something missing?",
		ReplyOptionLabels: []string{"Shipping costs", "Talk to somebody"},
		Cooldown:          10 * time.Minute,
	}, inCart && visits >= 3
}

// newService returns the service for what the product file says.
func newService(path string, guide func(context.Context, assist.Guidance) error) (*liveactivity.Service, error) {
	options := &liveactivity.Options{Triggers: []proactive.Trigger{undecided{}}, Guide: guide}
	file, _, err := liveactivity.LoadFile(path, os.LookupEnv, options) // which may name the trigger
	if err != nil {
		return nil, err
	}
	options.Products, options.Keys = file.Products, file.Keys
	return liveactivity.New(options)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path := flag.String("config", "products.json", "product file")
	flag.Parse()
	service, err := newService(*path, func(_ context.Context, g assist.Guidance) error {
		slog.Info("advice is wanted", "conversation_id", g.ConversationID, "label", g.Label) // ask your people, or your agent
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	web := &http.Server{Addr: "127.0.0.1:8080", Handler: service.Handler(), ReadHeaderTimeout: 10 * time.Second}
	web.RegisterOnShutdown(service.Stopping)
	running, end := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { // requests end first, then the service
		defer end()
		limit, cancel := context.WithTimeout(running, 5*time.Second)
		defer cancel()
		_ = web.Shutdown(limit)
	})
	var group errgroup.Group
	group.Go(func() error { defer stop(); return service.Run(running) })
	group.Go(func() error { defer stop(); return web.ListenAndServe() })
	if err := group.Wait(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
