package liveactivity_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

const toolsList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// asJSON is the content type of MCP.
const asJSON = "Content-Type: application/json"

// Every endpoint that takes a key is tried with every kind of credential. A key in the URL, which would be in every
// proxy's log, opens nothing. The parser's own tests cover the spellings of a key.
func TestKeys_openTheirProductAndScopeOnly(t *testing.T) {
	s := start(t)
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	endpoints := [...]struct{ name, method, path, body string }{
		{"REST", http.MethodGet, "/users/acme/ada/live-activity?key=" + acmeKey + "&token=" + acmeKey + "&access_token=" +
			acmeKey + "&api_key=" + acmeKey, ""},
		{"REST, no such", http.MethodGet, "/users/none/ada/live-activity", ""},
		{"flow", http.MethodGet, "/flow/acme", ""},
		{"sessions", http.MethodGet, "/sessions/acme", ""},
		{"session", http.MethodGet, "/sessions/acme/S1", ""},
		{"context", http.MethodGet, "/context/acme?user_id=ada&limit=-1&max_chars=200&since=", ""},
		{"stream", http.MethodHead, "/stream/acme", ""},
		{"MCP", http.MethodPost, "/mcp", toolsList},
		{"MCP, a slash", http.MethodPost, "/mcp/", toolsList},
	}
	invalid := [len(endpoints)]int{401, 401, 401, 401, 401, 401, 401, 401, 401}
	credentials := map[string]struct {
		header string
		want   [len(endpoints)]int
	}{
		"none":            {"X-None: x", invalid},
		"wrong":           {bearer("wrong"), invalid},
		"webhook secret":  {bearer(acmeSecret), invalid},
		"capture token":   {bearer(acmeToken), invalid},
		"admin key":       {bearer(adminKey), invalid},
		"both scopes":     {bearer(acmeKey), [...]int{200, 403, 200, 200, 404, 200, 200, 200, 200}},
		"scope mcp":       {bearer(acmeMCP), [...]int{200, 403, 200, 200, 404, 200, 403, 200, 200}},
		"scope stream":    {bearer(acmeStream), [...]int{403, 403, 403, 403, 403, 403, 200, 403, 403}},
		"another product": {bearer(globexKey), [...]int{403, 403, 403, 403, 403, 403, 403, 200, 200}},
	}
	refusals := map[string]map[string]bool{}
	for name, credential := range credentials {
		for i, want := range credential.want {
			e := endpoints[i]
			t.Run(name+"/"+e.name, func(t *testing.T) {
				s := s.in(t)
				r := s.do(e.method, e.path, e.body, credential.header, asJSON)
				assert.Equal(t, want, r.status, r.body)
				if want != http.StatusUnauthorized {
					isScope := want == http.StatusForbidden && strings.HasPrefix(e.name, "MCP")
					assert.Equal(t, isScope, r.header.Get("WWW-Authenticate") != "", "MCP clients sign in for the scope")
					return
				}
				challenge, reason, _ := strings.Cut(r.header.Get("WWW-Authenticate"), " ")
				assert.Equal(t, "Bearer", challenge)
				assert.True(t, reason == "" || strings.HasPrefix(e.name, "MCP"), "only MCP clients need a reason: %s", reason)
				if refusals[e.name] == nil {
					refusals[e.name] = map[string]bool{}
				}
				refusals[e.name][r.body] = true
			})
		}
	}
	for endpoint, bodies := range refusals {
		assert.Len(t, bodies, 1, "%s: a 401 never says which part was wrong", endpoint)
	}
}

// A request without a credential gets its answer although its body never comes.
func TestDoors_readNoBodyWithoutACredential(t *testing.T) {
	s := newDesks().start(t)
	for path, status := range map[string]int{"/webhook/acme": 401, "/chatbot-webhook/acme": 401,
		"/zendesk/chat/acme": 401, "/sessions/link": 403, "/mcp": 401, "/admin/products": 401,
		"/intercom/proactive/acme": 401, "/webhook/unknown": 404} {
		for name, size := range map[string]int{"small": 1 << 10, "large": 1 << 20} {
			t.Run(path+", "+name, func(t *testing.T) {
				conn := s.in(t).dial(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n{", path, size))
				begun := time.Now()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				defer answer.Body.Close()
				assert.Equal(t, status, answer.StatusCode)
				assert.Less(t, time.Since(begun), httpx.BodyTime, "it waits for no more")
			})
		}
	}
}
