package liveactivity_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
)

// capturePaths are where posthog-js and the server SDKs post events.
var capturePaths = []string{"/e", "/capture", "/batch", "/track", "/engage", "/i/v0/e", "/some/prefix/e", "/prefix/i/v0/e"}

// An event that came in by any way is what REST, MCP and the stream say, in
// the same words.
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
	for _, path := range capturePaths {
		for _, slash := range []string{"", "/"} {
			ways["capture by "+path+slash] = func(s *service, event string) reply {
				return s.do(http.MethodPost, path+slash+"?ip=1", `{"api_key":"`+acmeToken+`","batch":[`+event+`]}`)
			}
		}
	}
	for name, post := range ways {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			session := "session of " + name
			stream := s.stream("/stream/acme?session_id="+strings.ReplaceAll(session, " ", "+"), bearer(acmeStream))
			user := "user/" + name
			event := strings.Replace(pageview(name, session, "https://App.example.com/projects/42?tab=1#top"), `"ada"`, `"`+user+`"`, 1)
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
			assertFields(t, action, "type", "title", "description", "timestamp_start", "timestamp_end", "raw_url", "canonical_url", "index")
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

func TestEvent_isNeverSeenByAnotherProduct(t *testing.T) {
	s := start(t)
	other := s.stream("/stream/globex", bearer(globexKey))
	s.webhook(pageview("u1", "s1", "https://app.example.com/acme-only"))
	r := s.do(http.MethodGet, "/users/globex/ada/live-activity", "", bearer(globexKey))
	assert.Equal(t, 0.0, r.json(t)["count"])
	r = s.do(http.MethodPost, "/webhook/globex", pageview("u1", "s1", "https://app.example.com/globex-only"), "X-PostHog-Secret: "+globexSecret)
	require.Equal(t, 1.0, r.json(t)["accepted"], "ids are unique within a product")
	b := other.nextBatch()
	assert.Equal(t, "globex", b.ProductID)
	assert.Equal(t, "https://app.example.com/globex-only", b.Actions[0]["raw_url"])
}

// SDKs and webhooks retry, and one event may come by both.
func TestEvent_thatComesAgainChangesNothing(t *testing.T) {
	s := start(t)
	stream := s.stream("/stream/acme", bearer(acmeKey))
	event := pageview("5b8ee5f4-44c5-4a64-a3c6-cd67d7b2d1a0", "s1", "https://app.example.com/a")
	s.webhook(event)
	r := s.do(http.MethodPost, "/e/", `{"api_key":"`+acmeToken+`","batch":[`+event+`,`+event+`]}`)
	assert.JSONEq(t, `{"status":1,"accepted":0,"ignored":2,"reasons":{"duplicate":2}}`, r.body)
	s.webhook(pageview("u2", "s1", "https://app.example.com/b"))
	assert.Equal(t, 2.0, s.lookup("ada")["count"])
	assert.Equal(t, "https://app.example.com/a", stream.nextBatch().Actions[0]["raw_url"])
	second := stream.nextBatch()
	assert.Equal(t, "https://app.example.com/b", second.Actions[0]["raw_url"])
	assert.Equal(t, 1.0, second.Actions[0]["index"], "the index counts over the session")
}

// A user ID may hold any character, percent-encoded.
func TestLookup_takesAnyUserID(t *testing.T) {
	s := start(t)
	for escaped, user := range map[string]string{
		"a%2Fb": "a/b", "%2E": ".", "%2E%2E": "..", "a%2F%2E%2E%2Fb": "a/../b", "%20x": " x", "%25": "%", "%252F": "%2F", "%3F%23": "?#",
		"%C3%A4%F0%9F%98%80": "ä😀", "a+b": "a+b", "%22%3C%3E": `"<>`, "%00": "\x00", "x%2Fx": "x/x",
		"%2F": "/", "%2F%2F": "//", "%2Fa": "/a", "a%2F": "a/", "%2E%2E%2Fb": "../b", ";x=1": ";x=1", "%01": "\x01", "+": "+", "%5C": "\\",
	} {
		quoted, err := json.Marshal(user)
		require.NoError(t, err)
		s.webhook(strings.Replace(pageview("of "+escaped, "s "+escaped, "https://app.example.com/a"), `"ada"`, string(quoted), 1))
		got := s.lookup(escaped)
		assert.Equal(t, user, got["user_id"])
		assert.Equal(t, 1.0, got["count"], escaped)
	}
	s.webhook(strings.Replace(pageview("of nobody", "s", "https://app.example.com/a"), `"ada"`, `" "`, 1))
	assert.Equal(t, []any{}, s.lookup("%20")["actions"], "a blank id is nobody's")
}

func TestIngest_refusesWhatItCannotRead(t *testing.T) {
	s := start(t)
	zipped := func(body string) string { return string(zip(t, []byte(body))) }
	bomb := zipped(`{"api_key":"` + acmeToken + `","x":"` + strings.Repeat("x", 9<<20) + `"}`)
	good := `{"api_key":"` + acmeToken + `","batch":[` + pageview("u", "s", "https://a.b/c") + `]}`
	tests := map[string]struct {
		body, header string
		want         int
	}{
		"nothing":                 {"", "X-None: x", 400},
		"no JSON":                 {"hello", "X-None: x", 400},
		"JSON that breaks off":    {`{"api_key":"` + acmeToken + `","batch":[{`, "X-None: x", 400},
		"JSON with a mistake":     {`{"api_key":"` + acmeToken + `",,}`, "X-None: x", 400},
		"something behind":        {good + "x", "X-None: x", 400},
		"batch of another type":   {`{"api_key":"` + acmeToken + `","batch":{}}`, "X-None: x", 400},
		"gzip that breaks off":    {zipped(good)[:40], "X-None: x", 400},
		"gzip by name only":       {good, "Content-Encoding: gzip", 200},
		"another encoding":        {good, "Content-Encoding: br", 415},
		"more than 1 MiB":         {`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, "X-None: x", 413},
		"unpacks to over 8 MiB":   {bomb, "Content-Encoding: gzip", 413},
		"unpacks by itself":       {bomb, "X-None: x", 413},
		"too many events":         {`[` + strings.Repeat(`{},`, 10_000) + `{}]`, "X-None: x", 413},
		"a good body":             {good, "X-None: x", 200},
		"a good body, compressed": {zipped(good), "X-None: x", 200},
	}
	for name, tt := range tests {
		for path, secret := range map[string]string{"/e/": "X-None: x", "/webhook/acme": "X-PostHog-Secret: " + acmeSecret} {
			t.Run(name+" on "+path, func(t *testing.T) {
				s := s.in(t)
				r := s.do(http.MethodPost, path, tt.body, tt.header, secret)
				assert.Equal(t, tt.want, r.status, r.body)
			})
		}
	}
}

func TestSDK_getsWhatItNeedsToRun(t *testing.T) {
	s := start(t)
	origin := "Origin: https://app.example.com"
	js := s.do(http.MethodGet, "/array/phc_%22%3C/config.js", "", origin)
	assert.Equal(t, http.StatusOK, js.status)
	assert.Contains(t, js.header.Get("Content-Type"), "javascript")
	assert.Contains(t, js.body, `"autocapture_opt_out":false`)
	assert.NotContains(t, js.body, "<", "a token cannot leave its string")
	config := s.do(http.MethodGet, "/array/phc_x/config", "", origin)
	assert.Equal(t, false, config.json(t)["autocapture_opt_out"])
	for _, path := range []string{"/flags/?v=2", "/flags/?v=2&config=true", "/decide/?v=3"} {
		flags := s.do(http.MethodPost, path, "{}", origin).json(t)
		assert.Equal(t, map[string]any{}, flags["flags"])
		assert.Equal(t, map[string]any{}, flags["featureFlags"])
		assert.Equal(t, false, flags["errorsWhileComputingFlags"])
	}
	replay := s.do(http.MethodPost, "/s/", strings.Repeat("x", 2<<20), origin)
	assert.Equal(t, http.StatusOK, replay.status)
	for _, r := range []reply{js, config, replay} {
		assert.Equal(t, "https://app.example.com", r.header.Get("Access-Control-Allow-Origin"))
		assert.Equal(t, "true", r.header.Get("Access-Control-Allow-Credentials"))
		assert.Contains(t, r.header.Values("Vary"), "Origin")
	}
	preflight := s.do(http.MethodOptions, "/e/", "", origin, "Access-Control-Request-Headers: content-type,x-a")
	assert.Equal(t, http.StatusNoContent, preflight.status)
	assert.Equal(t, "content-type,x-a", preflight.header.Get("Access-Control-Allow-Headers"))
}

func TestStream_resumesAndFilters(t *testing.T) {
	s := start(t)
	first := s.stream("/stream/acme", bearer(acmeKey))
	for i := range 4 {
		s.webhook(pageview(fmt.Sprint("u", i), fmt.Sprint("s", i%2), fmt.Sprintf("https://app.example.com/%c", 'a'+i)))
	}
	var ids []string
	for range 4 {
		ids = append(ids, first.next().id)
	}
	urls := func(path string, n int, headers ...string) (urls []string) {
		r := s.stream(path, append(headers, bearer(acmeKey))...)
		for range n {
			urls = append(urls, r.nextBatch().Actions[0]["raw_url"].(string))
		}
		return urls
	}
	const page = "https://app.example.com/"
	assert.Equal(t, []string{page + "c", page + "d"}, urls("/stream/acme", 2, "Last-Event-ID: "+ids[1]))
	assert.Equal(t, []string{page + "c", page + "d"}, urls("/stream/acme?last_event_id="+ids[1], 2))
	assert.Equal(t, []string{page + "a", page + "b", page + "c", page + "d"}, urls("/stream/acme?since=1", 4))
	assert.Equal(t, []string{page + "b", page + "d"}, urls("/stream/acme?since=1&session_id=s1", 2))
	gap := s.stream("/stream/acme?last_event_id=1-1", bearer(acmeKey)).next()
	assert.Equal(t, "gap", gap.event)
	assert.JSONEq(t, `{"requested":"1-1","oldest":"`+ids[0]+`"}`, gap.data)
	assert.Equal(t, http.StatusBadRequest, s.do(http.MethodGet, "/stream/acme?since=yesterday", "", bearer(acmeKey)).status)
}

func TestStream_isKeptAlive(t *testing.T) {
	s := start(t, func(c *liveactivity.Options) { c.Heartbeat = 100 * time.Millisecond })
	r := s.stream("/stream/acme", bearer(acmeKey))
	for range 3 {
		assert.Equal(t, frame{event: "heartbeat", data: "{}"}, r.next())
	}
}
