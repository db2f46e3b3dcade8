package mcptool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

// contexts returns options with a context for every query, and the last query that it gets.
func contexts() (*mcptool.Options, *agent.Query) {
	asked := &agent.Query{}
	return &mcptool.Options{Context: func(_ context.Context, productID string, q agent.Query) (*agent.Context, error) {
		*asked = q
		if q.Desk == "none" {
			return nil, &activity.QueryError{Param: "desk", Problem: "must be another"}
		}
		c := agent.Context{ProductID: productID, SessionIDs: []string{}, Actions: []activity.Action{}, Text: "the text"}
		if q.UserID == "known@example.com" {
			c.LastSeen = 1
		}
		return &c, nil
	}}, asked
}

func TestContextTool(t *testing.T) {
	opts, asked := contexts()
	h := serving(t, filled(t, 1), opts)
	ask := func(arguments string) toolResult {
		w := serve(h, post(strings.Replace(call(arguments), mcptool.ToolName, mcptool.ContextToolName, 1)))
		require.Equal(t, http.StatusOK, w.Code)
		return decode(t, w)
	}
	cursor := agent.NewCursor("acme", recent.Position{Milli: 1})
	for arguments, want := range map[string]agent.Query{
		`{"user_id":"ada"}`: {UserID: "ada"},
		`{"user_id":12345678901234567890,"product_id":"acme"}`:             {UserID: "12345678901234567890"},
		`{"conversation_id":7,"desk":"zendesk","user_id":"","email":null}`: {ConversationID: "7", Desk: "zendesk"},
		`{"email":"a@b.example","limit":"5","max_chars":"300"}`:            {Email: "a@b.example", Limit: 5, MaxChars: 300},
		`{"session_id":"s","limit":5.0,"max_chars":300,"since":1.5}`: {SessionID: "s", Limit: 5, MaxChars: 300,
			Since: time.UnixMicro(1_500_000)},
		`{"user_id":"ada","since":"` + cursor + `","more":"x"}`: {UserID: "ada", Cursor: cursor},
	} {
		result := ask(arguments)
		require.Empty(t, result.message(t), arguments)
		assert.Equal(t, want, *asked, arguments)
		assert.Equal(t, "the text", result.Result.Content[0].Text)
		var c agent.Context
		require.NoError(t, json.Unmarshal(result.Result.StructuredContent, &c))
		assert.Equal(t, agent.Context{ProductID: "acme", SessionIDs: []string{}, Actions: []activity.Action{},
			Text: "the text"}, c)
	}
	for arguments, want := range map[string]string{
		`{}`: "user_id, email, session_id or conversation_id must be given, exactly one " +
			"of them.",
		`{"user_id":"a","email":"b"}`: "user_id, email, session_id or conversation_id must be given, exactly one " +
			"of them.",
		`{"user_id":true}`:                      "user_id must be a string or a number.",
		`{"user_id":"ada","limit":true}`:        "limit must be a string or a number.",
		`{"user_id":"a","limit":1.5}`:           "limit must be an integer.",
		`{"user_id":"a","max_chars":7}`:         "max_chars must be an integer from 200 to 20000.",
		`{"user_id":"a","since":"x"}`:           "since must be the cursor of an earlier answer, or a time in epoch seconds.",
		`{"user_id":"a","product_id":"other"}`:  "API key does not match product_id",
		`{"conversation_id":"a","desk":"none"}`: "desk must be another.",
		`[]`:                                    "The arguments must be a JSON object.",
	} {
		assert.Equal(t, want, ask(arguments).message(t), arguments)
	}
}

// A lookup by an address instead of a user's ID is answered with a hint to the right argument.
func TestTool_hintsAtTheContextOfAnAddress(t *testing.T) {
	opts, _ := contexts()
	tools := []string{mcptool.ToolName, mcptool.ContextToolName}
	for user, want := range map[string][2]int{"ada@example.com": {2, 2}, "ada": {1, 1}, "nobody": {1, 1},
		"known@example.com": {2, 1}} { // an address that is a user's ID
		for i, tool := range tools {
			body := strings.Replace(call(`{"user_id":"`+user+`"}`), mcptool.ToolName, tool, 1)
			result := decode(t, serve(serving(t, filled(t, 1), opts), post(body))).Result
			require.Len(t, result.Content, want[i], tool+user)
			if i == 0 {
				assert.JSONEq(t, string(result.StructuredContent), result.Content[0].Text)
			}
			if want[i] == 2 {
				assert.Contains(t, result.Content[1].Text, "get_user_context with it as email")
			}
		}
	}
	assert.Len(t, decode(t, serve(serving(t, filled(t, 1), nil),
		post(call(`{"user_id":"ada@example.com"}`)))).Result.Content, 1)
}

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
