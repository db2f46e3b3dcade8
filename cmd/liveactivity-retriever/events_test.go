package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

var shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// The shell lines on Dify's page start a retriever and ask it, unchanged but for the addresses.
func TestDocs_showLinesThatWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/dify.md")
	require.NoError(t, err)
	stream := newStream(t)
	stream.Send(did("demo-session", "", "Save"))
	env := []string{"KEY=" + token, "DIFY_KEY=" + apiKey}
	var s *service
	asked := 0
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "export "):
				output, err := exec.Command("bash", "-euc", line).CombinedOutput()
				require.NoError(t, err, "%s: %s", line, output)
			case strings.HasPrefix(line, "go run ./cmd/liveactivity-retriever "):
				flags := strings.TrimPrefix(line, "go run ./cmd/liveactivity-retriever ")
				flags = strings.ReplaceAll(flags, "http://127.0.0.1:8080/stream/demo", stream.URL())
				p := command.LaunchBy(t, strings.Join(env, " ")+`; exec "$0" "$@" `+flags, proctest.AnyPort)
				s = &service{Process: p, t: t, url: p.URL()}
				s.awaitReady()
			default:
				cmd := exec.Command("bash", "-c", strings.ReplaceAll(line, "http://127.0.0.1:8090", s.url))
				cmd.Env = append(os.Environ(), env...)
				answer, err := cmd.Output()
				require.NoError(t, err, line)
				assert.Equal(t, []string{"Save"}, said(t, string(answer)), line)
				asked++
			}
		}
	}
	require.Positive(t, asked)
}
