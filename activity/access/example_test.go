package access_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/recent"
)

func ExampleKeyring_Require() {
	keys := access.NewKeyring()
	if err := keys.Add("secret", "acme", access.MCP); err != nil {
		panic(err)
	}
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	lookup, err := recent.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, lookup))

	get := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/users/acme/user_42/live-activity", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	fmt.Println(get("secret").Code)
	fmt.Println(get("guess").Code, get("guess").Body)
	// Output:
	// 200
	// 401 {"detail":"Invalid or missing API key"}
}

func ExampleKeyring_Check() {
	keys := access.NewKeyring()
	_ = keys.Add("secret", "acme", access.Stream)
	fmt.Println(keys.Check("secret", "acme", access.Stream))
	fmt.Println(keys.Check("secret", "other", access.Stream))
	// Output:
	// <nil>
	// API key does not match product_id
}
