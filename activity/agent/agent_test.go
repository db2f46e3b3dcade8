package agent_test

import (
	"encoding/base64"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func TestParseQuery(t *testing.T) {
	cursor := agent.NewCursor("acme", recent.Position{Milli: 1, Seq: 2})
	for values, want := range map[string]agent.Query{
		"user_id=a%20b&limit=7":               {UserID: "a b", Limit: 7},
		"email=a@b.example&max_chars=200":     {Email: "a@b.example", MaxChars: 200},
		"email=a+b@b.example+":                {Email: "a+b@b.example"}, // a plus sign that is not escaped
		"session_id=s&since=1.5&other=x":      {SessionID: "s", Since: time.UnixMicro(1_500_000)},
		"conversation_id=c&desk=d&since=":     {ConversationID: "c", Desk: "d"},
		"user_id=a&since=" + cursor:           {UserID: "a", Cursor: cursor},
		"user_id=a&limit=9999999999999999999": {UserID: "a", Limit: 1<<31 - 1},
		"user_id=a&since=0":                   {UserID: "a", Since: time.UnixMicro(0)},
	} {
		parsed := musttest.New(url.ParseQuery(values))
		q, err := agent.ParseQuery(parsed)
		require.NoError(t, err, values)
		assert.Equal(t, want, q, values)
	}
}

func TestQuery_After(t *testing.T) {
	want := recent.Position{Milli: 1<<64 - 1, Seq: 7}
	q := agent.Query{UserID: "a", Cursor: agent.NewCursor("acme", want)}
	require.NoError(t, q.Check())
	p := musttest.New(q.After("acme"))
	assert.Equal(t, want, p)
	var wrong *activity.QueryError
	_, err := q.After("globex")
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "since", wrong.Param)
	q.Since = time.Now()
	require.ErrorAs(t, q.Check(), &wrong)

	data := musttest.New(base64.RawURLEncoding.DecodeString(q.Cursor))
	for i := range data { // none of its bytes can be another
		data[i]++
		q := agent.Query{UserID: "a", Cursor: base64.RawURLEncoding.EncodeToString(data)}
		require.ErrorAs(t, q.Check(), &wrong, i)
		data[i]--
	}
}
