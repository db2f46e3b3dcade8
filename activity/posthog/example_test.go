package posthog_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
)

// printer is the smallest sink: it keeps nothing.
type printer struct{}

func (printer) Record(_ context.Context, productID string, events []activity.Event) (activity.Result, error) {
	for _, e := range events {
		if e.Action != nil {
			fmt.Printf("%s: %s: %s\n", productID, e.UserID, e.Action.Description)
		}
	}
	return activity.Result{Accepted: len(events)}, nil
}

// oneProduct is all there is.
type oneProduct struct{}

func (oneProduct) ProductOfID(productID string) (intake.Product, bool, error) {
	return intake.Product{WebhookSecret: "a long random secret"}, productID == "acme", nil
}

func (oneProduct) ProductOfToken(token string) (string, bool, error) {
	return "acme", token == "phc_acme", nil
}

func (oneProduct) Refresh(string) error { return nil } // no other process changes it

func ExampleHandler() {
	in, err := intake.New(printer{}, oneProduct{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhook/{product_id}", in.Webhook(posthog.Source))
	mux.HandleFunc("/", posthog.New(in).ServeSDK)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/i/v0/e/", strings.NewReader(`{
		"api_key": "phc_acme",
		"batch": [{
			"event": "$autocapture",
			"distinct_id": "user_42",
			"properties": {
				"$current_url": "https://app.acme.example/dashboard?tab=sales",
				"$elements_chain": "span:text=\"CSV\";button:text=\"Export CSV\""
			}
		}]
	}`)))
	fmt.Println(w.Code, w.Body)
	// Output:
	// acme: user_42: User clicked Export CSV on the dashboard page
	// 200 {"status":1,"accepted":1,"ignored":0}
}

func ExampleHandler_webhook() {
	body := `{"event": {"event": "$pageview", "distinct_id": "user_42", "properties": {"$current_url": ` +
		`"https://app.acme.example/pricing"}}}`

	in, err := intake.New(printer{}, oneProduct{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhook/{product_id}", in.Webhook(posthog.Source))
	r := httptest.NewRequest(http.MethodPost, "/webhook/acme", strings.NewReader(body))
	r.Header.Set("X-PostHog-Secret", fmt.Sprintf("sha256=%x", intake.Sign("a long random secret", []byte(body))))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// acme: user_42: User landed on the pricing page
	// 200 {"status":"ok","accepted":1,"ignored":0}
}

func ExampleIsSDKPath() {
	for _, path := range []string{"/e/", "/ingest/i/v0/e/", "/array/phc_acme/config.js",
		"/users/acme/user_42/live-activity"} {
		fmt.Println(path, posthog.IsSDKPath(path))
	}
	// Output:
	// /e/ true
	// /ingest/i/v0/e/ true
	// /array/phc_acme/config.js true
	// /users/acme/user_42/live-activity false
}
