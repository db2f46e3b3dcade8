package bridge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/liveactivity/liveactivity/bridge"
)

// A page reports its visitor's actions, and a chat widget introduces itself with the bridge's
// summary of them.
func Example() {
	b, err := bridge.New(&bridge.Options{AllowedOrigins: []string{"https://portal.acme.example"}})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(b.Handler())
	defer server.Close()

	for _, report := range []string{
		`{"session_id": "s1", "type": "pageview", "title": "Vendors"}`,
		`{"session_id": "s1", "title": "Click Approve vendor", "vendor": {"id": "7", "name": "Acme Supplies",
		  "status": "blocked", "missing_documents": ["W-9 form"]}}`,
	} {
		res, err := http.Post(server.URL+"/demo/actions", "application/json", strings.NewReader(report))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Println(res.Status, string(body))
	}

	req, _ := http.NewRequest(http.MethodGet, server.URL+"/context/s1", nil)
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	summary, _ := io.ReadAll(res.Body)
	fmt.Println(string(summary))
	// Output:
	// 202 Accepted {"status":"accepted","count":1}
	// 202 Accepted {"status":"accepted","count":2}
	// Hi! I can see you visited vendors and clicked Approve vendor. Acme Supplies is blocked. Missing documents: W-9 form.
}

// Inside the same program no HTTP is needed.
func ExampleBridge_Context() {
	b, err := bridge.New(nil)
	if err != nil {
		panic(err)
	}
	c := b.Context("nobody")
	fmt.Println(len(c.Actions), c.Vendor == nil)
	fmt.Println(c.Summary)
	// Output:
	// 0 true
	// Hi! I have not seen any activity in this session yet. Look around, and ask me whenever you need a hand.
}

// The bridge's endpoints share a mux with the program's own.
func ExampleBridge_Register() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	b, err := bridge.New(nil)
	if err != nil {
		panic(err)
	}
	b.Register(mux)

	for _, path := range []string{"/healthz", "/context/s1", "/"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 200 application/json
	// 200 text/html; charset=utf-8
}
