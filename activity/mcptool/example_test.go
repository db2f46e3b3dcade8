package mcptool_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/recent"
)

// withKey is a transport that sends a key with every request.
type withKey string

func (key withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// An agent looks up a user's last actions.
func Example() {
	store, err := recent.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	keys := access.NewKeyring()
	_ = keys.Add("secret", "acme", access.MCP)
	lookup, err := recent.NewLookup(store, 0)
	if err != nil {
		log.Fatal(err)
	}
	h, err := mcptool.NewHandler(lookup, keys, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(h)
	defer server.Close()

	ctx := context.Background()
	page := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com/invoices/42")
	page.ID, page.TimestampStart = "event-1", activity.Seconds(time.Now())
	_ = store.Add(ctx, activity.Batch{ProductID: "acme", Actions: []activity.BatchAction{{Action: page, UserID: "ada"}}})

	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   server.URL,
		HTTPClient: &http.Client{Transport: withKey("secret")},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name:      mcptool.ToolName,
		Arguments: map[string]any{"user_id": "ada", "limit": 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	actions := result.StructuredContent.(map[string]any)["actions"].([]any)
	fmt.Println(actions[0].(map[string]any)["description"])
	// Output: User landed on the invoices detail page
}
