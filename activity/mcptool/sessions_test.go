package mcptool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

// callSessions returns the body of a call of the second tool.
func callSessions(arguments string) string {
	return strings.Replace(call(arguments), mcptool.ToolName, mcptool.SessionsToolName, 1)
}

// asked is a product and a query of its list.
type asked struct {
	productID string
	sessions.Query
}

// lists returns options with this listing of sessions, and the last query that it gets.
func lists(listing sessions.Listing, err error) (*mcptool.Options, *asked) {
	a := &asked{}
	return &mcptool.Options{Sessions: func(_ context.Context, productID string,
		q sessions.Query) (sessions.Listing, error) {
		*a = asked{productID, q}
		return listing, err
	}}, a
}

func TestSessionsTool_returnsTheListing(t *testing.T) {
	next := "cursor"
	listing := sessions.Listing{Sessions: []sessions.Session{{SessionID: "s1", LastAction: "User clicked <b>",
		LastSeen: 1795187991.29, State: "thinking"}}, Next: &next}
	for arguments, want := range map[string]asked{
		`{}`:                    {"acme", sessions.Query{}},
		`{"product_id":"acme"}`: {"acme", sessions.Query{}},
		`{"product_id":"acme","limit":5,"after":"x","q":"ada@"}`: {"acme",
			sessions.Query{Limit: 5, After: "x", Prefix: "ada@"}},
		`{"limit":-1e30,"after":null,"q":null,"limits":7}`: {"acme", sessions.Query{}},
		`{"limit":1e30}`: {"acme", sessions.Query{Limit: 1<<31 - 1}},
	} {
		opts, asked := lists(listing, nil)
		w := serve(serving(t, filled(t, 1), opts), post(callSessions(arguments)))
		require.Equal(t, http.StatusOK, w.Code)
		result := decode(t, w)
		require.Empty(t, result.message(t))
		assert.Equal(t, want, *asked, arguments)
		assert.JSONEq(t, string(result.Result.StructuredContent), result.Result.Content[0].Text)
		var got sessions.Listing
		require.NoError(t, json.Unmarshal(result.Result.StructuredContent, &got))
		assert.Equal(t, listing, got)
	}
}

func TestSessionsTool_namesWhatIsWrong(t *testing.T) {
	opts, _ := lists(sessions.Listing{}, &activity.QueryError{Param: "after", Problem: "must be good"})
	h := serving(t, filled(t, 1), opts)
	for arguments, want := range map[string]string{
		`{"product_id":"globex"}`: "API key does not match product_id",
		`{"limit":1.5}`:           "limit must be an integer.",
		`{"limit":"5"}`:           "limit must be an integer.",
		`{"after":7}`:             "after must be a string.",
		`{"q":["a"]}`:             "q must be a string.",
		`[]`:                      "The arguments must be a JSON object.",
		`{"after":"x"}`:           "after must be good.",
	} {
		w := serve(h, post(callSessions(arguments)))
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, want, decode(t, w).message(t), arguments)
	}
}

func TestSessionsTool_isThereOnlyWithAList(t *testing.T) {
	names := func(opts *mcptool.Options) (names []string) {
		w := serve(serving(t, filled(t, 1), opts), post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		var answer struct {
			Result struct{ Tools []struct{ Name string } }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		for _, tool := range answer.Result.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	opts, _ := lists(sessions.Listing{}, nil)
	assert.Equal(t, []string{"get_live_user_activity", "list_live_sessions"}, names(opts))
	assert.Equal(t, []string{"get_live_user_activity"}, names(nil))
}
