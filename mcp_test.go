package liveactivity_test

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
