package liveactivity_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
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

// Every endpoint that takes a key, with every kind of credential there is.
func TestKeys_openTheirProductAndScopeOnly(t *testing.T) {
	s := start(t)
	endpoints := map[string]struct{ method, path, body string }{
		"REST":          {http.MethodGet, "/users/acme/ada/live-activity", ""},
		"stream":        {http.MethodHead, "/stream/acme", ""},
		"flow":          {http.MethodGet, "/flow/acme", ""},
		"MCP":           {http.MethodPost, "/mcp", toolsList},
		"MCP, a slash":  {http.MethodPost, "/mcp/", toolsList},
		"REST, no such": {http.MethodGet, "/users/none/ada/live-activity", ""},
	}
	credentials := map[string]struct {
		header string
		want   map[string]int
	}{
		"none":              {"X-None: x", map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401, "MCP, a slash": 401, "REST, no such": 401}},
		"empty":             {"Authorization: ", map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"no token":          {"Authorization: Bearer", map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"empty token":       {"Authorization: Bearer  ", map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"wrong":             {bearer("wrong"), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401, "REST, no such": 401}},
		"a part of the key": {bearer(acmeKey[:len(acmeKey)-1]), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"more than the key": {bearer(acmeKey + "x"), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"other letters":     {bearer("LAK-acme-s3cr3t"), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"another scheme":    {"Authorization: Basic " + acmeKey, map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"the key alone":     {"Authorization: " + acmeKey, map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"another header":    {"X-Api-Key: " + acmeKey, map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"webhook secret":    {bearer(acmeSecret), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"project token":     {bearer(acmeToken), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"admin key":         {bearer(adminKey), map[string]int{"REST": 401, "stream": 401, "flow": 401, "MCP": 401}},
		"both scopes":       {bearer(acmeKey), map[string]int{"REST": 200, "stream": 200, "flow": 200, "MCP": 200, "MCP, a slash": 200, "REST, no such": 403}},
		"scope mcp":         {bearer(acmeMCP), map[string]int{"REST": 200, "stream": 403, "flow": 200, "MCP": 200, "MCP, a slash": 200}},
		"scope stream":      {bearer(acmeStream), map[string]int{"REST": 403, "stream": 200, "flow": 403, "MCP": 403, "MCP, a slash": 403}},
		"another product":   {bearer(globexKey), map[string]int{"REST": 403, "stream": 403, "flow": 403, "MCP": 200, "REST, no such": 403}},
		"scheme in small":   {"Authorization: bearer " + acmeKey, map[string]int{"REST": 200, "stream": 200, "flow": 200, "MCP": 200}},
	}
	refusals := map[string]map[string]bool{}
	for name, credential := range credentials {
		for endpoint, want := range credential.want {
			t.Run(name+"/"+endpoint, func(t *testing.T) {
				s := s.in(t)
				e := endpoints[endpoint]
				r := s.do(e.method, e.path, e.body, credential.header, asJSON)
				assert.Equal(t, want, r.status, r.body)
				if want != http.StatusUnauthorized {
					isScope := want == http.StatusForbidden && strings.HasPrefix(endpoint, "MCP")
					assert.Equal(t, isScope, r.header.Get("WWW-Authenticate") != "", "MCP clients sign in for the scope")
					return
				}
				challenge, reason, _ := strings.Cut(r.header.Get("WWW-Authenticate"), " ")
				assert.Equal(t, "Bearer", challenge)
				assert.True(t, reason == "" || strings.HasPrefix(endpoint, "MCP"), "only MCP clients need a reason: %s", reason)
				if refusals[endpoint] == nil {
					refusals[endpoint] = map[string]bool{}
				}
				refusals[endpoint][r.body] = true
			})
		}
	}
	for endpoint, bodies := range refusals {
		assert.Len(t, bodies, 1, "%s: a 401 never says which part was wrong", endpoint)
	}
}

// A key in the URL would be in every proxy's log.
func TestKeys_areNotTakenFromTheURL(t *testing.T) {
	s := start(t)
	for _, query := range []string{"?key=", "?token=", "?access_token=", "?api_key="} {
		assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, "/users/acme/ada/live-activity"+query+acmeKey, "").status)
	}
}

func TestWebhook_asksForTheSecretOrASignature(t *testing.T) {
	s := start(t)
	body := pageview("u1", "s1", "https://app.example.com/a")
	sign := func(secret, body string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	tests := map[string]struct {
		header string
		want   int
	}{
		"none":                         {"X-None: x", 401},
		"empty":                        {"X-PostHog-Secret: ", 401},
		"wrong":                        {"X-PostHog-Secret: wrong", 401},
		"another product's secret":     {"X-PostHog-Secret: " + globexSecret, 401},
		"the key":                      {"X-PostHog-Secret: " + acmeKey, 401},
		"the key as bearer":            {bearer(acmeKey), 401},
		"the secret as bearer":         {bearer(acmeSecret), 401},
		"a signature of another body":  {"X-PostHog-Secret: " + sign(acmeSecret, body+" "), 401},
		"a signature by another":       {"X-PostHog-Secret: " + sign(globexSecret, body), 401},
		"a signature by nothing":       {"X-PostHog-Secret: " + sign("", body), 401},
		"an empty signature":           {"X-PostHog-Secret: sha256=", 401},
		"a signature cut short":        {"X-PostHog-Secret: " + sign(acmeSecret, body)[:40], 401},
		"a signature without its name": {"X-PostHog-Secret: " + sign(acmeSecret, body)[7:], 401},
		"the secret":                   {"X-PostHog-Secret: " + acmeSecret, 200},
		"a signature":                  {"X-PostHog-Secret: " + sign(acmeSecret, body), 200},
	}
	refusals := map[string]bool{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			r := s.do(http.MethodPost, "/webhook/acme", body, tt.header)
			assert.Equal(t, tt.want, r.status, r.body)
			if tt.want == http.StatusUnauthorized {
				refusals[r.body] = true
				assert.NotContains(t, r.body, sign(acmeSecret, body)[7:], "the expected signature is never disclosed")
			}
		})
	}
	assert.Len(t, refusals, 1, "a 401 never says which part was wrong")
	assert.Equal(t, 1.0, s.lookup("ada")["count"])
}

func TestCapture_asksForAProjectToken(t *testing.T) {
	s := start(t)
	event := pageview("u1", "s1", "https://app.example.com/a")
	withToken := func(token string) string { return `{"api_key":"` + token + `","batch":[` + event + `]}` }
	refusals := map[string]bool{}
	for name, body := range map[string]string{
		"none":         `{"batch":[` + event + `]}`,
		"empty":        withToken(""),
		"unknown":      withToken("phc_unknown"),
		"a key":        withToken(acmeKey),
		"a secret":     withToken(acmeSecret),
		"a bare event": event,
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			r := s.do(http.MethodPost, "/e/", body)
			assert.Equal(t, http.StatusUnauthorized, r.status, r.body)
			assert.Empty(t, r.header.Get("WWW-Authenticate"))
			refusals[r.body] = true
		})
	}
	assert.Len(t, refusals, 1, "a 401 never says which part was wrong")
	assert.Equal(t, 0.0, s.lookup("ada")["count"])
	assert.Equal(t, http.StatusOK, s.do(http.MethodPost, "/e/", withToken(globexToken)).status)
	assert.Equal(t, 0.0, s.lookup("ada")["count"], "the token decides on the product")
	assert.Equal(t, http.StatusOK, s.do(http.MethodPost, "/e/", withToken(acmeToken)).status)
	assert.Equal(t, 1.0, s.lookup("ada")["count"])
}

func TestOpenEndpoints_askForNothing(t *testing.T) {
	s := start(t)
	for path, method := range map[string]string{
		"/healthz": http.MethodGet, "/readyz": http.MethodGet, "/metrics": http.MethodGet,
		"/array/phc_unknown/config": http.MethodGet, "/array/phc_unknown/config.js": http.MethodGet,
		"/flags/": http.MethodPost, "/flags": http.MethodPost, "/decide/": http.MethodPost, "/s/": http.MethodPost, "/s": http.MethodPost,
	} {
		assert.Equal(t, http.StatusOK, s.do(method, path, "{}").status, path)
	}
}

// A request whose credential is missing is answered though its body never comes.
func TestDoors_readNoBodyWithoutACredential(t *testing.T) {
	s := newDesks().start(t)
	address := strings.TrimPrefix(s.url, "http://")
	for path, status := range map[string]int{
		"/webhook/acme":            401,
		"/chatbot-webhook/acme":    401,
		"/zendesk/chat/acme":       401,
		"/sessions/link":           403,
		"/mcp":                     401,
		"/admin/products":          401,
		"/intercom/proactive/acme": 401,
		"/webhook/unknown":         404,
	} {
		for name, size := range map[string]int{"small": 1 << 10, "large": 1 << 20} {
			t.Run(path+", "+name, func(t *testing.T) {
				conn, err := net.Dial("tcp", address)
				require.NoError(t, err)
				defer conn.Close()
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n{", path, size)
				require.NoError(t, err)
				begun := time.Now()
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				defer answer.Body.Close()
				assert.Equal(t, status, answer.StatusCode)
				assert.Less(t, time.Since(begun), httpx.BodyTime/2)
			})
		}
	}
}
