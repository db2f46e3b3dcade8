package agent_test

import (
	"fmt"
	"net/url"

	"github.com/liveactivity/liveactivity/activity/agent"
)

func ExampleParseQuery() {
	q, err := agent.ParseQuery(url.Values{"email": {"ada@example.com"}, "limit": {"7"}})
	fmt.Println(q.Email, q.Limit, err)
	_, err = agent.ParseQuery(url.Values{"limit": {"7"}})
	fmt.Println(err)
	// Output:
	// ada@example.com 7 <nil>
	// user_id, email, session_id or conversation_id must be given, exactly one of them
}
