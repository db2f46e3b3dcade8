package liveactivity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// REST, MCP and the stream say the same of an event in the same words, whichever way it came in.
func TestEvent_isVisibleEverywhere(t *testing.T) {
	s := start(t)
	ways := map[string]func(s *service, event string) reply{
		"webhook": func(s *service, event string) reply {
			return s.do(http.MethodPost, "/webhook/acme", event, "X-PostHog-Secret: "+acmeSecret)
		},
		"webhook, PostHog's default body": func(s *service, event string) reply {
			return s.do(http.MethodPost, "/webhook/acme", `{"event":`+event+`,"person":{}}`, "X-PostHog-Secret: "+acmeSecret)
		},
	}
	for _, path := range []string{"/e", "/some/prefix/i/v0/e/"} { // by a pattern, and where none matches
		ways["capture by "+path] = func(s *service, event string) reply {
			return s.do(http.MethodPost, path+"?ip=1", `{"api_key":"`+acmeToken+`","batch":[`+event+`]}`)
		}
	}
	for name, post := range ways {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			session := "session of " + name
			stream := s.stream("/stream/acme?session_id="+strings.ReplaceAll(session, " ", "+"), bearer(acmeStream))
			user := "user/" + name
			event := strings.Replace(pageview(name, session, "https://App.example.com/projects/42?tab=1#top"), `"ada"`,
				`"`+user+`"`, 1)
			r := post(s, event)
			require.Equal(t, http.StatusOK, r.status, r.body)
			assert.Equal(t, 1.0, r.json(t)["accepted"])
			assert.Equal(t, 0.0, r.json(t)["ignored"])

			rest := s.lookup(strings.NewReplacer("/", "%2F", " ", "%20").Replace(user))
			assertFields(t, rest, "product_id", "user_id", "count", "as_of", "actions")
			assert.Equal(t, "acme", rest["product_id"])
			assert.Equal(t, user, rest["user_id"])
			assert.Equal(t, 1.0, rest["count"])
			action := rest["actions"].([]any)[0].(map[string]any)
			assertFields(t, action, "type", "title", "description", "timestamp_start", "timestamp_end", "raw_url",
				"canonical_url", "index")
			assert.Equal(t, "pageview", action["type"])
			assert.Equal(t, "Page Load: Projects detail", action["title"])
			assert.Equal(t, "User landed on the projects detail page", action["description"])
			assert.Equal(t, "https://app.example.com/projects/:id", action["canonical_url"])
			assert.Equal(t, 0.0, action["index"])

			tool := s.callTool(user)
			delete(rest, "as_of")
			delete(tool, "as_of")
			assert.Equal(t, rest, tool, "MCP answers the object of REST")

			b := stream.nextBatch()
			require.Len(t, b.Actions, 1)
			assert.Equal(t, batch{"actions", "acme", session, user, mail, 1, b.Actions}, b)
			assert.Equal(t, session, b.Actions[0]["session_id"])
			assert.Equal(t, user, b.Actions[0]["user_id"])
			assert.Equal(t, mail, b.Actions[0]["email"])
			for field, value := range action {
				assert.Equal(t, value, b.Actions[0][field], "the stream has the %s of REST", field)
			}
		})
	}
}

func assertFields(t *testing.T, object map[string]any, want ...string) {
	t.Helper()
	var got []string
	for field := range object {
		got = append(got, field)
	}
	assert.ElementsMatch(t, want, got)
}
