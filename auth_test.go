package liveactivity_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
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

// mcpCallback is the redirect URI of the tests' clients.
const mcpCallback = "http://127.0.0.1:33418/callback"

var hiddenField = regexp.MustCompile(`action="([^"]+)"[\s\S]*name="form" value="([^"]+)"`)

// consent acts for a user with a key, in a browser of its own: it opens the address and allows the
// access. It returns the parameters of the answer.
func (s *service) consent(address, key string) url.Values {
	s.t.Helper()
	jar := musttest.New(cookiejar.New(nil))
	browser := &http.Client{Transport: s.client.Transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(address)
	require.NoError(s.t, err)
	defer page.Body.Close()
	html, err := io.ReadAll(page.Body)
	require.NoError(s.t, err)
	form := hiddenField.FindStringSubmatch(string(html))
	require.NotNil(s.t, form, "%s", html)
	action := musttest.New(page.Request.URL.Parse(strings.ReplaceAll(form[1], "&amp;", "&")))
	answer, err := browser.PostForm(action.String(), url.Values{"form": {form[2]}, "key": {key}})
	require.NoError(s.t, err)
	defer answer.Body.Close()
	require.Equal(s.t, http.StatusSeeOther, answer.StatusCode)
	to, err := answer.Location()
	require.NoError(s.t, err)
	return to.Query()
}

// signIn connects the official client, which finds, registers and signs in by itself. The last
// result returns the client's token.
func (s *service) signIn(key string) (session *mcp.ClientSession, token func() string) {
	s.t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "agent", RedirectURIs: []string{mcpCallback},
			GrantTypes: []string{"authorization_code", "refresh_token"}}},
		Client: s.client,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			q := s.consent(args.URL, key)
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	require.NoError(s.t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err = client.Connect(s.t.Context(),
		&mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.client, OAuthHandler: handler}, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = session.Close() })
	return session, func() string {
		source, err := handler.TokenSource(s.t.Context())
		require.NoError(s.t, err)
		token, err := source.Token()
		require.NoError(s.t, err)
		return token.AccessToken
	}
}

// mcpStatus is the status of the answer to a token at /mcp.
func (s *service) mcpStatus(token string) int {
	s.t.Helper()
	return s.status(http.MethodPost, "/mcp", toolsList, bearer(token), asJSON)
}

func TestSignIn_withTheOfficialClient(t *testing.T) {
	s := start(t)
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	session, token := s.signIn(acmeMCP)
	result, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "get_live_user_activity", Arguments: map[string]any{"user_id": "ada"}})
	require.NoError(t, err)
	assert.Equal(t, 1.0, result.StructuredContent.(map[string]any)["count"])
	for _, path := range []string{"/users/acme/ada/live-activity", "/sessions/acme", "/stream/acme", "/admin/products"} {
		assert.Equal(t, http.StatusUnauthorized, s.status(http.MethodGet, path, "", bearer(token())),
			"a token opens MCP only")
	}
	wrong := s.do(http.MethodPost, "/mcp", toolsList, bearer("wrong"), asJSON).header.Get("WWW-Authenticate")
	assert.Contains(t, wrong, `error="invalid_token", error_description="wrong key`)
	r := s.do(http.MethodPost, "/mcp", toolsList, bearer(acmeStream), asJSON)
	assert.Equal(t, http.StatusForbidden, r.status)
	assert.Equal(t, `Bearer error="insufficient_scope", scope="mcp", resource_metadata="`+s.url+
		`/.well-known/oauth-protected-resource/mcp"`, r.header.Get("WWW-Authenticate"))
	assert.NotContains(t, s.log.String(), token())
}

// A token ends when the product's keys are rotated, and when the product is removed.
func TestSignIn_endsWithTheKey(t *testing.T) {
	s := start(t)
	first := s.register(`{"product_id":"initech"}`)
	_, token := s.signIn(first["key"])
	old := token()
	second := s.register(`{"product_id":"initech","force":true}`)
	assert.Equal(t, http.StatusUnauthorized, s.mcpStatus(old))
	_, token = s.signIn(second["key"])
	assert.Equal(t, http.StatusOK, s.mcpStatus(token()))
	assert.Equal(t, http.StatusNoContent, s.status(http.MethodDelete, "/admin/products/initech", "", withAdminKey))
	assert.Equal(t, http.StatusUnauthorized, s.mcpStatus(token()))
	third := s.register(`{"product_id":"initech"}`)
	assert.Equal(t, http.StatusUnauthorized, s.mcpStatus(token()))
	assert.Equal(t, http.StatusOK, s.mcpStatus(third["key"]))
	assert.Empty(t, s.do(http.MethodGet, "/admin/grants/initech", "", withAdminKey).json(t)["grants"])
}

// Each server of a Redis takes the codes and tokens of the others.
func TestSignIn_atAnyServer(t *testing.T) {
	redis := redistest.Start(t)
	a := start(t, withRedis(redis.URL()))
	b := start(t, withRedis(redis.URL()), func(o *liveactivity.Options) { o.PublicURL = a.url })
	client := a.do(http.MethodPost, "/oauth/register",
		`{"redirect_uris": ["`+mcpCallback+`"]}`).json(t)["client_id"].(string)
	query := fmt.Sprintf("/oauth/authorize?response_type=code&client_id=%s&redirect_uri=%s&code_challenge=%s&"+
		"code_challenge_method=S256",
		client, url.QueryEscape(mcpCallback), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM") // RFC 7636, appendix B
	code := b.consent(b.url+query, acmeKey).Get("code")
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client},
		"redirect_uri":  {mcpCallback},
		"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}}
	const isForm = "Content-Type: application/x-www-form-urlencoded"
	tokens := a.do(http.MethodPost, "/oauth/token", form.Encode(), isForm).json(t)
	access := tokens["access_token"].(string)
	assert.Equal(t, http.StatusOK, b.mcpStatus(access))
	renewal := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)},
		"client_id": {client}}
	assert.Equal(t, http.StatusOK, b.do(http.MethodPost, "/oauth/token", renewal.Encode(), isForm).status)
	assert.Equal(t, http.StatusBadRequest, a.do(http.MethodPost, "/oauth/token", renewal.Encode(), isForm).status,
		"it was used at the other")
	assert.Equal(t, http.StatusUnauthorized, b.mcpStatus(access))
}
