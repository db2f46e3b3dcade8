package memorylog_test

import (
	"context"
	"fmt"
	"log"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// A log of one megabyte a product, read from its beginning.
func Example() {
	ctx := context.Background()
	entries, err := memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 1 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	if err := entries.Append(ctx, "acme", []eventlog.Entry{{Data: []byte(`{"n":1}`)},
		{Data: []byte(`{"n":2}`)}}); err != nil {
		log.Fatal(err)
	}
	into := make([]eventlog.Entry, 10)
	n, err := entries.Read(ctx, "acme", eventlog.ID{}, into)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range into[:n] {
		fmt.Printf("%s\n", e.Data)
	}
	// Output:
	// {"n":1}
	// {"n":2}
}
