package oauth_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// A client that has no key is told where to sign in.
func Example() {
	keys := access.NewKeyring()
	documents, err := document.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	signIn, err := oauth.New("https://live.example.com", keys, documents, nil)
	if err != nil {
		log.Fatal(err)
	}
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	lookup, err := recent.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	tool, err := mcptool.NewHandler(lookup, keys, &mcptool.Options{SignIn: signIn})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", tool)
	signIn.Mount(mux.Handle)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	fmt.Println(w.Code)
	fmt.Println(w.Header().Get("WWW-Authenticate"))
	// Output:
	// 401
	// Bearer resource_metadata="https://live.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"
}
