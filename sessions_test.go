package liveactivity_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// sessionsOf returns a part of a product's sessions.
func (s *service) sessionsOf(product, key, query string) (found []map[string]any, next string) {
	s.t.Helper()
	r := s.ok(http.MethodGet, "/sessions/"+product+query, "", bearer(key))
	assert.Equal(s.t, "no-store", r.header.Get("Cache-Control"))
	fields := r.json(s.t)
	assertFields(s.t, fields, "sessions", "next")
	for _, session := range fields["sessions"].([]any) {
		found = append(found, session.(map[string]any))
	}
	next, _ = fields["next"].(string)
	return found, next
}

// sessionIDs returns the IDs of acme's sessions, one answer after the other.
func (s *service) sessionIDs(query url.Values) (ids []any) {
	s.t.Helper()
	for {
		found, next := s.sessionsOf("acme", acmeKey, "?"+query.Encode())
		for _, session := range found {
			ids = append(ids, session["session_id"])
		}
		if next == "" {
			return ids
		}
		query.Set("after", next)
	}
}

// A session is in the list of every server as soon as its event is acknowledged, and any server
// continues the list.
func TestSessions_listsCurrentSessions(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks(), offering)
		found, next := a.sessionsOf("acme", acmeKey, "")
		assert.Empty(t, found)
		assert.Empty(t, next)
		servers := [2]*service{a, b}
		for i := range 30 {
			servers[i%2].webhook(pageview(fmt.Sprint("u", i), fmt.Sprint("s", i), "https://app.example.com/projects/42"))
			found, _ := servers[1-i%2].sessionsOf("acme", acmeMCP, "?limit=1")
			require.Equal(t, fmt.Sprint("s", i), found[0]["session_id"])
		}
		a.webhook(pageview("u30", "s3", "https://app.example.com/pricing"))
		found, next = b.sessionsOf("acme", acmeMCP, "?limit=2")
		assertFields(t, found[0], "session_id", "user_id", "email", "page", "canonical_url", "last_action", "first_seen",
			"last_seen", "actions")
		assert.Less(t, found[0]["first_seen"], found[0]["last_seen"])
		delete(found[0], "first_seen")
		delete(found[0], "last_seen")
		assert.Equal(t, map[string]any{"session_id": "s3", "user_id": "ada", "email": mail, "page": "pricing",
			"canonical_url": "https://app.example.com/pricing",
			"last_action":   "User landed on the pricing page", "actions": 2.0}, found[0])
		assert.Equal(t, "projects detail", found[1]["page"])
		rest := a.sessionIDs(url.Values{"after": {next}, "limit": {"7"}})
		assert.Len(t, rest, 28)
		assert.Equal(t, "s28", rest[0])
		assert.NotContains(t, rest, "s3")
		assert.Equal(t, []any{"s29"}, b.sessionIDs(url.Values{"q": {"S29"}}))
		assert.Len(t, b.sessionIDs(url.Values{"q": {"ADA@Example"}}), 30)
		other, _ := b.sessionsOf("globex", globexKey, "")
		assert.Empty(t, other, "of another product")
	})
}

// A linked session names its conversation and the state of the assistance there.
func TestSessions_sayWhichConversationTheyAreIn(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		d := newDesks()
		a, b := on.start(t, d, offering)
		a.webhook(pageview("u1", "s1", "https://app.example.com/a"))
		a.webhook(strings.ReplaceAll(pageview("u2", "s2", "https://app.example.com/b"), mail, "grace@example.com"))
		conversation := d.opens(a, mail, "Hello")
		found, _ := b.sessionsOf("acme", acmeKey, "")
		require.Len(t, found, 2)
		assert.NotContains(t, found[0], "conversation_id")
		assert.NotContains(t, found[0], "state")
		assert.Equal(t, conversation, found[1]["conversation_id"])
		assert.Contains(t, []any{"thinking", "reactive_assistance"}, found[1]["state"])
	})
}

func TestSessions_refusesBadParameters(t *testing.T) {
	s := start(t)
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	for query, want := range map[string]string{
		"limit=x":                        "The query parameter limit must be an integer.",
		"limit=1;q=2":                    "The query string is malformed; limit must be an integer.",
		"after=x":                        "The query parameter after must be next of an earlier answer.",
		"q=" + strings.Repeat("x", 2000): "The query parameter q must be at most 1024 bytes long.",
	} {
		r := s.do(http.MethodGet, "/sessions/acme?"+query, "", bearer(acmeKey))
		assert.Equal(t, http.StatusBadRequest, r.status, query)
		assert.Equal(t, want, r.detail(t), query)
	}
	for _, query := range []string{"limit=99999999999999999999", "q=", "after=", "x=y"} {
		found, _ := s.sessionsOf("acme", acmeKey, "?"+query)
		assert.Len(t, found, 1, query)
	}
}

// A service that does not run follows no log, and says so in time.
func TestSessions_waitsForTheLogToBeFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(io.Discard)
		began := time.Now()
		_, err := s.Sessions(t.Context(), "acme", sessions.Query{})
		require.ErrorIs(t, err, liveactivity.ErrNotReady)
		assert.Less(t, time.Since(began), inTime)
		for _, path := range []string{"/sessions/acme", "/sessions/acme/s1"} {
			assert.Equal(t, http.StatusServiceUnavailable, ask(s, http.MethodGet, path, "", bearer(acmeKey)).Code, path)
		}
		s.Stopping()
		began = time.Now()
		_, err = s.Sessions(t.Context(), "acme", sessions.Query{})
		require.ErrorIs(t, err, liveactivity.ErrNotReady)
		assert.Zero(t, time.Since(began), "nothing comes after the stop")
	})
}

// A lookup of an unserved product does not wait.
func TestSessions_ofAnUnknownProductAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(io.Discard)
		began := time.Now()
		listing, err := s.Sessions(t.Context(), "nobody", sessions.Query{})
		require.NoError(t, err)
		assert.Empty(t, listing.Sessions)
		_, err = s.Session(t.Context(), "nobody", "s1")
		require.ErrorIs(t, err, liveactivity.ErrUnknownSession)
		assert.Zero(t, time.Since(began))
	})
}

// An entry that is trimmed before it is read does not hold up the list.
func TestSessions_waitsForNothingThatIsGone(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Retention.TTL = time.Second })
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	waittest.Until(t, "the session is trimmed", func() bool { return len(s.sessionIDs(url.Values{})) == 0 })
}

// session returns a session's detail.
func (s *service) session(product, key, id string) (detail liveactivity.SessionDetail) {
	s.t.Helper()
	r := s.ok(http.MethodGet, "/sessions/"+product+"/"+url.PathEscape(id), "", bearer(key))
	assert.Equal(s.t, "no-store", r.header.Get("Cache-Control"))
	require.NoError(s.t, json.Unmarshal([]byte(r.body), &detail))
	return detail
}

// A session is shown with its newest actions at every server, also the session of an unknown
// visitor.
func TestSession_showsTheNewestActions(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks(), withoutDesks)
		for i := range 60 {
			event := strings.Replace(pageview(fmt.Sprint("u", i), "s1", fmt.Sprintf("https://app.example.com/page-%d?x=1", i)),
				`"ada"`, `"$posthog_cookieless"`, 1)
			[]*service{a, b}[i%2].webhook(event)
		}
		detail := b.session("acme", acmeMCP, "s1")
		row, _ := a.sessionsOf("acme", acmeKey, "")
		assert.Equal(t, row[0], asMap(t, detail.Session))
		assert.Equal(t, 60, detail.Session.Actions)
		assert.Empty(t, detail.Session.UserID)
		require.Len(t, detail.Recent, 50)
		for i, action := range detail.Recent {
			assert.Equal(t, 10+i, action.Index)
			assert.Equal(t, fmt.Sprintf("https://app.example.com/page-%d", 10+i), action.CanonicalURL)
			assertFields(t, asMap(t, action), "type", "title", "description", "timestamp_start", "timestamp_end", "raw_url",
				"canonical_url", "index")
			next := action
			if i < 49 {
				next = detail.Recent[i+1]
			}
			assert.Equal(t, next.TimestampStart, action.TimestampEnd)
		}
		require.Len(t, detail.Notes, 1)
		assert.Empty(t, detail.Notes[0].Desk)
		assert.Empty(t, detail.Notes[0].HTML)
		assert.Contains(t, detail.Notes[0].Text, "session_id: s1\ntimestamp: ")
		assert.Contains(t, detail.Notes[0].Text, "[50] User landed on the page 59 page")
		assert.Empty(t, detail.ConversationURL)
	})
}

// asMap returns the JSON of v, decoded.
func asMap(t *testing.T, v any) (fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &fields))
	return fields
}

// withoutDesks gives acme no desk.
func withoutDesks(o *liveactivity.Options) { o.Products[0].IntegrationConfig.Desks = nil }

// The note shown is the note written to the desk, to the byte.
func TestSession_showsTheNoteThatIsWritten(t *testing.T) {
	d := newDesks()
	s := d.start(t, func(o *liveactivity.Options) {
		o.Products[0].IntegrationConfig.Notes = &liveactivity.Notes{DebounceMS: new(int)}
	})
	s.webhook(`[` + pageview("u1", "s1", "https://app.example.com/a") + `,` +
		pageview("u2", "s1", "https://app.example.com/<b>&{{c}}") + `]`)
	shown := s.session("acme", acmeKey, "s1")
	require.Len(t, shown.Notes, 2, "of each desk")
	assert.Empty(t, shown.ConversationURL)
	html := map[string]string{}
	for _, note := range shown.Notes {
		html[note.Desk] = note.HTML
		assert.Equal(t, shown.Notes[0].Text, note.Text)
		assert.Contains(t, note.HTML, "&lt;b&gt;")
	}
	require.Len(t, html, 2)

	ticket := d.files(s, mail)
	waittest.Until(t, "the ticket has a note", func() bool { return len(d.zendesk.Notes(ticket)) == 1 })
	assert.Contains(t, bodies(d.zendesk.Requests(), "html_body"), html["zendesk"])
	linked := s.session("acme", acmeKey, "s1")
	require.Len(t, linked.Notes, 1, "of the linked desk")
	assert.Equal(t, "zendesk", linked.Notes[0].Desk)
	assert.Equal(t, html["zendesk"], linked.Notes[0].HTML)
	assert.Equal(t, ticket, linked.Session.ConversationID)
	assert.Equal(t, d.zendesk.URL()+"/agent/tickets/"+ticket, linked.ConversationURL)

	s.webhook(strings.ReplaceAll(pageview("u3", "s2", "https://app.example.com/<b>&{{c}}"), mail, "grace@example.com"))
	shown = s.session("acme", acmeKey, "s2")
	conversation := d.opens(s, "grace@example.com", "Hello")
	waittest.Until(t, "the conversation has a note", func() bool { return len(bodies(d.intercom.Requests(), "body")) > 0 })
	linked = s.session("acme", acmeKey, "s2")
	require.Len(t, linked.Notes, 1)
	assert.Contains(t, bodies(d.intercom.Requests(), "body"), linked.Notes[0].HTML)
	assert.Contains(t, shown.Notes, linked.Notes[0])
	assert.Equal(t, conversation, linked.Session.ConversationID)
	assert.Empty(t, linked.ConversationURL, "Intercom says nothing of where that is")
}

// bodies returns the texts of this name in the requests to a desk.
func bodies(requests []helpdesktest.Request, name string) (texts []string) {
	for _, r := range requests {
		var body struct {
			Ticket struct{ Comment map[string]any }
		}
		var top map[string]any
		if json.Unmarshal(r.Body, &body) == nil && json.Unmarshal(r.Body, &top) == nil {
			for _, fields := range []map[string]any{top, body.Ticket.Comment} {
				if text, ok := fields[name].(string); ok {
					texts = append(texts, text)
				}
			}
		}
	}
	return texts
}

func TestSession_isUnknownToOthers(t *testing.T) {
	s := start(t)
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	for path, statuses := range map[string]map[string]int{
		"/sessions/acme/s1":   {"": 401, "wrong": 401, acmeStream: 403, globexKey: 403, acmeMCP: 200},
		"/sessions/acme/s2":   {acmeKey: 404},
		"/sessions/acme/S1":   {acmeKey: 404},
		"/sessions/acme/":     {acmeKey: 404},
		"/sessions/globex/s1": {globexKey: 404, acmeKey: 403},
		"/sessions/nobody/s1": {acmeKey: 403},
	} {
		for key, status := range statuses {
			assert.Equal(t, status, s.do(http.MethodGet, path, "", bearer(key)).status, "%s %s", path, key)
		}
	}
}

// A session keeps its newest actions after a small log has trimmed them.
func TestSession_showsActionsThatTheLogNoLongerHolds(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) { o.Retention.MaxBytes = 64 << 10 })
	s.webhook(pageview("u", "s1", "https://app.example.com/a"))
	s.session("acme", acmeKey, "s1") // the list has read it before it is trimmed
	for i := range 100 {
		s.webhook(pageview(fmt.Sprint("u", i), "s2", "https://app.example.com/"+strings.Repeat("x", 1000)))
	}
	detail := s.session("acme", acmeKey, "s1")
	assert.Equal(t, 1, detail.Session.Actions)
	assert.Len(t, detail.Recent, 1)
	detail = s.session("acme", acmeKey, "s2")
	assert.Len(t, detail.Recent, 50)
	assert.Equal(t, 99, detail.Recent[len(detail.Recent)-1].Index)
}

// A user who signs in and then asks for help is known from the first click, at every door. Two
// people who sign in within one session are each shown their own actions.
func TestSessions_belongToTheUserWhoSignsIn(t *testing.T) {
	d := newDesks()
	var prompt atomic.Value
	s := d.start(t, withModel(func(p string) string { prompt.Store(p); return "Hello." }))
	event := func(name, user, path, more string) {
		n := fmt.Sprint(name, user, path)
		s.webhook(fmt.Sprintf(`{"event":%q,"uuid":%q,"distinct_id":%q,"properties":{"$session_id":"s1",`+
			`"$current_url":"https://app.example.com%s"%s}}`,
			name, n, user, path, more))
	}
	event("$pageview", "anon", "/pricing", "")
	event("$pageview", "anon", "/plans", "")
	event("$identify", "ada", "/login", `,"$anon_distinct_id":"anon"},"$set":{"email":"`+mail+`"`)
	found, _ := s.sessionsOf("acme", acmeKey, "")
	assert.Equal(t, []any{"ada", mail}, []any{found[0]["user_id"], found[0]["email"]}, "at once")
	found, _ = s.sessionsOf("acme", acmeKey, "?q="+mail[:4])
	assert.Len(t, found, 1)
	event("$pageview", "ada", "/billing", "")
	assert.EqualValues(t, 3, s.lookup("ada")["count"])
	assert.Equal(t, s.lookup("ada")["actions"], s.callTool("ada")["actions"])
	detail := s.session("acme", acmeKey, "s1")
	assert.Len(t, detail.Recent, 3)
	assert.Empty(t, detail.By, "one person")
	ticket := d.files(s, mail)
	require.Equal(t, "accepted", s.send(d.zendesk.UserReply(s.url+"/zendesk/chat/acme", ticket, "Which plan?")).says(t))
	waittest.Until(t, "a reply", func() bool { return prompt.Load() != nil })
	assert.Contains(t, prompt.Load(), "pricing page")

	event("$identify", "grace", "/login", `,"$anon_distinct_id":"anon-2"`)
	event("$pageview", "grace", "/team", "")
	assert.EqualValues(t, 3, s.lookup("ada")["count"])
	assert.EqualValues(t, 1, s.lookup("grace")["count"])
	detail = s.session("acme", acmeKey, "s1")
	assert.Equal(t, []string{"ada", "ada", "ada", "grace"}, detail.By)
	require.NotEmpty(t, detail.Notes)
	assert.Contains(t, detail.Notes[0].Text, "\n\n[1] User landed on the team page", "without what ada did")
	event("$pageview", "ada", "/again", `,"$is_identified":true`)
	assert.NotContains(t, s.session("acme", acmeKey, "s1").Notes[0].Text, "team page", "nor what grace did")
}
