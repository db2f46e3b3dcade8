package engine_test

import (
	"fmt"
	"log"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

// An engine handles the entries of an append, and a reader's cursor.
func Example() {
	tail := engine.NewTail(engine.NextID(eventlog.ID{}, time.UnixMilli(1000)))

	entries := []eventlog.Entry{{SessionID: "s1", Data: []byte(`{"n":1}`)}, {SessionID: "s2", Data: []byte(`{"n":2}`)}}
	if err := engine.Validate(entries); err != nil {
		log.Fatal(err)
	}
	newest := tail.Bounds().Newest
	for i := range entries {
		newest = engine.NextID(newest, time.UnixMilli(2000))
		entries[i].Own()
		entries[i].Encode(newest)
	}
	// Here the entries are stored.
	tail.Add(entries...)

	into := make([]eventlog.Entry, 10)
	n, ok := tail.Read(entries[0].ID, into)
	fmt.Println(n, ok, into[0].ID, into[0].SessionID)
	tail.DropUpTo(entries[0].ID, nil)
	_, ok = tail.Read(eventlog.ID{}, into)
	fmt.Println("all from the beginning:", ok)
	// Output:
	// 1 true 2000-1 s2
	// all from the beginning: false
}
