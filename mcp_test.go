package liveactivity_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
)

// keyed sends a key with every request.
type keyed struct {
	base http.RoundTripper
	key  string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.base.RoundTrip(r)
}

// connect opens a session of the official client. opts may be nil.
func (s *service) connect(key string, opts *mcp.ClientOptions) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts)
	session, err := client.Connect(s.t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   s.url + "/mcp",
		HTTPClient: &http.Client{Transport: keyed{s.client.Transport, key}},
	}, nil)
	if err == nil {
		s.t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// callTool returns the structured content of a call for a user of acme.
func (s *service) callTool(user string) map[string]any {
	s.t.Helper()
	session, err := s.connect(acmeMCP, nil)
	require.NoError(s.t, err)
	defer session.Close()
	result, err := session.CallTool(s.t.Context(), &mcp.CallToolParams{
		Name: "get_live_user_activity", Arguments: map[string]any{"product_id": "acme", "user_id": user}})
	require.NoError(s.t, err)
	require.False(s.t, result.IsError, "%v", result.Content)
	return result.StructuredContent.(map[string]any)
}

func TestMCP_withTheOfficialClient(t *testing.T) {
	session, err := start(t).connect(acmeKey, nil)
	require.NoError(t, err)
	assert.Equal(t, "liveactivity", session.InitializeResult().ServerInfo.Name)
	assert.Empty(t, session.ID(), "there are no sessions")
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 3)
	tool := tools.Tools[0]
	assert.Equal(t, "get_live_user_activity", tool.Name)
	assert.NotEmpty(t, tool.Description)
	assert.True(t, tool.Annotations.ReadOnlyHint)
	input := tool.InputSchema.(map[string]any)
	assertFields(t, input["properties"].(map[string]any), "product_id", "user_id", "limit")
	assert.Equal(t, []any{"user_id"}, input["required"])
	output := tool.OutputSchema.(map[string]any)
	assertFields(t, output["properties"].(map[string]any), "product_id", "user_id", "count", "as_of", "actions")
	actions := output["properties"].(map[string]any)["actions"].(map[string]any)
	assert.Equal(t, "array", actions["type"], "never null")
	action := actions["items"].(map[string]any)
	assertFields(t, action["properties"].(map[string]any), "type", "title", "description", "properties", "marks",
		"timestamp_start", "timestamp_end", "raw_url", "canonical_url", "index")
	assert.NotContains(t, action["required"], "marks")
	assert.NotContains(t, action, "additionalProperties", "a later version may have more")
}

// A client hears of a user's actions, also of those that turn out later to be the user's, and of their
// erasure, and of no other user's.
func TestMCP_tellsASubscriberWhenTheUserActs(t *testing.T) {
	s := start(t)
	updated := make(chan string, 10)
	session, err := s.connect(acmeMCP, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updated <- req.Params.URI
		}})
	require.NoError(t, err)
	templates, err := session.ListResourceTemplates(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, templates.ResourceTemplates, 1)
	assert.Equal(t, "liveactivity://{product_id}/users/{user_id}", templates.ResourceTemplates[0].URITemplate)

	const uri, another, spelled = "liveactivity://acme/users/ada", "liveactivity://acme/users/eve%2F%C3%A4",
		"liveactivity://acme/users/eve/ä"
	for _, u := range []string{uri, another, spelled} {
		require.NoError(t, session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: u}))
	}
	s.acts("1", "bob", "s-bob", "$pageview", "/a", "")
	s.acts("2", "ada", "s-ada", "$pageview", "/a", "")
	assert.Equal(t, uri, <-updated)
	s.acts("3", "eve/ä", "s-eve/ä", "$pageview", "/a", "")
	assert.ElementsMatch(t, []string{another, spelled}, []string{<-updated, <-updated}, "in each spelling")
	s.acts("4", "anon", "s-anon", "$pageview", "/a", "")
	s.acts("5", "ada", "s-anon", "$identify", "/a", `,"$anon_distinct_id":"anon"`)
	assert.Equal(t, uri, <-updated, "what the visitor did is the user's")
	s.acts("6", "anon", "s-anon", "$pageview", "/b", `},"timestamp":"`+
		time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)+`","x":{`)
	assert.Equal(t, uri, <-updated, "also if it arrives late")
	s.ok(http.MethodDelete, "/users/acme/eve%2F%C3%A4", "", withAdminKey)
	assert.ElementsMatch(t, []string{another, spelled}, []string{<-updated, <-updated}, "nothing is known of the user now")
	assert.Empty(t, updated)

	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	require.NoError(t, err)
	assert.Contains(t, read.Contents[0].Text, `"user_id":"ada","count":3,`)
	assert.Equal(t, "private", read.CacheScope, "no cache shares it with the holder of another key")
	_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "liveactivity://globex/users/ada"})
	assert.Error(t, err, "of another product")
}

// Subscriptions take any spelling, too.
func TestMCP_readsAResourceHoweverItsURIIsEscaped(t *testing.T) {
	s := start(t)
	session, err := s.connect(acmeMCP, nil)
	require.NoError(t, err)
	for _, id := range []string{"ada%40example.com", "ada@example.com", "%61da@example.com"} {
		uri := "liveactivity://acme/users/" + id
		read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		require.NoError(t, err, uri)
		assert.Equal(t, uri, read.Contents[0].URI)
		assert.Contains(t, read.Contents[0].Text, `"user_id":"ada@example.com"`)
	}
}

const listen = `{"jsonrpc":"2.0","id":"x","method":"subscriptions/listen",` +
	`"params":{"notifications":{"resourceSubscriptions":["URI"]}}}`

func TestMCP_listensToItsOwnProductAndNotToEverybody(t *testing.T) {
	s := start(t)
	many := "liveactivity://acme/users/0"
	for n := range 100 {
		many += fmt.Sprint(`","liveactivity://acme/users/`, n+1)
	}
	for _, uri := range []string{"liveactivity://globex/users/ada", "liveactivity://acme/users/", many,
		"liveactivity://acme/ada", "https://acme/users/ada", "liveactivity://acme/users/%zz"} {
		r := s.do("POST", "/mcp", strings.Replace(listen, "URI", uri, 1), bearer(acmeMCP), asJSON)
		assert.Equal(t, http.StatusOK, r.status)
		assert.Contains(t, r.body, `"code":-32602`, uri)
	}
	assert.Equal(t, http.StatusUnauthorized, s.status("POST", "/mcp", listen, bearer("x"), asJSON))
}

// A client of an older revision gets no promise of a subscription, because a server without
// sessions could not keep it.
func TestMCP_promisesNoSubscriptionInOlderRevisions(t *testing.T) {
	s := start(t)
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		ask := func(message string) string {
			return s.do("POST", "/mcp", message, bearer(acmeMCP), asJSON, "MCP-Protocol-Version: "+version).body
		}
		assert.Contains(t, ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`),
			`"capabilities":{"resources":{},"tools":{}},"protocolVersion":"`+version)
		assert.Contains(t, ask(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"liveactivity://`+
			`acme/users/ada"}}`), `"code":-32601`)
	}
}

// subscribe opens a subscription to ada's actions in a product and reads its acknowledgement.
func (s *service) subscribe(key, product string) io.Reader {
	s.t.Helper()
	body := strings.NewReader(strings.Replace(listen, "URI", "liveactivity://"+product+"/users/ada", 1))
	req := musttest.New(http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/mcp", body))
	setHeaders(req, []string{bearer(key), asJSON, "Accept: text/event-stream"})
	resp, err := s.client.Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	assert.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	frame := make([]byte, 1024)
	n, err := resp.Body.Read(frame)
	require.NoError(s.t, err)
	assert.Contains(s.t, string(frame[:n]), `"method":"notifications/subscriptions/acknowledged"`)
	assert.Contains(s.t, string(frame[:n]), `"io.modelcontextprotocol/subscriptionId":"x"`)
	return resp.Body
}

func TestMCP_endsSubscriptionsWithTheirKey(t *testing.T) {
	s := start(t)
	stream := s.subscribe(s.register(`{"product_id":"fresh"}`)["key"], "fresh")
	s.register(`{"product_id":"fresh","force":true}`)
	rest, _ := io.ReadAll(stream)
	assert.NotContains(t, string(rest), "updated")
}

// Some encoders of JSON escape every slash.
func TestMCP_listensToEscapedNames(t *testing.T) {
	s := start(t)
	body := strings.Replace(listen, "URI", "liveactivity://globex/users/ada", 1)
	r := s.do("POST", "/mcp", strings.ReplaceAll(body, "/", `\/`), bearer(acmeMCP), asJSON)
	assert.Contains(t, r.body, "A resource is named liveactivity://{product_id}/users/{user_id}")
}

// Administrators list the grants and end them. A subscription ends with the grant of its token before
// it tells anything more.
func TestMCP_endsSubscriptionsWithTheirGrant(t *testing.T) {
	s := start(t)
	_, token := s.signIn(acmeMCP)
	stream := s.subscribe(token(), "acme")
	grants := s.ok(http.MethodGet, "/admin/grants/acme", "", withAdminKey).json(t)["grants"].([]any)
	grant := grants[0].(map[string]any)
	assertFields(t, grant, "grant_id", "client_id", "client_name", "redirect_host", "scope", "created_at", "last_used_at")
	path := "/admin/grants/acme/" + grant["grant_id"].(string)
	require.Equal(t, http.StatusNoContent, s.status(http.MethodDelete, path, "", withAdminKey))
	assert.Equal(t, http.StatusUnauthorized, s.mcpStatus(token()))
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	rest, _ := io.ReadAll(stream)
	assert.NotContains(t, string(rest), "updated")
}
