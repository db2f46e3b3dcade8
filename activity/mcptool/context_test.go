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
		`{"user_id":true}`:                      "user_id must be a string.",
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
