package redislog_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"

	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// One of any number of servers on a Redis: all of them look up and stream the actions that one of
// them records.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	entries, err := redislog.Open("redis://localhost:6379", nil)
	if err != nil {
		log.Fatal(err)
	}
	running := make(chan error, 1)
	go func() { running <- entries.Run(ctx, nil) }()

	recorder, err := eventlog.NewRecorder(entries, nil) // sources hand it their events
	if err != nil {
		log.Fatal(err)
	}
	_ = recorder
	mux := http.NewServeMux()
	lookup, err := recent.NewLookup(entries.Activity(), 0)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
	streams, err := eventlog.NewHandler(entries, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /stream/{product_id}", streams)
	server := &http.Server{Addr: "localhost:8080", Handler: mux}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	log.Print(server.ListenAndServe())
	if err := <-running; err != nil {
		log.Print(err)
	}
	if err := entries.Release(); err != nil {
		log.Print(err)
	}
}
