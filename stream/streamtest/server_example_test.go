package streamtest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// follow is the consumer under test. It handles batches until the connection
// ends, and returns the id of the last one.
func follow(url, token, lastID string, handle func(activity.Batch)) string {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Last-Event-ID", lastID)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		fmt.Println("try again later:", response.Status)
		return lastID
	}
	var id string
	var batch activity.Batch
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			if err := json.Unmarshal([]byte(value), &batch); err != nil {
				log.Fatal(err)
			}
		case field == "" && len(batch.Actions) > 0: // the end of an event
			handle(batch)
			batch, lastID = activity.Batch{}, id
		}
	}
	return lastID
}

// A consumer loses its connection within an event, is refused once by an
// overloaded server, and finally gets the whole event.
func ExampleServer() {
	server, err := streamtest.NewServer(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	did := func(label string) activity.Batch {
		click := activity.NewAction(activity.TypeClick, activity.Target{Label: label}, "https://app.example.com/reports")
		return activity.Batch{SessionID: "s1", Email: "ada@example.com", Actions: []activity.BatchAction{{Action: click}}}
	}
	first := server.Send(did("New report"))
	server.Send(did("Export CSV"))
	handle := func(b activity.Batch) {
		fmt.Println(b.Email, "did", b.Actions[0].Title)
		server.Disconnect()
	}

	server.Tear(1 << 20) // all but the end of the next event
	lastID := follow(server.URL(), server.Token(), first[0], handle)
	server.Refuse(http.StatusServiceUnavailable, 1)
	lastID = follow(server.URL(), server.Token(), lastID, handle)
	follow(server.URL(), server.Token(), lastID, handle)

	for _, r := range server.Requests() {
		fmt.Println(r.Status, r.LastEventID == first[0])
	}
	// Output:
	// try again later: 503 Service Unavailable
	// ada@example.com did Click Export CSV
	// 200 true
	// 503 true
	// 200 true
}
