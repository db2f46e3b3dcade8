package liveactivity_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
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
		other, _ := b.sessionsOf("globex", globexKey, "")
		assert.Empty(t, other, "of another product")
	})
}

// A server whose clock is a day ahead lists the sessions that are live by the clock of the log.
func TestSessions_goByTheClockOfTheLog(t *testing.T) {
	s := start(t, func(o *liveactivity.Options) {
		o.Log = &watchtest.Log{Log: musttest.New(memorylog.New(nil)), Skew: -24 * time.Hour}
	})
	s.acts("a1", "ada", "s1", "$pageview", "/a", "")
	found, _ := s.sessionsOf("acme", acmeMCP, "")
	assert.Len(t, found, 1)
}

func TestSessions_refusesBadParameters(t *testing.T) {
	s := start(t)
	s.webhook(pageview("u1", "s1", "https://app.example.com/a"))
	for query, want := range map[string]string{
		"limit=x":                        "The query parameter limit must be an integer.",
		"limit=1;q=2":                    "The query string is malformed; limit must be an integer.",
		"after=x":                        "The query parameter after must be the next of an earlier answer.",
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
	data := musttest.New(json.Marshal(v))
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
	var written []string
	for _, r := range d.zendesk.Requests() {
		var body struct {
			Ticket struct {
				Comment struct {
					HTML string `json:"html_body"`
				}
			}
		}
		if json.Unmarshal(r.Body, &body) == nil {
			written = append(written, body.Ticket.Comment.HTML)
		}
	}
	assert.Contains(t, written, html["zendesk"])
	linked := s.session("acme", acmeKey, "s1")
	require.Len(t, linked.Notes, 1, "of the linked desk")
	assert.Equal(t, []string{"zendesk", html["zendesk"]}, []string{linked.Notes[0].Desk, linked.Notes[0].HTML})
	assert.Equal(t, ticket, linked.Session.ConversationID)
	assert.Equal(t, d.zendesk.URL()+"/agent/tickets/"+ticket, linked.ConversationURL)
	row, _ := s.sessionsOf("acme", acmeKey, "")
	assert.Equal(t, ticket, row[0]["conversation_id"])
}

// A user who signs in is known from the first click, at every door. Two people who sign in within one session are each
// shown their own actions.
func TestSessions_belongToTheUserWhoSignsIn(t *testing.T) {
	s := start(t)
	s.acts("1", "anon", "s1", "$pageview", "/pricing", "")
	s.acts("2", "anon", "s1", "$pageview", "/plans", "")
	s.acts("3", "ada", "s1", "$identify", "/login", `,"$anon_distinct_id":"anon"},"$set":{"email":"`+mail+`"`)
	found, _ := s.sessionsOf("acme", acmeKey, "")
	assert.Equal(t, []any{"ada", mail}, []any{found[0]["user_id"], found[0]["email"]}, "at once")
	found, _ = s.sessionsOf("acme", acmeKey, "?q="+mail[:4])
	assert.Len(t, found, 1)
	s.acts("4", "ada", "s1", "$pageview", "/billing", "")
	assert.EqualValues(t, 3, s.lookup("ada")["count"])
	assert.Equal(t, s.lookup("ada")["actions"], s.callTool("ada")["actions"])
	detail := s.session("acme", acmeKey, "s1")
	assert.Len(t, detail.Recent, 3)
	assert.Empty(t, detail.By, "one person")
	s.acts("5", "grace", "s1", "$identify", "/login", `,"$anon_distinct_id":"anon-2"`)
	s.acts("6", "grace", "s1", "$pageview", "/team", "")
	assert.EqualValues(t, 3, s.lookup("ada")["count"])
	assert.EqualValues(t, 1, s.lookup("grace")["count"])
	detail = s.session("acme", acmeKey, "s1")
	assert.Equal(t, []string{"ada", "ada", "ada", "grace"}, detail.By)
	require.NotEmpty(t, detail.Notes)
	assert.Contains(t, detail.Notes[0].Text, "\n\n[1] User landed on the team page", "without what ada did")
	s.acts("7", "ada", "s1", "$pageview", "/again", `,"$is_identified":true`)
	assert.NotContains(t, s.session("acme", acmeKey, "s1").Notes[0].Text, "team page", "nor what grace did")
}
