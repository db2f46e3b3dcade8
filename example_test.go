package liveactivity_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/stream"
)

// acme is a service with one product.
type acme struct{}

func (acme) WebhookSecret(productID string) (string, bool, error) {
	return "hush", productID == "acme", nil
}

func (acme) ProductOfToken(token string) (string, bool, error) {
	return "acme", token == "phc_acme", nil
}

// The whole service on a mux of one's own.
func Example() {
	store := activity.NewMemory(nil)
	entries := stream.NewMemoryLog(stream.Retention{})
	recorder := stream.NewRecorder(entries, store, nil)

	keys := access.NewKeyring()
	if err := keys.Add("secret", "acme"); err != nil {
		log.Fatal(err)
	}

	ingest := posthog.NewHandler(recorder, acme{}, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook/{product_id}", ingest.ServeWebhook)
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, activity.NewLookup(store, 0)))
	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, stream.NewHandler(entries, nil)))

	server := httptest.NewServer(mux)
	defer server.Close()
	event := `{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1","$current_url":"https://app.acme.example/projects/42"}}`
	fmt.Println(call(http.MethodPost, server.URL+"/webhook/acme", "X-PostHog-Secret", "hush", event))
	answer := call(http.MethodGet, server.URL+"/users/acme/ada/live-activity", "Authorization", "Bearer secret", "")
	fmt.Println(strings.Contains(answer, "User landed on the projects detail page"))
	// Output:
	// {"status":"ok","accepted":1,"ignored":0}
	// true
}

func call(method, url, header, value, body string) string {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set(header, value)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	return string(answer)
}
