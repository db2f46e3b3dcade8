package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

func TestRoutes_areTheseOnly(t *testing.T) {
	t.Parallel()
	s := launch(t, enough)
	for route, want := range map[string]int{
		"POST /events": http.StatusMethodNotAllowed, "GET /retrieval": http.StatusMethodNotAllowed,
		"POST /metrics": http.StatusMethodNotAllowed,
		"GET /":         http.StatusNotFound, "GET /debug/pprof/": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(route, " ")
		status, body := proctest.Request(t, method, s.url+path, "")
		assert.Equal(t, want, status, route)
		assert.Regexp(t, `^\{"detail":"[A-Z][^\n]+"\}$`, body)
	}
}

// Dify joins its endpoint, which may end in a slash, and the path.
func TestPaths_forgiveADoubledSlashBeforeThem(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	stream.Send(did("s1", "", "a"))
	s := follow(t, stream)
	s.await("s1", "a")
	for _, slashes := range []string{"/", "//", "///"} {
		status, body := proctest.Request(t, http.MethodPost, s.url+slashes+"retrieval", `{"knowledge_id":"s1"}`)
		assert.Equal(t, http.StatusOK, status, slashes)
		assert.Equal(t, []string{"a"}, said(t, body))
		status, body = proctest.Request(t, http.MethodGet, s.url+slashes+"events?session_id=s1", "")
		assert.Equal(t, http.StatusOK, status, slashes)
		assert.Equal(t, []string{"a"}, said(t, body))
	}
	for _, path := range []string{"//", "//x", "//example.com/retrieval", "/x//retrieval", "/./retrieval",
		"//../retrieval"} {
		status, _ := proctest.Request(t, http.MethodPost, s.url+path, `{"knowledge_id":"s1"}`)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
}
