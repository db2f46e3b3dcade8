package document_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
)

// A caller reads a document before it changes it, and starts again if another write came first.
func ExampleStore() {
	ctx := context.Background()
	store, err := document.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	count := func() error {
		return document.Retry(ctx, func() error {
			docs, err := store.Get(ctx, "acme", "counter")
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(string(docs[0].Value)) // zero if there is none
			_, err = store.Write(ctx, "acme", document.Put(docs[0], []byte(strconv.Itoa(n+1)), time.Hour))
			return err
		})
	}
	var running sync.WaitGroup
	for range 10 {
		running.Go(func() {
			if err := count(); err != nil {
				log.Print(err)
			}
		})
	}
	running.Wait()
	docs, err := store.Get(ctx, "acme", "counter")
	fmt.Println(string(docs[0].Value), err)
	// Output: 10 <nil>
}

// A job runs in one process at a time. Its writes are conditional on the
// lease, so a process that lost the lease without noticing does no harm.
func ExampleWithLease() {
	ctx, stop := context.WithCancel(context.Background())
	store, err := document.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	err = document.WithLease(ctx, store, "acme", "notes", 0, func(ctx context.Context, lease *document.Lease) error {
		docs, err := store.Get(ctx, "acme", "cursor/notes")
		if err != nil {
			return err
		}
		if _, err := store.Write(ctx, "acme", lease.Check(), document.Put(docs[0], []byte("42"), 0)); err != nil {
			return err
		}
		stop() // a long-running job works until ctx is done
		return nil
	})
	docs, _ := store.Get(context.Background(), "acme", "cursor/notes")
	fmt.Println(string(docs[0].Value), err)
	// Output: 42 <nil>
}
