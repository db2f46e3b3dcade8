// Package contracts holds the service's machine-readable contracts: an OpenAPI
// document of its endpoints, and an AsyncAPI document of the stream. They are
// written by hand; tests check the handlers against them, and them against the
// handlers.
package contracts

import (
	"bytes"
	_ "embed" // the documents
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/version"
)

//go:embed openapi.json
var openAPI []byte

//go:embed asyncapi.json
var asyncAPI []byte

// OpenAPI returns the OpenAPI document for a server with this public URL. If it
// is empty, addresses are relative to the document's own.
func OpenAPI(publicURL string) []byte {
	document := replaced(openAPI, "version", version.Version())
	if publicURL == "" {
		return document
	}
	return replaced(document, "servers", []map[string]string{{"url": strings.TrimRight(publicURL, "/")}})
}

// AsyncAPI returns the AsyncAPI document for a server with this public URL. If
// it is empty, the document names no server.
func AsyncAPI(publicURL string) []byte {
	document := replaced(asyncAPI, "version", version.Version())
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return document
	}
	server := map[string]string{"host": u.Host, "protocol": u.Scheme}
	if path := strings.TrimRight(u.EscapedPath(), "/"); path != "" {
		server["pathname"] = path
	}
	return replaced(document, "servers", map[string]any{"live": server})
}

// replaced returns the document with a new value for the first field of that name, and keeps
// the order of all fields. The document itself does not change. It panics if the field is
// missing, because documents are part of the program.
func replaced(document []byte, name string, value any) []byte {
	before, rest, found := bytes.Cut(document, []byte(`"`+name+`": `))
	decoder := json.NewDecoder(bytes.NewReader(rest))
	var old json.RawMessage
	encoded, err := json.Marshal(value)
	if !found || decoder.Decode(&old) != nil || err != nil { // a mistake in a document, or a value that is not JSON
		panic("contracts: cannot replace " + name)
	}
	return bytes.Join([][]byte{before, []byte(`"` + name + `": `), encoded, rest[decoder.InputOffset():]}, nil)
}

// Handler serves a document, which must be valid JSON and must not change.
func Handler(document []byte) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, _ *http.Request) error {
		httpx.WriteJSON(w, http.StatusOK, json.RawMessage(document))
		return nil
	})
}
