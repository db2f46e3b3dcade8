package liveactivity_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mcpCallback is the redirect URI of the tests' clients.
const mcpCallback = "http://127.0.0.1:33418/callback"

var hiddenField = regexp.MustCompile(`action="([^"]+)"[\s\S]*name="form" value="([^"]+)"`)

// consent acts for a user with a key, in a browser of its own: it opens the address and allows the
// access. It returns the parameters of the answer.
func (s *service) consent(address, key string) url.Values {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	browser := &http.Client{Transport: s.client.Transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(address)
	require.NoError(s.t, err)
	defer page.Body.Close()
	html, err := io.ReadAll(page.Body)
	require.NoError(s.t, err)
	form := hiddenField.FindStringSubmatch(string(html))
	require.NotNil(s.t, form, "%s", html)
	action, err := page.Request.URL.Parse(strings.ReplaceAll(form[1], "&amp;", "&"))
	require.NoError(s.t, err)
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
