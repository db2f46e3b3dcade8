package connector

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func newLinks(t testing.TB) *service {
	return newService(t, musttest.New(memorylog.New(nil)), Product{Notes: promptNotes()}, nil)
}

// linkAs links a session now, and returns the outcome in words.
func (s *service) linkAs(t testing.TB, conversationID, sessionID string, by linkedBy) string {
	t.Helper()
	result, err := s.link(t.Context(), "zendesk", conversationID, sessionID, by, time.Time{})
	switch {
	case errors.Is(err, errLinked):
		known, _, err := s.store.dir.Session(t.Context(), "acme", sessionID)
		require.NoError(t, err)
		return "linked to " + known.ConversationID
	case err != nil:
		return err.Error()
	}
	return string(result)
}

// sessions returns the sessions of a conversation of Zendesk.
func (s *service) sessions(t testing.TB, conversationID string) []Linked {
	t.Helper()
	return s.known(t, "zendesk", conversationID)
}

// known returns a conversation's sessions.
func (s *service) known(t testing.TB, desk, conversationID string) []Linked {
	t.Helper()
	known := musttest.New(s.Conversation(t.Context(), "acme", Link{desk, conversationID}))
	return known
}

// waiting returns the links that wait for their sessions.
func (s *service) waiting(t testing.TB) []document.Document {
	t.Helper()
	docs := musttest.New(s.store.docs.List(t.Context(), "acme", waitingPrefix, "", 100))
	return docs
}

func TestNew_reportsEveryMistake(t *testing.T) {
	_, err := New(nil, nil, &Options{TTL: -1})
	assert.ElementsMatch(t, []string{"connector.log", "connector.products", "connector.TTL"},
		musttest.Mistakes(t, err))
}

// A contact may write in one conversation for years.
func TestLink_takesThePlaceOfASessionThatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLinks(t)
		id := func(i int) string { return fmt.Sprint("s", i) }
		s.visit(t, "stranger", "/a")
		require.Equal(t, "linked", s.linkAs(t, "7", "stranger", byStranger))
		for i := range MaxSessions {
			s.visit(t, id(i), "/a")
			require.Equal(t, "linked", s.linkAs(t, "7", id(i), byWebhook))
		}
		time.Sleep(activity.DefaultTTL - time.Minute)
		s.visit(t, id(0), "/b")
		s.visit(t, id(MaxSessions), "/a")
		require.Equal(t, errTooManySessions.Error(), s.linkAs(t, "7", id(MaxSessions), byWebhook))
		time.Sleep(2 * time.Minute)
		require.Equal(t, "linked", s.linkAs(t, "7", id(MaxSessions), byWebhook))
		sessions := s.sessions(t, "7")
		require.Len(t, sessions, MaxSessions+1)
		assert.Equal(t, "stranger", sessions[0].SessionID, "it has a place of its own")
		assert.Equal(t, id(0), sessions[1].SessionID, "an erasure would find its link")
		assert.Equal(t, id(2), sessions[2].SessionID)
		assert.Equal(t, id(MaxSessions), sessions[MaxSessions].SessionID)
	})
}

// Strangers' links, which anybody can forge, take neither a place nor a session from a signed user
// or a webhook.
func TestLink_ofAStrangerTakesNothingFromTheOwner(t *testing.T) {
	s := newLinks(t)
	for i := range MaxStrangers + 1 {
		id := fmt.Sprint("stranger", i)
		s.visit(t, id, "/a")
		want := "linked"
		if i == MaxStrangers {
			want = errTooManySessions.Error()
		}
		require.Equal(t, want, s.linkAs(t, "7", id, byStranger))
	}
	for i := range MaxSessions {
		for by, id := range map[linkedBy]string{bySigned: fmt.Sprint("signed", i), byWebhook: fmt.Sprint("own", i)} {
			s.visitAs(t, id, "ada", "", time.Now(), "/a")
			require.Equal(t, "linked", s.linkAs(t, "7", id, by))
		}
	}
	for _, by := range []linkedBy{byWebhook, bySigned} {
		id := fmt.Sprint("ada", by)
		s.visitAs(t, id, "ada", "", time.Now(), "/a")
		require.Equal(t, "linked", s.linkAs(t, "forged", id, byStranger))
		require.Equal(t, "linked to forged", s.linkAs(t, "8", id, byStranger))
		require.Equal(t, "linked", s.linkAs(t, "8", id, by))
		require.Equal(t, "linked to 8", s.linkAs(t, "9", id, bySigned))
		require.Equal(t, "linked to 8", s.linkAs(t, "9", id, byWebhook))
		_, err := s.link(t.Context(), "intercom", "8", id, byWebhook, time.Now())
		require.ErrorIs(t, err, errLinked, "of the same ID at another desk")
		require.Equal(t, "already_linked", s.linkAs(t, "8", id, byWebhook))
	}
	assert.Equal(t, []Linked{{SessionID: "ada2", Trusted: true}, {SessionID: "ada1", Trusted: true}}, s.sessions(t, "8"))
}

// Anybody can make a link again that has ended. It is then worth no more than the new link.
func TestLink_ofAnotherPersonHasNoneOfTheWordsBefore(t *testing.T) {
	s := newLinks(t)
	s.records(t, did("alice", "a", time.Second))
	require.Equal(t, "linked", s.linkAs(t, "7", "s", byWebhook))
	s.records(t, did("bob", "b", 0))
	require.Equal(t, "linked", s.linkAs(t, "7", "s", byStranger))
	assert.Equal(t, []Linked{{SessionID: "s"}}, s.sessions(t, "7"))
}

// The notes remain its own, and the party that makes the link vouches for it anew.
func TestLink_ofTheSameUserGoesOn(t *testing.T) {
	s := newLinks(t)
	own := []note{{ID: "1"}}
	s.put(t, "zendesk/7", conversation{Sessions: []session{{ID: "s", UserID: "alice", Notes: own}}})
	s.records(t, did("alice", "a", 0))
	require.Equal(t, "linked", s.linkAs(t, "7", "s", byWebhook))
	assert.Equal(t, []Linked{{SessionID: "s", Trusted: true}}, s.sessions(t, "7"))
	assert.Equal(t, own, s.stored(t, "zendesk/7").Sessions[0].Notes)
}

// The user of a signed link counts even if no event identifies them.
func TestLink_ofASignedUserIsNobodyElses(t *testing.T) {
	s := newLinks(t)
	s.visitAs(t, "s", "ada", "", time.Now(), "a")
	require.Equal(t, "linked", s.linkAs(t, "7", "s", bySigned))
	assert.Equal(t, helpdesk.Contact{UserID: "ada"}, s.stored(t, "zendesk/7").Sessions[0].Contact)
	assert.Equal(t, "zendesk/7", s.linkedTo(t, "s"))
	s.records(t, did("bob", "b", 0))
	assert.Empty(t, s.linkedTo(t, "s"))
}

// A signed user vouches for a session and not for the conversation. Where the desk knows of another
// user, the session is not trusted.
func TestConversation_trustsLinksThatTheDeskOrTheUserVouchesFor(t *testing.T) {
	signed := session{ID: "s", Signed: true, UserID: "ada", Contact: helpdesk.Contact{UserID: "ada"}}
	for name, tt := range map[string]struct {
		of    session
		other session
		want  bool
	}{
		"a stranger":                      {session{ID: "s"}, session{}, false},
		"the desk's":                      {session{ID: "s", ByWebhook: true}, session{ByWebhook: true, UserID: "bob"}, true},
		"signed":                          {signed, session{}, true},
		"signed, beside a stranger":       {signed, session{UserID: "bob"}, true},
		"signed, beside the same user":    {signed, session{ByWebhook: true, UserID: "ada"}, true},
		"signed, beside the same contact": {signed, session{ByWebhook: true, Contact: helpdesk.Contact{UserID: "ada"}}, true},
		"signed, beside somebody else":    {signed, session{ByWebhook: true, UserID: "bob"}, false},
	} {
		c := conversation{Sessions: []session{tt.of, tt.other}}
		assert.Equal(t, tt.want, slices.ContainsFunc(c.trusted(), func(s session) bool { return s.ID == "s" }), name)
	}
}

// Every server refuses a flood of browsers' links. Webhooks' links are not counted.
func TestLink_boundsTheLinksOfStrangersInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLinks(t)
		for i := range MaxStrangeLinks {
			id := fmt.Sprint(i)
			s.visit(t, id, "/a")
			require.Equal(t, "linked", s.linkAs(t, "c"+id, id, byStranger))
			require.Equal(t, "already_linked", s.linkAs(t, "c"+id, id, byStranger))
			time.Sleep(time.Second / 2)
		}
		s.visit(t, "s", "/a")
		_, err := s.link(t.Context(), "intercom", "7", "s", byStranger, time.Time{}) // the quota is of all desks
		var quota *quotaError
		require.ErrorAs(t, err, &quota)
		require.Equal(t, time.Minute-MaxStrangeLinks*time.Second/2, quota.Wait)
		s.visit(t, "own", "/a")
		require.Equal(t, "linked", s.linkAs(t, "8", "own", byWebhook))
		time.Sleep(quota.Wait)
		require.Equal(t, "linked", s.linkAs(t, "7", "s", byStranger))
		require.Contains(t, s.linkAs(t, "9", "own", byStranger), "linked to 8")

		s.store.log = &watchtest.Log{Log: s.store.log, Skew: -time.Hour}
		s.visit(t, "back", "/a")
		require.Equal(t, "linked", s.linkAs(t, "10", "back", byStranger), "the clock was set back")
	})
}

// Many links of one session at once, to many conversations.
func TestLink_hasOneWinner(t *testing.T) {
	s := newLinks(t)
	s.visit(t, "s", "/a")
	results := map[string]int{}
	var mu sync.Mutex
	waittest.Together(64, func(i int) {
		result := s.linkAs(t, string(rune('a'+i%8)), "s", byWebhook)
		mu.Lock()
		defer mu.Unlock()
		results[result]++
	})
	assert.Equal(t, 1, results["linked"])
	assert.Equal(t, 7, results["already_linked"])
	known, _, err := s.store.dir.Session(t.Context(), "acme", "s")
	require.NoError(t, err)
	assert.Equal(t, 56, results["linked to "+known.ConversationID])
	for i := range 8 {
		id := string(rune('a' + i))
		assert.Len(t, s.sessions(t, id), map[bool]int{true: 1}[id == known.ConversationID])
	}
}

func TestLink_beginsAtTheMomentOfItsWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLinks(t)
		time.Sleep(time.Hour)
		for id, at := range map[string]struct{ ago, want time.Duration }{
			"now": {0, 0}, "before": {5 * time.Minute, 5 * time.Minute}, "as long as a link waits": {MaxWait, MaxWait},
			"long before": {time.Hour, 0}, "to come": {-time.Hour, 0},
		} {
			s.visit(t, id, "/a")
			musttest.New(s.link(t.Context(), "zendesk", id, id, byWebhook, time.Now().Add(-at.ago)))
			session := s.stored(t, "zendesk/"+id).Sessions[0]
			since := time.Now().Add(-at.want - promptNotes().PreLinkWindow)
			assert.InDelta(t, activity.Seconds(since), session.Since, 1e-3, id)
			assert.Equal(t, eventlog.IDAt(since.Add(-clockSlack)), session.Cursor.After, id)
		}
	})
}

// SDKs state an address once, and not again in their user's next session.
func TestLinkContact_linksTheSessionInWhichItsUserIsNow(t *testing.T) {
	const address = "ada@x.example"
	type visit struct {
		session, user, email string
		standing             activity.Standing
	}
	for name, tt := range map[string]struct {
		first   visit
		between time.Duration
		second  visit
		contact helpdesk.Contact
		want    string
	}{
		"the next session": {visit{"s1", "ada", address, activity.Signed}, time.Hour,
			visit{"s2", "ada", "", activity.Signed}, helpdesk.Contact{Email: "Ada@x.example"}, "s2"},
		"another device": {visit{"s1", "ada", address, activity.Claimed}, time.Minute,
			visit{"s2", "ada", "", activity.Claimed}, helpdesk.Contact{Email: address}, "s1"},
		"of a lower standing": {visit{"s1", "ada", address, activity.Signed}, time.Hour,
			visit{"s2", "ada", "", activity.Claimed}, helpdesk.Contact{Email: address}, "s1"},
		"that only claims the user ID of a signed address": {visit{"signs the address", "ada", address, activity.Signed},
			time.Hour, visit{"s2", "ada", "", activity.Claimed}, helpdesk.Contact{Email: address}, "signs the address"},
		"with another address": {visit{"s1", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "ada", "eve@x.example", activity.Claimed}, helpdesk.Contact{Email: address}, "s1"},
		"of another user": {visit{"s1", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "bob", "", activity.Claimed}, helpdesk.Contact{Email: address}, "s1"},
		"that only stated the address": {visit{"s2", "ada", "", activity.Claimed}, time.Hour,
			visit{"said", "ada", address, activity.Claimed}, helpdesk.Contact{Email: address}, "said"},
		"an address that no session stated": {visit{"", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "ada", "", activity.Claimed}, helpdesk.Contact{Email: "Ada@x.example", UserID: "ada"}, "s2"},
		"an address, whoever has the user ID": {visit{"s1", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "eve", "", activity.Claimed}, helpdesk.Contact{Email: address, UserID: "eve"}, "s1"},
		"the user of an address unseen": {visit{"s1", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "eve", "", activity.Claimed}, helpdesk.Contact{Email: "new@x.example", UserID: "eve"}, "s2"},
		"a user who has an address": {visit{"s1", "ada", address, activity.Claimed}, time.Hour,
			visit{"s2", "eve", "", activity.Claimed}, helpdesk.Contact{UserID: "ada"}, "s1"},
		"a signed user": {visit{"s1", "ada", "", activity.Signed}, time.Hour,
			visit{"s2", "ada", "", activity.Signed}, helpdesk.Contact{UserID: "ada"}, "s2"},
		"a visitor whom another followed": {visit{"s1", "anon", "", activity.Claimed}, time.Hour,
			visit{"s1", "anon-2", "", activity.Claimed}, helpdesk.Contact{UserID: "anon"}, "s1"},
		"a user ID that is claimed elsewhere": {visit{"s1", "ada", "", activity.Signed}, time.Hour,
			visit{"s2", "ada", "", activity.Claimed}, helpdesk.Contact{UserID: "ada"}, "s1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(t, musttest.New(memorylog.New(nil)), Product{}, nil) // without a window before the link
				for _, v := range []visit{tt.first, tt.second} {
					e := did(v.user, "a", 0)
					e.SessionID, e.Email, e.Standing, e.EmailStanding = v.session, v.email, v.standing, v.standing
					switch v.session {
					case "said":
						e.Action = nil
					case "signs the address":
						e.Standing = activity.Claimed
					}
					s.records(t, e)
					time.Sleep(tt.between)
				}
				musttest.New(s.linkContact(t.Context(), "7", tt.contact))
				var got []string
				for _, linked := range s.sessions(t, "7") {
					got = append(got, linked.SessionID)
				}
				assert.Equal(t, tt.want, strings.Join(got, " "))
			})
		})
	}
}

func TestLinkContact_waitsForItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLinks(t)
		wait := func(c helpdesk.Contact) []document.Document {
			t.Helper()
			result := musttest.New(s.linkContact(t.Context(), "7", c))
			assert.Equal(t, pending, result)
			return s.waiting(t)
		}
		first := wait(helpdesk.Contact{UserID: "ada"})
		assert.Len(t, first, 1)
		time.Sleep(time.Minute)
		assert.Equal(t, first, wait(helpdesk.Contact{UserID: "ada"}), "since the first webhook")
		assert.Len(t, wait(helpdesk.Contact{Email: "ada@x.example"}), 2)
		assert.Len(t, wait(helpdesk.Contact{Email: "ADA@x.example"}), 2)
		time.Sleep(MaxWait)
		assert.Empty(t, s.waiting(t))
	})
}

// The next webhook may come before the waiting link is resolved.
func TestLinkContact_keepsTheMomentOfALinkThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLinks(t)
		ada := helpdesk.Contact{Email: "ada@x.example"}
		waitsFrom := time.Now()
		assert.Equal(t, pending, musttest.New(s.linkContact(t.Context(), "7", ada)))
		time.Sleep(10 * time.Minute)
		s.visitAs(t, "s", "ada", ada.Email, time.Now(), "a")
		assert.Equal(t, linked, musttest.New(s.linkContact(t.Context(), "7", ada)))
		since := waitsFrom.Add(-promptNotes().PreLinkWindow)
		assert.InDelta(t, activity.Seconds(since), s.stored(t, "zendesk/7").Sessions[0].Since, 1e-3)
	})
}

// A conversation fits into its document however many actions its sessions have to sum up.
func TestConversation_fitsIntoItsDocument(t *testing.T) {
	s := newLinks(t)
	conv := &conversation{}
	for i := range MaxSessions {
		one := session{ID: fmt.Sprint(i), Written: 7, Notes: []note{{"n", 7}}}
		for n := range 2 * maxRecent {
			one.History.Add(activity.Action{Type: "click", Title: fmt.Sprint("Click ", n, strings.Repeat("x", 200)),
				Description: strings.Repeat("y", 490)})
		}
		one.History.Keep(maxRecent)
		conv.Sessions = append(conv.Sessions, one)
	}
	s.put(t, "zendesk/7", *conv)
	kept := s.stored(t, "zendesk/7")
	require.Len(t, kept.Sessions, MaxSessions)
	assert.Equal(t, session{ID: "3", Written: 7, Notes: []note{{"n", 7}}}, kept.Sessions[3])
}

// The previous release stored the range of a note, and no text.
func TestConversation_readsTheOutboxOfThePreviousRelease(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for stored, want := range map[string]*writing{
		`"text":"[1] User visited a"`:     {Text: "[1] User visited a"},
		`"summary":{"upto":2,"text":"b"}`: {Summary: &sessionSummary{Upto: 2, Text: "b"}}, // says the same: it needs no note
		`"summary":{"upto":2,"text":"c"}`: {Text: "session_id: s\ntimestamp: 2026-11-28 12:00:00 UTC\n\nc",
			Summary: &sessionSummary{Upto: 2, Text: "c"}},
		`"from":{"after":"1-0"},"count":1`: nil, // made again from the log
	} {
		c, err := decodeConversation(document.Document{Version: 1, Value: []byte(
			`{"sessions":[{"id":"s","summary":{"upto":1,"text":"b"}}],"writing":{"session":"s",` +
				`"begun":"2026-11-28T12:00:00Z",` + stored + `}}`)})
		require.NoError(t, err, stored)
		if want != nil {
			want.Session, want.Begun = "s", at
		}
		assert.Equal(t, want, c.Writing, stored)
	}
}

// A server of the previous release stored this form.
func TestSession_isStoredWithTheActionsThatNoSummaryHas(t *testing.T) {
	const stored = `{"id":"s","since":1,"recent":[{"at":2,"type":"click","title":"Click a","text":"User clicked a"}],` +
		`"digest":[{"said":["the home page"]},{},{},{},{}]}`
	var s session
	require.NoError(t, json.Unmarshal([]byte(stored), &s))
	assert.Equal(t, "Visited the home page; clicked a.", s.Extract())
	value := musttest.New(json.Marshal(s))
	assert.JSONEq(t, strings.Replace(stored, "{}]", "{},{}]", 1), string(value), "errors come after everything else")
}

// nearlyFull returns a conversation with these messages that is missing bytes shorter than a
// document. Its sessions have nothing that it could forget.
func nearlyFull(t testing.TB, missing int, messages ...message) conversation {
	t.Helper()
	c := conversation{Messages: messages}
	for i := range MaxSessions / 2 {
		c.Sessions = append(c.Sessions, session{ID: fmt.Sprint("s", i), ByWebhook: true,
			Cursor: cursor{After: eventlog.IDAt(time.Now())}, Summary: &sessionSummary{Text: "so far"}})
	}
	value := musttest.New(json.Marshal(c))
	c.Sessions[0].Summary.Text += strings.Repeat("x", document.MaxValue-len(value)-missing)
	return c
}

func TestConversation_forgetsTheOldestMessagesThatMakeItTooLong(t *testing.T) {
	s := newLinks(t)
	c := nearlyFull(t, 0, message{ID: "1", Text: strings.Repeat("<", 100)}, message{ID: "2"}, message{ID: "3"})
	c.Messages[1].Text = "it is longer by this"
	put := s.put(t, "zendesk/7", c)
	kept := s.stored(t, "zendesk/7")
	assert.Equal(t, c.Messages[1:], kept.Messages)
	assert.Equal(t, kept.Messages, put.Messages, "the record is as it is stored")
}

func TestConversation_boundsItsMessagesInTheDocument(t *testing.T) {
	var c conversation
	for i := range 20_000 {
		c.Messages = append(c.Messages, message{ID: fmt.Sprint(i), Text: "?"})
	}
	c.addMessage(message{ID: "last", Text: strings.Repeat("\u2028", maxStored/3)})
	value := musttest.New(json.Marshal(c.Messages))
	assert.InDelta(t, maxMessages, len(value), 200)
	assert.Equal(t, "last", c.Messages[len(c.Messages)-1].ID)
	c.addMessage(message{ID: "longest", Text: strings.Repeat("<", maxStored)})
	assert.Equal(t, "longest", c.Messages[len(c.Messages)-1].ID)
}

func TestLink_toAConversationWithoutRoomIsRefused(t *testing.T) {
	s := newLinks(t)
	s.visitAs(t, "s", "ada", "ada@x.example", time.Now(), "/a")
	s.put(t, "zendesk/7", nearlyFull(t, 10))
	assert.Equal(t, errTooManySessions.Error(), s.linkAs(t, "7", "s", byStranger))
	result := musttest.New(s.linkContact(t.Context(), "7", helpdesk.Contact{Email: "ada@x.example"}))
	assert.Equal(t, ignored, result)
}
