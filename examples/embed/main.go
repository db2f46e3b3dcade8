// Command embed (go run ./examples/embed) is a web shop with the whole service inside and a page for its support:
//
//	curl -H 'X-PostHog-Secret: SECRET' http://127.0.0.1:8080/webhook/shop -d \
//	  '{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://shop.example"}}'
//	curl -H 'Authorization: Bearer KEY' http://127.0.0.1:8080/support/ada
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/access"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	product, key := liveactivity.NewProduct("shop") // with fresh secrets: a real shop stores them
	options := &liveactivity.Options{Products: []liveactivity.Product{product}, Keys: []liveactivity.Key{key}}
	fmt.Printf("key: %s\nwebhook secret: %s\n", key.Key, product.WebhookSecret)
	listener, err := net.Listen("tcp", "127.0.0.1:8080")
	if err == nil {
		err = serve(ctx, listener, options)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves the shop until ctx ends, and then finishes the requests in flight.
func serve(ctx context.Context, listener net.Listener, options *liveactivity.Options) error {
	service, err := liveactivity.New(options)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", service.Handler())
	mux.HandleFunc("GET /support/{user_id}", func(w http.ResponseWriter, r *http.Request) {
		if err := service.Keys().Check(access.BearerToken(r), "shop", access.MCP); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		live, err := service.LiveActivity(r.Context(), "shop", r.PathValue("user_id"), 10)
		if err != nil {
			http.Error(w, "Please try again.", http.StatusServiceUnavailable)
			return
		}
		for _, a := range live.Actions {
			fmt.Fprintln(w, a.Description)
		}
	})
	return service.ServeHandler(ctx, listener, mux)
}
