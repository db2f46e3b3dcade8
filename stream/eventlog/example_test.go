package eventlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// A service in a few lines: recorded actions can be looked up by user, and every listener is
// streamed them. Put authentication in front of both endpoints.
func Example() {
	entries, err := memorylog.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	recorder, err := eventlog.NewRecorder(entries, nil)
	if err != nil {
		log.Fatal(err)
	}
	streams, err := eventlog.NewHandler(entries, nil)
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", streams)
	lookup, err := recent.NewLookup(entries.Activity(), 0)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
	server := httptest.NewServer(mux)
	defer server.Close()

	// A consumer, in any language, is an HTTP client that reads lines.
	response, err := http.Get(server.URL + "/stream/acme")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()

	// A source of events hands them to the recorder.
	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"},
		"https://app.example.com/reports/42")
	event := activity.Event{ID: "e1", Time: time.Now(), SessionID: "s1", UserID: "ada", Email: "ada@example.com",
		Action: &click}
	if _, err := recorder.Record(context.Background(), "acme", []activity.Event{event}); err != nil {
		log.Fatal(err)
	}

	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var batch activity.Batch
		if err := json.Unmarshal([]byte(data), &batch); err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Email, "did:", batch.Actions[0].Description)
		break
	}

	// To stop, close the log: readers get the entries that they have not read, then the end.
	_ = entries.Close()
	_ = streams.Wait(context.Background())
	// Output: ada@example.com did: User clicked Export CSV on the reports detail page
}
