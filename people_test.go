package liveactivity_test

import (
	"context"
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
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// acts reports an event of a user in a session, which may be empty. more continues the properties.
func (s *service) acts(uuid, user, session, name, path, more string) {
	s.t.Helper()
	properties := `"$current_url":"https://app.example.com` + path + `"`
	if session != "" {
		properties += `,"$session_id":"` + session + `"`
	}
	s.webhook(`{"event":"` + name + `","uuid":"` + uuid + `","distinct_id":"` + user + `","properties":{` +
		properties + more + `}}`)
}

// export returns the export of a person of acme.
func (s *service) export(of string) (e liveactivity.PersonExport) {
	s.t.Helper()
	r := s.ok(http.MethodGet, "/users/acme/"+of, "", withAdminKey)
	require.NoError(s.t, json.Unmarshal([]byte(r.body), &e))
	return e
}

// meet has ada and grace share session s1, and has ada do more in s2 and outside any session.
func (s *service) meet() {
	s.acts("a1", "anon", "s1", "$pageview", "/ada-1", "")
	s.acts("a2", "ada", "s1", "$identify", "/login", `,"$anon_distinct_id":"anon"},"$set":{"email":"`+mail+`"`)
	s.acts("a3", "ada", "s1", "$pageview", "/ada-2", "")
	s.acts("a4", "anon-2", "s1", "$pageview", "/grace-1", "")
	s.acts("a5", "grace", "s1", "$identify", "/login",
		`,"$anon_distinct_id":"anon-2"},"$set":{"email":"grace@example.com"`)
	s.acts("a6", "grace", "s1", "$pageview", "/grace-2", "")
	s.acts("a7", "ada", "s2", "$pageview", "/ada-3", `},"$set":{"email":"`+mail+`"`)
	s.acts("a8", "ada", "", "$pageview", "/ada-4", "")
}

func TestExport_isAllOfOnePersonAndNothingOfOthers(t *testing.T) {
	t.Parallel() // it mostly waits
	onEngines(t, func(t *testing.T, on engine) {
		d := newDesks()
		a, b := on.start(t, d, offering, func(o *liveactivity.Options) {
			o.Keys[0].Name = "bot"
		})
		a.meet()
		conversation := d.opens(a, mail, "Hello")
		waiting, hook := d.zendesk.NewTicket(a.url+"/chatbot-webhook/acme", "eve@example.com", "Help!")
		require.Equal(t, "pending", a.send(hook).says(t))
		a.acts("a9", "ada", "s2", "$pageview", "/ada-5", "")
		waittest.Until(t, "a note", func() bool {
			e := b.export("ada/export")
			return len(e.Conversations) == 1 && len(e.Conversations[0].NoteIDs) > 0
		})
		for _, of := range []string{"ada/export", "export?email=" + url.QueryEscape("ADA@example.com")} {
			e := b.export(of)
			assert.Equal(t, []string{"ada"}, e.UserIDs)
			assert.Equal(t, []string{mail}, e.Emails)
			require.Len(t, e.Sessions, 2)
			assert.True(t, e.Sessions[0].Shared)
			assert.Equal(t, []string{"reported", mail, "reported", conversation}, []string{e.Sessions[1].Identity,
				e.Sessions[1].Email, e.Sessions[1].EmailIdentity, e.Sessions[1].ConversationID})
			assert.Equal(t, []int{2, 2, 1, 5},
				[]int{len(e.Sessions[0].Actions), len(e.Sessions[1].Actions), len(e.Actions), len(e.Log)})
			assert.Equal(t, conversation, e.Conversations[0].ConversationID)
			all := musttest.New(json.Marshal(e))
			assert.NotContains(t, string(all), "grace")
			for _, path := range []string{"ada-1", "ada-2", "ada-3", "ada-4", "ada-5"} {
				assert.Contains(t, string(all), path)
			}
		}
		assert.Equal(t, "zendesk/"+waiting, b.export("export?email=eve@example.com").WaitingLinks[0].Conversation)
		nobody := b.export("nobody/export")
		assert.Empty(t, nobody.Sessions)
		assert.Contains(t, b.audited(), "admin acme export")
		assert.False(t, strings.Contains(b.log.String(), "nobody"))
	})
}

// The session belongs to the person again, but still has the email of another person, which was
// stated last.
func TestExport_hasNobodyElsesAddress(t *testing.T) {
	s := start(t)
	s.acts("a1", "ada", "s1", "$identify", "/", `},"$set":{"email":"`+mail+`"`)
	s.acts("a2", "bob", "s1", "$identify", "/", `},"$set":{"email":"bob@example.com"`)
	s.acts("a3", "ada", "s1", "$pageview", "/", `,"$is_identified":true`)
	e := s.export("ada/export")
	require.Len(t, e.Sessions, 1)
	assert.Equal(t, "ada", e.Sessions[0].UserID)
	all := musttest.New(json.Marshal(e))
	assert.NotContains(t, string(all), "bob")
}

// The person has more sessions than one erasure can name, and one entry of the log holds actions of
// both the user and the visitor.
func TestExport_hasAllOfAnEntryOfAPersonWithManySessions(t *testing.T) {
	s := start(t)
	for n := range 40 {
		s.acts(fmt.Sprint("a", n), "ada", fmt.Sprint(strings.Repeat("x", 1000), n), "$pageview", "/", "")
	}
	event := func(name, user, more string) string {
		return `{"event":"` + name + `","distinct_id":"` + user + `","properties":{"$session_id":"z",` +
			`"$current_url":"https://app.example.com/"` + more + `}}`
	}
	s.takes(3, "/e/", `{"api_key":"`+acmeToken+`","batch":[`+event("$pageview", "anon", "")+`,`+
		event("$identify", "ada", `,"$anon_distinct_id":"anon"`)+`,`+event("$pageview", "ada", "")+`]}`)
	e := s.export("ada/export")
	require.Len(t, e.Sessions, 41)
	require.Len(t, e.Log, 41)
	var b activity.Batch
	require.NoError(t, json.Unmarshal(e.Log[40], &b))
	assert.Equal(t, "z", b.SessionID)
	assert.Len(t, b.Actions, 2)
}

// erase erases a person of acme.
func (s *service) erase(of string) (e liveactivity.Erased) {
	s.t.Helper()
	r := s.ok(http.MethodDelete, "/users/acme"+of, "", withAdminKey)
	require.NoError(s.t, json.Unmarshal([]byte(r.body), &e))
	return e
}

// forgot checks that no door of a server says anything of ada, and that each says of grace what it did: the lookups,
// the exports, and the stream from its start to an event with that text.
func (s *service) forgot(until string) {
	s.t.Helper()
	var all strings.Builder
	for _, path := range []string{"/users/acme/ada/live-activity", "/users/acme/anon/live-activity",
		"/users/acme/grace/live-activity", "/sessions/acme", "/sessions/acme/s1", "/sessions/acme/s2"} {
		all.WriteString(path + s.do(http.MethodGet, path, "", bearer(acmeKey)).body + "\n")
	}
	for _, of := range []string{"ada/export", "export?email=" + mail, "grace/export"} {
		all.WriteString(s.ok(http.MethodGet, "/users/acme/"+of, "", withAdminKey).body + "\n")
	}
	stream := s.stream("/stream/acme?since=0", bearer(acmeKey))
	for data := ""; !strings.Contains(data, until); all.WriteString(data + "\n") {
		data = stream.next().Data
	}
	said := strings.ReplaceAll(all.String(), `"emails":["`+mail+`"]`, "") // as it was asked for
	assert.NotContains(s.t, said, mail)
	assert.NotContains(s.t, said, "ada-")
	assert.Contains(s.t, said, "grace-1")
	assert.Contains(s.t, said, "grace-2")
}

func TestErase_reachesEveryDoorOfEveryServer(t *testing.T) {
	t.Parallel() // it mostly waits
	onEngines(t, func(t *testing.T, on engine) {
		d := newDesks()
		a, b := on.start(t, d, offering)
		a.meet()
		conversation := d.opens(a, mail, "Hello")
		a.acts("a9", "ada", "s2", "$pageview", "/ada-5", "")
		notes := func() string { return strings.Join(d.intercom.Notes(conversation), " ") }
		waittest.Until(t, "notes", func() bool { return strings.Contains(notes(), "ada 5") })
		live := b.stream("/stream/acme?session_id=s2", bearer(acmeKey))
		erased := a.erase("/ada?notes=redact")
		assert.Positive(t, erased.NotesRedacted)
		assert.Equal(t, liveactivity.Erased{Actions: 5, Sessions: 2, Conversations: 1, NotesRedacted: erased.NotesRedacted},
			erased)
		f := live.next()
		assert.Equal(t, "erase", f.Event)
		assert.JSONEq(t, `{"product_id":"acme","user_id":"ada","session_ids":["s1","s2"],"kept":{"s1":["anon-2","grace"]},
				"emails_sha256":["`+feed.EmailDigest(mail)+`"]}`, f.Data)
		for _, s := range []*service{a, b} {
			s.forgot(`"session_ids"`)
		}
		waittest.Until(t, "the notes are blank", func() bool { return !strings.Contains(notes(), "ada") })
		a.acts("a3", "ada", "s1", "$pageview", "/ada-2", "")
		assert.Zero(t, b.lookup("ada")["count"], "a retry is a duplicate")
		assert.Equal(t, liveactivity.Erased{}, b.erase("/ada"), "again")

		a.acts("b1", "ada", "s2", "$pageview", "/again", `},"$set":{"email":"`+mail+`"`)
		assert.EqualValues(t, 1, b.lookup("ada")["count"], "what comes after is new")
		assert.Equal(t, []any{"s2"}, b.sessionIDs(url.Values{"q": {mail}}))
		assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1},
			b.erase("?email="+url.QueryEscape(strings.ToUpper(mail))))
		assert.Zero(t, a.lookup("ada")["count"])
		assert.Empty(t, a.sessionIDs(url.Values{"q": {mail}}))
	})
}

// A user keeps the newest actions over all sessions, and a session the actions of each of its users.
func TestErase_findsSessionsBehindManyNewerActions(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks(), func(o *liveactivity.Options) { o.MaxEvents = 5 })
		a.meet()
		for n := range 8 {
			a.acts(fmt.Sprint("many", n), "ada", "s2", "$pageview", fmt.Sprint("/ada-many-", n), "")
		}
		e := b.export("ada/export")
		require.Len(t, e.Sessions, 2)
		assert.Len(t, e.Sessions[0].Actions, 2)
		assert.Len(t, e.Actions, 1)
		assert.Equal(t, 2, b.erase("/ada").Sessions)
		a.forgot(`"session_ids"`)
		assert.Empty(t, b.export("ada/export").Sessions)
	})
}

// A page's link gives way to the desk's, but the conversation of the first link still has notes.
func TestErase_reachesTheConversationOfALinkThatGaveWay(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		d := newDesks()
		a, b := on.start(t, d)
		hooks := a.url + "/chatbot-webhook/acme"
		eve, hook := d.intercom.Created(hooks, helpdesktest.IntercomContact{Email: "eve@example.com"}, "Hello")
		require.Equal(t, "pending", a.send(hook).says(t))
		a.acts("a1", "ada", "s1", "$pageview", "/ada-1", `},"$set":{"email":"`+mail+`"`)
		a.link("s1", eve)
		notes := func(conversation string) string { return strings.Join(d.intercom.Notes(conversation), " ") }
		waittest.Until(t, "a note", func() bool { return strings.Contains(notes(eve), "ada 1") })
		ada, hook := d.intercom.Created(hooks, helpdesktest.IntercomContact{Email: mail}, "Hello")
		require.Equal(t, "linked", a.send(hook).says(t))
		waittest.Until(t, "a note", func() bool { return strings.Contains(notes(ada), "ada 1") })
		waittest.Until(t, "both", func() bool {
			e := b.export("ada/export")
			return len(e.Conversations) == 2 && len(e.Conversations[0].NoteIDs) == 1 && len(e.Conversations[1].NoteIDs) == 1
		})
		erased := b.erase("/ada?notes=redact")
		assert.Equal(t, 2, erased.Conversations)
		assert.Equal(t, 2, erased.NotesRedacted)
		waittest.Until(t, "the notes are blank", func() bool { return !strings.Contains(notes(eve)+notes(ada), "ada 1") })
	})
}

// Two people take turns in one session, and a page links it to the same conversation for both.
func TestErase_reachesNotesInAConversationThatGoesOnWithAnother(t *testing.T) {
	d := newDesks()
	a := d.start(t)
	shared, hook := d.intercom.Created(a.url+"/chatbot-webhook/acme",
		helpdesktest.IntercomContact{Email: "eve@example.com"}, "Hello")
	require.Equal(t, "pending", a.send(hook).says(t))
	notes := func() string { return strings.Join(d.intercom.Notes(shared), " ") }
	for _, user := range []string{"ada", "bob"} {
		a.acts(user+"1", user, "s1", "$identify", "/", `},"$set":{"email":"`+user+`@example.com"`)
		a.acts(user+"2", user, "s1", "$pageview", "/of-"+user, "")
		a.link("s1", shared)
		waittest.Until(t, "a note", func() bool {
			e := a.export(user + "/export")
			return len(e.Conversations) == 1 && len(e.Conversations[0].NoteIDs) == 1
		})
	}
	assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1, Conversations: 1, NotesRedacted: 1},
		a.erase("/ada?notes=redact"))
	waittest.Until(t, "the note is blank", func() bool { return !strings.Contains(notes(), "of ada") })
	assert.Contains(t, notes(), "of bob")
	assert.Len(t, a.export("bob/export").Conversations[0].NoteIDs, 1)
	assert.Equal(t, 1, a.erase("/bob?notes=redact").NotesRedacted)
	waittest.Until(t, "that one, too", func() bool { return !strings.Contains(notes(), "of bob") })
}

// A visitor states the email that the user has later, and the user states one before another.
func TestErase_forgetsEveryAddressThatAPersonStated(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		const private = "ada-private@example.com"
		a, b := on.start(t, newDesks())
		a.acts("a1", "anon", "s1", "$pageview", "/", `},"$set":{"email":"`+mail+`"`)
		a.acts("a2", "ada", "s1", "$identify", "/", `,"$anon_distinct_id":"anon"},"$set":{"email":"`+private+`"`)
		a.acts("a3", "ada", "s1", "$set", "/", `},"$set":{"email":"ada-new@example.com"`)
		a.acts("a4", "bob", "s1", "$identify", "/", `},"$set":{"email":"bob@example.com"`)
		assert.ElementsMatch(t, []string{mail, private, "ada-new@example.com"}, b.export("ada/export").Emails)
		assert.Equal(t, []string{"bob@example.com"}, b.export("bob/export").Emails)
		b.erase("/ada")
		a.acts("b1", "anon", "s3", "$pageview", "/", "")
		visitors, _ := b.sessionsOf("acme", acmeKey, "?q=anon")
		require.Len(t, visitors, 1)
		assert.Empty(t, visitors[0]["email"])
		for email, sessions := range map[string]int{mail: 0, private: 0, "bob@example.com": 1} {
			assert.Len(t, b.export("export?email="+email).Sessions, sessions, email)
		}
	})
}

// The session holds the user's email but no action of the user. The erasure finds it by the email.
func TestErase_findsTheSessionOfTheUsersAddress(t *testing.T) {
	s := start(t)
	s.acts("a1", "ada", "s1", "$identify", "/", `},"$set":{"email":"`+mail+`"`)
	s.acts("a2", "bob", "s1", "$identify", "/", `},"$set":{"email":"bob+1@example.com"`)
	s.acts("a3", "bob", "s1", "$pageview", "/bob", "")
	s.acts("a4", "eve", "s2", "$pageview", "/eve", `},"$set":{"email":"bob+1@example.com"`)
	s.acts("a5", `ada\u0000`, "s3", "$pageview", "/", "")
	assert.Equal(t, liveactivity.Erased{Sessions: 1}, s.erase("/ada"))
	assert.Len(t, s.export("ada%00/export").Sessions, 1, "any character")
	assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1}, s.erase("/ada%00"))
	assert.Len(t, s.export("bob/export").Sessions, 1, "the address in another's session leads nowhere")
	assert.Empty(t, s.export("export?email="+mail).Sessions)
	assert.Len(t, s.export("export?email=bob+1@example.com").Sessions, 2, "a plus sign that is not escaped")
	s.acts("a6", "ivy", "", "$identify", "/", `},"$set":{"email":"ivy@example.com"`)
	assert.Equal(t, []string{"ivy"}, s.export("export?email=ivy@example.com").UserIDs, "known from a server only")
	s.erase("?email=ivy@example.com")
	assert.Empty(t, s.export("ivy/export").Emails)
	assert.Empty(t, s.export("export?email=ivy@example.com").UserIDs)
	s.acts("a7", "zoe", "", "$identify", "/", `},"$set":{"email":"zoe@example.com"`)
	s.acts("a8", "zoe", "s4", "$pageview", "/", "")
	s.happens(false, "$identify", "zoe", "s5", map[string]any{"$set": map[string]any{"email": "zoe@example.com"}})
	assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 2}, s.erase("/zoe"), "also the session that claims it")
	s.acts("a9", "kim", "s6", "$set", "/", `},"$set":{"email":"kim@example.com"`)
	assert.Equal(t, liveactivity.Erased{Sessions: 1}, s.erase("/kim"), "whom no event identified")
}

// The address leads to one of a user's sessions, and the user to those of a sign-in.
func TestErase_reachesSessionsWithoutActions(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks())
		a.acts("s1", "ada", "s1", "$identify", "/", `},"$set":{"email":"`+mail+`"`)
		for _, id := range []string{"s2", "s3"} {
			a.acts(id, "ada", id, "$identify", "/", `,"$anon_distinct_id":"anon"`)
		}
		assert.Len(t, a.export("ada/export").Sessions, 3)
		assert.Equal(t, liveactivity.Erased{Sessions: 3}, a.erase("?email="+mail))
		for _, id := range []string{"s1", "s2", "s3"} {
			c := b.context("session_id=" + id)
			assert.Empty(t, c.UserID+c.Email, id)
		}
	})
}

// A user's server stated several addresses, and a session of the user without actions an earlier one.
func TestErase_leavesNoEarlierAddress(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	s := start(t, func(o *liveactivity.Options) { o.Log = log })
	for i, said := range [][3]string{{"ada", "", "ada-3"}, {"ada", "", "ada-1"}, {"ada", "s1", "ada-1"},
		{"ada", "", "Ada-2"}, {"bob", "", "ada-3"}, {"bob", "", "bob"}} {
		s.acts(fmt.Sprint(i), said[0], said[1], "$identify", "/", `},"$set":{"email":"`+said[2]+`@example.com"`)
	}
	s.acts("v1", "anon", "s2", "$set", "/", `},"$set":{"email":"ada-4@example.com"`)
	s.acts("v2", "ada", "s2", "$identify", "/", `,"$anon_distinct_id":"anon"`)
	left := func() (left string) {
		for _, d := range musttest.New(log.Documents().List(t.Context(), "acme", "", "", 100)) {
			if !strings.HasPrefix(d.Name, "flow/") { // counts of events are nobody's
				left += d.Name + " " + string(d.Value) + "\n"
			}
		}
		return left
	}
	assert.ElementsMatch(t, []string{"ada-1@example.com", "ada-2@example.com", "ada-4@example.com"},
		s.export("ada/export").Emails)
	assert.Equal(t, liveactivity.Erased{Sessions: 2}, s.erase("/ada"))
	assert.NotContains(t, strings.ReplaceAll(left(), "ada-3@", ""), "ada", "ada-3@example.com is bob's by now")
	assert.Equal(t, []string{"ada-3@example.com", "bob@example.com"}, s.export("bob/export").Emails)
	s.erase("?email=ADA-3@example.com")
	assert.NotContains(t, left(), "ada")
	assert.Equal(t, []string{"bob@example.com"}, s.export("bob/export").Emails, "the user has another one")
	s.erase("/bob")
	assert.Empty(t, left())
}

// Redis can take back its last commit, and an erasure may be the last one for hours.
func TestErase_leavesNothingInRedis(t *testing.T) {
	redis := redistest.Start(t)
	s := start(t, withRedis(redis.URL()))
	s.acts("a1", "ada", "s1", "$pageview", "/", `},"$set":{"email":"`+mail+`"`)
	s.erase("/ada")
	all := redis.Client().Keys(t.Context(), "*").Val()
	for _, key := range redis.Client().Keys(t.Context(), "*:torn").Val() {
		all = append(all, redis.Client().HVals(t.Context(), key).Val()...)
	}
	require.NotEmpty(t, all)
	assert.NotContains(t, strings.Join(all, "\n"), mail)
}

// The last one to state an address does not hide its other users and sessions, nor users outside any.
func TestErase_ofAnAddressFindsEveryUserWhoStatedIt(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks())
		const said = `},"$set":{"email":"` + mail + `"`
		a.acts("a1", "ada", "s1", "$pageview", "/", "")
		a.acts("a2", "ada", "s1", "$set", "/", said)
		for _, user := range []string{"ada-2", "ada-3"} {
			a.acts(user, user, "", "$pageview", "/", said)
		}
		b.acts("a4", "anon", "s2", "$set", "/", said)
		for _, session := range []string{"s3", "s4"} {
			a.acts(session, "anonymous", session, "$pageview", "/", said) // which is the ID of nobody
		}
		assert.Equal(t, liveactivity.Erased{Actions: 5, Sessions: 4}, b.erase("?email="+mail))
		for _, user := range []string{"ada", "ada-2", "ada-3"} {
			assert.Zero(t, a.lookup(user)["count"], user)
		}
	})
}

// Nobody has a user ID here, and one session has no actions.
func TestErase_ofAnAddressReachesSessionsOfNobody(t *testing.T) {
	s := start(t)
	s.acts("a1", "anonymous", "s1", "$pageview", "/", `},"$set":{"email":"`+mail+`"`)
	s.acts("a2", "anonymous", "s2", "$set", "/", `},"$set":{"email":"`+mail+`"`)
	s.acts("a3", "anonymous", "s3", "$pageview", "/", "")
	assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 2}, s.erase("?email="+mail))
	for id, left := range map[string]int{"s1": 0, "s2": 0, "s3": 1} {
		c := s.context("session_id=" + id)
		assert.Empty(t, c.Email, id)
		assert.Equal(t, left, c.Count, id)
	}
}

// Bob signs in where Ada acts before, or in the same request, and where nobody acts. He does nothing there and goes on
// elsewhere.
func TestErase_reachesSessionsInWhichThePersonDidNothing(t *testing.T) {
	for _, said := range []string{"", `},"$set":{"email":"bob@example.com"`} {
		s := start(t)
		s.acts("a1", "ada", "s1", "$pageview", "/", "")
		s.acts("b1", "bob", "s1", "$identify", "/", said)
		s.takes(2, "/webhook/acme", `[{"event":"$identify","distinct_id":"bob","properties":{"$session_id":"s2"`+said+`}},`+
			pageview("a2", "s2", "https://app.example.com/")+`]`, "X-PostHog-Secret: "+acmeSecret)
		s.acts("b2", "bob", "s3", "$identify", "/", said)
		s.acts("b3", "bob", "s4", "$pageview", "/", said)
		s.acts("a3", "ada", "s5", "$pageview", "/", "")
		s.takes(1, "/e/", `{"api_key":"`+acmeToken+`","event":"$set","distinct_id":"bob","properties":{"$session_id":"s5"`+
			`},"$set":{"email":"bob-claimed@example.com"}}`)
		assert.Equal(t, 5, s.erase("/bob").Sessions)
		for _, id := range []string{"s1", "s2", "s3", "s5"} {
			assert.NotContains(t, s.ok(http.MethodGet, "/context/acme?session_id="+id, "", bearer(acmeKey)).body, "bob", id)
		}
		assert.Empty(t, s.export("export?email=bob-claimed@example.com").Sessions)
	}
}

// The person has more sessions than a page of the list and than a user's actions that are kept.
func TestErase_reachesAllOfManySessions(t *testing.T) {
	s := start(t)
	var all []string
	for n := range 250 {
		all = append(all, fmt.Sprintf(`{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s%d",`+
			`"$current_url":"https://app.example.com/"}}`, n))
	}
	s.takes(250, "/e/", `{"api_key":"`+acmeToken+`","batch":[`+strings.Join(all, ",")+`]}`)
	assert.Equal(t, liveactivity.Erased{Actions: 250, Sessions: 250}, s.erase("/ada"))
}

// distantLog takes a while to read the activity of one subject.
type distantLog struct {
	eventlog.Log
	recent.Store
}

func (l distantLog) Activity() recent.Store { return l }

func (l distantLog) Recent(ctx context.Context, productID string, of recent.Subject, n int) (recent.Snapshot, error) {
	if time.Sleep(50 * time.Millisecond); ctx.Err() != nil {
		return recent.Snapshot{}, ctx.Err()
	}
	return l.Store.Recent(ctx, productID, of, n)
}

// Sessions are cheap to claim, so an erasure of thousands must not end with the time that it has.
func TestErase_readsSessionsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(nil))
		s := newService(io.Discard, func(o *liveactivity.Options) { o.Log = distantLog{log, log.Activity()} })
		run := waittest.Run(t, s.Run)
		synctest.Wait()
		for n := range 250 {
			ask(s, http.MethodPost, "/webhook/acme", pageview(fmt.Sprint("u", n), fmt.Sprint("s", n), "https://x.example/"),
				"X-PostHog-Secret: "+acmeSecret)
		}
		erased, err := s.Erase(t.Context(), "acme", liveactivity.Person{UserID: "ada"}, false)
		require.NoError(t, err)
		assert.Equal(t, liveactivity.Erased{Actions: 250, Sessions: 250}, erased)
		require.NoError(t, run())
	})
}

// A person who shared a session with the erased person stays in the list as before.
func TestErase_leavesTheOtherPersonOfASession(t *testing.T) {
	s := start(t)
	for _, name := range []string{"ada", "bob"} {
		s.acts(name, name, "s1", "$pageview", "/", `,"$is_identified":true},"$set":{"email":"`+name+`@x.example"`)
	}
	before, _ := s.sessionsOf("acme", acmeKey, "?q=bob@")
	s.erase("/ada")
	after, _ := s.sessionsOf("acme", acmeKey, "?q=bob@")
	require.Len(t, after, 1)
	assert.Equal(t, []any{before[0]["user_id"], before[0]["email"]}, []any{after[0]["user_id"], after[0]["email"]})
	s.acts("u2", "eve", "s1", "$pageview", "/", "")
	s.erase("/eve")
	after, _ = s.sessionsOf("acme", acmeKey, "")
	require.Len(t, after, 1)
	assert.Equal(t, []any{"bob", ""}, []any{after[0]["user_id"], after[0]["email"]}, "which is known no more")
}

// The other person's session keeps its page and its first action, also after a restart.
func TestErase_leavesTheSpanOfTheOtherPersonsSession(t *testing.T) {
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	s.acts("b1", "bob", "s1", "$pageview", "/one", "")
	s.acts("b2", "bob", "s1", "$pageview", "/two", "")
	before, _ := s.sessionsOf("acme", acmeKey, "")
	s.acts("b3", "bob", "s1", "$autocapture", "", `,"$current_url":""`)
	s.acts("a1", "ada", "s1", "$pageview", "/ada", `,"$is_identified":true`)
	s.erase("/ada")
	check := func(actions int) {
		after, _ := s.sessionsOf("acme", acmeKey, "")
		require.Len(t, after, 1)
		before[0]["actions"] = float64(actions)
		for _, field := range []string{"first_seen", "page", "user_id", "actions"} {
			assert.Equal(t, before[0][field], after[0][field], field)
		}
		recent := s.session("acme", acmeKey, "s1").Recent
		assert.Equal(t, actions-1, recent[len(recent)-1].Index)
	}
	restart := func() {
		s.stop()
		s = start(t, withDataDir(dir))
	}
	check(4)
	restart()
	check(4)
	s.acts("b4", "bob", "s1", "$autocapture", "", `,"$current_url":""`)
	restart()
	check(5)
}

// The email of a user who signs in after an erasure is still there after a restart reads both.
func TestErase_leavesTheAddressOfALaterUser(t *testing.T) {
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	set := func(email string) string { return `},"$set":{"email":"` + email + `"` }
	s.acts("a1", "anon", "s1", "$pageview", "/", "")
	s.acts("a2", "ada", "s1", "$pageview", "/", set(mail))
	s.acts("a3", "bob-anon", "s2", "$pageview", "/", "")
	s.acts("a4", "bob", "s2", "$identify", "/", `,"$anon_distinct_id":"bob-anon"`)
	s.acts("a5", "ada", "s2", "$pageview", "/", "")
	s.erase("/ada")
	s.acts("b1", "bob", "s1", "$identify", "/", `,"$anon_distinct_id":"anon"`+set("bob@example.com"))
	check := func() {
		found, _ := s.sessionsOf("acme", acmeKey, "")
		require.Len(t, found, 2)
		for _, row := range found {
			assert.Equal(t, "bob", row["user_id"], row)
			assert.True(t, row["session_id"] == "s2" || row["email"] == "bob@example.com", row)
		}
	}
	check()
	s.stop()
	s = start(t, withDataDir(dir))
	check()
}

// An address that a visitor stated in one session is known in the visitor's other sessions, where others
// sign in.
func TestErase_leavesNoAddressOfAVisitorInTheSessionOfAnotherUser(t *testing.T) {
	s := start(t)
	s.acts("a1", "anon", "s1", "$pageview", "/", `},"$set":{"email":"`+mail+`"`)
	s.acts("a2", "anon", "s2", "$pageview", "/bob-1", "")
	row := func() map[string]any {
		return asMap(t, s.session("acme", acmeKey, "s2").Session)
	}
	assert.Equal(t, mail, row()["email"])
	s.acts("a3", "bob", "s2", "$identify", "/", `,"$anon_distinct_id":"anon"`)
	assert.Equal(t, []any{"bob", ""}, []any{row()["user_id"], row()["email"]}, "it is not the user's")
	s.erase("?email=" + mail)
	stream := s.stream("/stream/acme?since=0", bearer(acmeKey))
	f := stream.next()
	assert.Contains(t, f.Data, "/bob-1")
	assert.NotContains(t, f.Data, mail)
	assert.EqualValues(t, 1, s.lookup("bob")["count"])
}

// The link names an email whose user no source calls identified.
func TestErase_leavesTheConversationOfAnotherUserOfTheSession(t *testing.T) {
	d := newDesks()
	s := d.start(t)
	s.webhook(`{"event":{"event":"$pageview","distinct_id":"ada","properties":{"$session_id":"s1",` +
		`"$current_url":"https://app.example.com/ada-1"}},` + `"person":{"properties":{"email":"` + mail + `"}}}`)
	conversation := d.files(s, mail)
	waittest.Until(t, "a note", func() bool { return len(d.zendesk.Notes(conversation)) == 1 })
	s.happens(false, "$pageview", "bob", "s1", map[string]any{"$current_url": "https://app.example.com/bob-1"})
	assert.Empty(t, s.export("bob/export").Conversations)
	for user, want := range map[string]string{"ada": conversation, "bob": ""} {
		assert.Equal(t, want, s.context("user_id="+user).ConversationID, user)
	}
	assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1}, s.erase("/bob?notes=redact"))
	assert.Len(t, s.export("ada/export").Conversations, 1)
	erased := s.erase("/ada?notes=redact")
	assert.Equal(t, 1, erased.Conversations)
	assert.Positive(t, erased.NotesRedacted+erased.NotesLeft)
}

// A page linked the session of a visitor to the conversation of ada. The visitor turned out to be bob, whom ada
// followed.
func TestErase_leavesTheVisitorInTheConversationOfAnother(t *testing.T) {
	d := newDesks()
	s := d.start(t, func(o *liveactivity.Options) { o.Products[0].IntegrationConfig.Notes.SummaryThreshold = new(2) })
	ada, hook := d.intercom.Created(s.url+"/chatbot-webhook/acme",
		helpdesktest.IntercomContact{ExternalID: "ada"}, "Hello")
	require.Equal(t, "pending", s.send(hook).says(t))
	s.acts("a1", "anon", "s1", "$pageview", "/visitor", "")
	s.acts("a2", "anon", "s1", "$pageview", "/visitor", "")
	s.link("s1", ada)
	notes := func() string { return strings.Join(d.intercom.Notes(ada), " ") }
	noted := func(text string) {
		waittest.Until(t, text, func() bool { return strings.Contains(notes(), text) })
	}
	noted("Visited visitor") // the summary
	s.acts("a3", "bob", "s1", "$identify", "/", `,"$anon_distinct_id":"anon"},"$set":{"email":"bob@example.com"`)
	d.files(s, "bob@example.com")
	s.acts("a4", "ada", "s1", "$pageview", "/later", `,"$is_identified":true`)
	s.acts("a5", "ada", "s2", "$pageview", "/of-ada", "")
	noted("of ada")
	assert.Empty(t, s.context("user_id=ada").Summary)
	e := s.export("ada/export")
	require.Len(t, e.Conversations, 1)
	assert.NotContains(t, string(musttest.New(json.Marshal(e))), "visitor")
	s.erase("/ada?notes=redact")
	waittest.Until(t, "the note is blank", func() bool { return !strings.Contains(notes(), "of ada") })
	assert.Contains(t, notes(), "visitor")
	assert.Equal(t, 2, s.erase("/bob?notes=redact").Conversations)
	waittest.Until(t, "that one, too", func() bool { return !strings.Contains(notes(), "visitor") })
}

// A visitor's actions before a sign-in belong to the user, and no longer to the visitor, at every
// door.
func TestErase_ofAVisitorLeavesTheUserWhoSignedIn(t *testing.T) {
	onEngines(t, func(t *testing.T, on engine) {
		a, b := on.start(t, newDesks())
		a.acts("a1", "anon", "s1", "$pageview", "/ada-1", `},"$set":{"email":"`+mail+`"`)
		a.acts("a2", "ada", "s1", "$identify", "/login", `,"$anon_distinct_id":"anon"`)
		for range 2 {
			all := musttest.New(json.Marshal(b.export("anon/export")))
			assert.NotContains(t, string(all), "ada")
			assert.Equal(t, liveactivity.Erased{}, a.erase("/anon"))
			assert.EqualValues(t, 1, b.lookup("ada")["count"])
			found, _ := b.sessionsOf("acme", acmeKey, "")
			require.Len(t, found, 1)
			assert.Equal(t, []any{"ada", mail}, []any{found[0]["user_id"], found[0]["email"]})
			e := b.export("ada/export")
			require.Len(t, e.Sessions, 1)
			assert.Len(t, e.Log, 1)
		}
		a.acts("a3", "anon", "s2", "$pageview", "/anon", "")
		assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1}, b.erase("/anon"))
		assert.EqualValues(t, 1, a.lookup("ada")["count"])
		assert.Equal(t, liveactivity.Erased{Actions: 1, Sessions: 1}, b.erase("/ada"))
		assert.Zero(t, a.lookup("ada")["count"])
	})
}

// The visitor's ID has more sessions than one erasure can name.
func TestErase_ofAVisitorWithManySessionsLeavesTheUserWhoSignedIn(t *testing.T) {
	s := start(t)
	s.acts("a1", "anon", "s1", "$pageview", "/", "")
	s.acts("a2", "ada", "s1", "$identify", "/login", `,"$anon_distinct_id":"anon"`)
	for n := range 40 {
		s.acts(fmt.Sprint("b", n), "anon", fmt.Sprint(strings.Repeat("x", 1000), n), "$pageview", "/", "")
	}
	assert.Equal(t, liveactivity.Erased{Actions: 40, Sessions: 40}, s.erase("/anon"))
	assert.EqualValues(t, 1, s.lookup("ada")["count"])
	assert.Len(t, s.export("ada/export").Log, 1)
}

// Two people sign in one after the other, and the session's visitor before was the same both times: the log cannot
// tell whose the visitor's actions are.
func TestErase_reachesTheVisitorWhoBecameTwoUsers(t *testing.T) {
	s := start(t)
	for _, user := range []string{"ada", "bob"} {
		s.acts(user+"1", "anon", "s1", "$pageview", "/before-"+user, "")
		s.acts(user+"2", user, "s1", "$identify", "/login", `,"$anon_distinct_id":"anon"`)
		s.acts(user+"3", user, "s1", "$pageview", "/of-"+user, "")
	}
	s.erase("/ada")
	stream := s.stream("/stream/acme?since=0", bearer(acmeKey))
	all := stream.next().Data + string(musttest.New(json.Marshal(s.export("bob/export"))))
	assert.Contains(t, all, "of-bob")
	assert.NotContains(t, all, "ada")
}

// No address is no person: most users have none.
func TestErase_isOfOnePerson(t *testing.T) {
	s := start(t)
	s.acts("a1", "ada", "s1", "$pageview", "/ada-1", "")
	var wrong *activity.QueryError
	for _, who := range []liveactivity.Person{{}, {UserID: "ada", Email: mail}} {
		_, err := s.service.Erase(t.Context(), "acme", who, false)
		require.ErrorAs(t, err, &wrong)
		_, err = s.service.Export(t.Context(), "acme", who)
		require.ErrorAs(t, err, &wrong)
	}
	_, err := s.service.Erase(t.Context(), "acmee", liveactivity.Person{UserID: "ada"}, false)
	require.ErrorIs(t, err, liveactivity.ErrUnknownProduct)
	_, err = s.service.Export(t.Context(), "acmee", liveactivity.Person{UserID: "ada"})
	require.ErrorIs(t, err, liveactivity.ErrUnknownProduct)
	assert.EqualValues(t, 1, s.lookup("ada")["count"])
}

func TestErase_refusesBadRequests(t *testing.T) {
	s := start(t)
	for path, want := range map[string]int{"/users/acme": 400, "/users/acme?email=": 400, "/users/acme/ada?email=x": 400,
		"/users/acme/ada?notes=burn": 400, "/users/acme/ada?notes=": 400, "/users/acme/%ff": 400,
		"/users/acme?email=a@b.example&email=b@b.example": 400, "/users/acme?email=" + mail + "&notes=redact%zz": 400,
		"/users/acme?email=%00": 400, "/users/none/ada": 404, "/users/none?email=x": 404, "/users/acme/nobody": 200} {
		assert.Equal(t, want, s.status(http.MethodDelete, path, "", withAdminKey), path)
		assert.Equal(t, http.StatusUnauthorized, s.status(http.MethodDelete, path, "", bearer(acmeKey)), path)
	}
}

func TestErase_lastsAcrossARestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	s.meet()
	s.erase("/ada")
	s.acts("b1", "ada", "s3", "$pageview", "/new", "")
	s.stop()
	s = start(t, withDataDir(dir))
	s.forgot("/new")
	assert.EqualValues(t, 1, s.lookup("ada")["count"])
	s.acts("a7", "ada", "s2", "$pageview", "/ada-3", "")
	assert.EqualValues(t, 1, s.lookup("ada")["count"], "a retry is a duplicate")
}
