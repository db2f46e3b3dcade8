package retriever_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
)

// A retriever in small: the stream's batches go into the store, and a chatbot platform asks the
// handler.
func Example() {
	store, err := retriever.NewStore(nil)
	if err != nil {
		log.Fatal(err)
	}
	h, err := retriever.NewHandler(store, &retriever.HandlerOptions{APIKey: "secret", KeyBy: retriever.KeyByEmail})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", h.ServeEvents)
	mux.HandleFunc("POST /retrieval", h.ServeRetrieval)
	server := httptest.NewServer(mux)
	defer server.Close()

	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"},
		"https://app.acme.example/reports/42")
	click.TimestampStart = activity.Seconds(time.Date(2026, 11, 22, 2, 15, 4, 0, time.UTC))
	batch := activity.Batch{
		Type: activity.BatchType, ProductID: "acme", SessionID: "session_1", Email: "ada@example.com",
		Count: 1, Actions: []activity.BatchAction{{Action: click, SessionID: "session_1", Email: "ada@example.com"}},
	}
	store.Learn(batch)                                             // as Learning does with every batch of a stream
	if err := store.Add(context.Background(), batch); err != nil { // as a stream.Writer does
		log.Fatal(err)
	}

	// Dify calls this for every question.
	body := `{"knowledge_id": "ada@example.com", "query": "Why does it fail?", "retrieval_setting": {"top_k": 3, ` +
		`"score_threshold": 0.5}}`
	request, _ := http.NewRequest(http.MethodPost, server.URL+"/retrieval", strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	var found struct {
		Records []struct {
			Content string
			Score   float64
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil {
		log.Fatal(err)
	}
	for _, record := range found.Records {
		fmt.Println(record.Score, record.Content)
	}
	// Output:
	// 1 2026-11-22 02:15:04 UTC: User clicked Export CSV on the reports detail page (https://app.acme.example/reports/:id)
}

// A summary takes the place of the actions it sums up.
func ExampleStore_Overwrite() {
	ctx := context.Background()
	store, err := retriever.NewStore(nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, page := range []string{"pricing", "checkout", "help"} {
		visit := activity.NewAction(activity.TypePageview, activity.Target{}, "https://acme.example/"+page)
		_ = store.Add(ctx, activity.Batch{SessionID: "session_1", Actions: []activity.BatchAction{{Action: visit}}})
	}
	_ = store.Overwrite(ctx, stream.Summary{SessionID: "session_1", Text: "Visited pricing and checkout.", Replaces: 2})

	h, err := retriever.NewHandler(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeEvents(w, httptest.NewRequest(http.MethodGet, "/events?session_id=session_1", nil))
	var found struct{ Records []struct{ Content string } }
	_ = json.Unmarshal(w.Body.Bytes(), &found)
	for _, record := range found.Records {
		fmt.Println(record.Content)
	}
	// Output:
	// 1970-01-01 00:00:00 UTC: User landed on the help page (https://acme.example/help)
	// Visited pricing and checkout.
}
