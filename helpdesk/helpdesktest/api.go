package helpdesktest

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

type object map[string]any

// endpoint answers a request with a status and a body: nil for none, a string sent as is, and
// anything else as JSON.
type endpoint func(r *http.Request) (status int, body any)

// ServeHTTP implements [http.Handler].
func (serve endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := serve(r)
	w.WriteHeader(status)
	switch body := body.(type) {
	case nil:
	case string:
		_, _ = io.WriteString(w, body)
	default:
		_, _ = w.Write(mustMarshal(body))
	}
}

// newAPI returns an API with endpoints by pattern. It serves one request at a time, with mu held.
// admit returns the answer for a request that it refuses, and a zero status for any other.
func newAPI(mu *sync.Mutex, admit func(answer http.Header, r *http.Request) (refused int, body any),
	endpoints map[string]endpoint) http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range endpoints {
		mux.Handle(pattern, serve)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if status, body := admit(w.Header(), r); status != 0 {
			endpoint(func(*http.Request) (int, any) { return status, body }).ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// about returns an endpoint that passes the object that find returns for the ID in the path to
// serve. If that is nil, missing answers.
func about[T any](find func(id string) *T, missing endpoint, serve func(*http.Request, *T) (int, any)) endpoint {
	return func(r *http.Request) (int, any) {
		if found := find(r.PathValue("id")); found != nil {
			return serve(r, found)
		}
		return missing(r)
	}
}

// must returns the object that find returns for an ID, and panics if it returns nil.
func must[T any](find func(id string) *T, id string) *T {
	found := find(id)
	if found == nil {
		panic("helpdesktest: nothing has the ID " + id)
	}
	return found
}

// decodeStrictly decodes a request's body and refuses unknown fields and wrong
// types.
func decodeStrictly(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// mustMarshal encodes a value that can always be encoded.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
