package boltlog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// A program goes on where it stopped: the log is in a folder, and at every start the program reads
// its users' actions back from it.
func Example() {
	dir, err := os.MkdirTemp("", "liveactivity")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for start := 1; start <= 2; start++ {
		if err := run(dir, start); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// start 1: actions known: 0
	// start 2: actions known: 1
}

func run(dir string, start int) error {
	ctx := context.Background()
	entries, err := boltlog.Open(dir, nil)
	if err != nil {
		return err
	}
	defer entries.Release()
	found, err := entries.Activity().Recent(ctx, "acme", recent.Subject{UserID: "ada"}, 50)
	if err != nil {
		return err
	}
	fmt.Printf("start %d: actions known: %d\n", start, len(found.Records))

	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"},
		"https://app.acme.example/reports/42")
	recorder, err := eventlog.NewRecorder(entries, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = recorder.Record(ctx, "acme", []activity.Event{
		{ID: fmt.Sprint("event ", start), Time: time.Now(), SessionID: "session_1", UserID: "ada", Action: &click},
	})
	return err
}
