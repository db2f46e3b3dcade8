package connector

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/summary"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// did returns an action of a visitor of session s, identified unless it is anonymous.
func did(user, page string, ago time.Duration) activity.Event {
	a := activity.Action{Type: activity.TypePageview, Description: "User visited " + page}
	return activity.Event{ID: uuid.NewString(), Time: time.Now().Add(-ago), ServerTime: true, SessionID: "s", UserID: user,
		Identified: !strings.HasPrefix(user, "anon"), Action: &a}
}

// signsIn returns the event by which an anonymous visitor of session s becomes a user.
func signsIn(anonymous, user string, ago time.Duration) activity.Event {
	return activity.Event{ID: uuid.NewString(), Time: time.Now().Add(-ago), ServerTime: true, SessionID: "s", UserID: user,
		Email: user + "@acme.example", Identified: true, Anonymous: anonymous}
}

// records records one request.
func (s *service) records(t testing.TB, events ...activity.Event) {
	t.Helper()
	musttest.New(s.recorder.Record(t.Context(), "acme", events))
}

// contactOf links the session of a user to a conversation, as the desk's webhook does.
func (s *service) contactOf(t testing.TB, conversationID, user string) status {
	t.Helper()
	result, err := s.linkContact(t.Context(), conversationID, helpdesk.Contact{Email: user + "@acme.example"})
	require.NoError(t, err)
	return result
}

// streamed returns the conversation of each action in the log, as "page: id".
func (s *service) streamed(t testing.TB) (all []string) {
	t.Helper()
	into := make([]eventlog.Entry, 100)
	n := musttest.New(s.store.log.Read(t.Context(), "acme", eventlog.ID{}, into))
	for _, e := range into[:n] {
		if b, err := e.Decode(); err == nil && b != nil {
			for _, a := range b.Actions {
				all = append(all, strings.TrimPrefix(a.Description, "User visited ")+": "+a.ConversationID)
			}
		}
	}
	return all
}

// noted returns the pages that the notes of a conversation name, sorted.
func (f *following) noted(conversationID string) []string {
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	pages := []string{}
	for line := range strings.Lines(strings.Join(f.desk.texts(conversationID), "\n")) {
		if _, page, ok := strings.Cut(strings.TrimSpace(line), "User visited "); ok {
			pages = append(pages, page)
		}
	}
	slices.Sort(pages)
	return pages
}

// A company's server states the address of a user whose browser never does. The link is the user's.
func TestLink_isOfTheUserWhoseAddressAServerStates(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		server := signsIn("", "alice", time.Second)
		server.SessionID = ""
		f.records(t, server)
		require.Equal(t, pending, f.contactOf(t, "7", "alice"))
		f.visitAs(t, "s", "alice", "", time.Now(), "a")
		assert.Equal(t, []string{"a"}, f.noted("7"), "her session appeared while the link waited")
		assert.Equal(t, "zendesk/7", f.linkedTo(t, "s"))
		f.records(t, did("bob", "b", 0))
		assert.Equal(t, []string{"a"}, f.noted("7"), "somebody else signed in")
		assert.Empty(t, f.linkedTo(t, "s"))
	})
}

// A link is for a session and a person: on a shared browser, nobody's actions get into another
// person's conversation.
func TestLink_isOfOnePerson(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, did("anon1", "home", 2*time.Second), signsIn("anon1", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		time.Sleep(20 * time.Second)
		f.records(t, did("alice", "b", 3*time.Second), signsIn("anon2", "bob", 2*time.Second), did("bob", "c", time.Second))
		assert.Empty(t, f.linkedTo(t, "s"), "the link has ended")
		require.Equal(t, linked, f.contactOf(t, "8", "bob"))
		assert.Equal(t, "zendesk/8", f.linkedTo(t, "s"))
		synctest.Wait()
		f.records(t, did("bob", "d", 0), did("alice", "e, reported late", 10*time.Second))
		assert.Equal(t, []string{"a", "b", "e, reported late", "home"}, f.noted("7"))
		assert.Equal(t, []string{"c", "d"}, f.noted("8"))
		assert.Equal(t, []string{"home: ", "a: ", "b: 7", "c: ", "e, reported late: 7", "d: 8"}, f.streamed(t))

		f.records(t, did("alice", "f", 0), did("bob", "g", 0))
		assert.NotContains(t, f.noted("7"), "f", "she has come back, but the link has ended")
		assert.NotContains(t, f.noted("8"), "f")
		f.records(t, did("alice", "h", 0))
		assert.Equal(t, linked, f.contactOf(t, "7", "alice"), "until it is made again")
		assert.Contains(t, f.noted("7"), "h")
		assert.NotContains(t, f.noted("8"), "h")
	})
}

// One request may have the actions of two people who follow each other.
func TestLink_keepsItsUsersActionsInARequestThatEndsWithAnother(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", 4*time.Second), did("alice", "a", 3*time.Second),
			signsIn("", "bob", 2*time.Second), did("bob", "b", time.Second))
		f.records(t, signsIn("", "alice", 0), did("alice", "c", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		assert.Equal(t, []string{"a", "c"}, f.noted("7"))
	})
}

// A user comes back while the note of the link before is being written.
func TestLink_beginsAnewDuringANote(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		synctest.Wait()
		f.desk.takes = func() time.Duration { return 6 * time.Second }
		f.records(t, did("alice", "b", 0))
		time.Sleep(time.Second)
		f.records(t, signsIn("", "bob", 0), did("bob", "c", 0))
		time.Sleep(time.Second)
		f.records(t, signsIn("", "alice", 0), did("alice", "d", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		assert.Equal(t, []string{"a", "b", "d"}, f.noted("7"))
	})
}

// What was found for the link before waits behind a note.
func TestLink_beginsAnewDuringANoteOfAnotherSession(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		f.visit(t, "other", "x")
		f.links(t, "7", "other")
		f.desk.takes = func() time.Duration { return 6 * time.Second }
		f.visit(t, "other", "y")
		time.Sleep(time.Second)
		f.visit(t, "other", "z")
		f.records(t, did("alice", "b", 0))
		f.records(t, signsIn("", "bob", 0), did("bob", "c", 0))
		f.records(t, signsIn("", "alice", 0), did("alice", "d", 0))
		time.Sleep(6 * time.Second)
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		assert.Equal(t, []string{"a", "b", "d", "x", "y", "z"}, f.noted("7"))
	})
}

// The note of the link before left out what followed it.
func TestLink_beginsAnewAfterANote(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		time.Sleep(time.Minute)
		f.records(t, did("alice", "b", 0))
		f.records(t, signsIn("", "bob", 0), did("bob", "c", 0))
		f.records(t, signsIn("", "alice", 0), did("alice", "d", 0))
		time.Sleep(time.Minute)
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		assert.Equal(t, []string{"a", "b", "d"}, f.noted("7"))
	})
}

// What a note leaves out does not make it late.
func TestLink_delaysNoNoteByTheActionsOfOthers(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		time.Sleep(time.Minute)
		f.records(t, signsIn("", "bob", 0), did("bob", "c", 0))
		time.Sleep(time.Hour)
		f.records(t, signsIn("", "alice", 0), did("alice", "d", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		require.Equal(t, []string{"a", "d"}, f.noted("7"))
		var delays dto.Metric
		require.NoError(t, f.metrics.delay.WithLabelValues("acme", "zendesk").(prometheus.Metric).Write(&delays))
		assert.Less(t, delays.GetHistogram().GetSampleSum(), 10.0, "seconds")
	})
}

// A session that another user has linked again keeps nothing of the first user but the notes, so
// that an erasure has them redacted.
func TestLink_ofAnotherUserBeginsAnew(t *testing.T) {
	notes := summaries(2)
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		for range 3 {
			f.records(t, did("alice", "a", 0))
		}
		f.links(t, "7", "s")
		f.records(t, did("alice", "a", 0))
		synctest.Wait()
		before := f.stored(t, "zendesk/7").Sessions[0]
		require.NotNil(t, before.Summary)
		require.Len(t, before.Notes, 2)
		time.Sleep(time.Second)

		f.records(t, did("bob", "b", 0))
		require.Equal(t, "linked", f.linkAs(t, "7", "s", bySigned))
		synctest.Wait()
		after := f.stored(t, "zendesk/7").Sessions[0]
		assert.Equal(t, "bob", after.UserID)
		assert.Nil(t, after.Summary)
		assert.Equal(t, 1, after.Written)
		assert.Len(t, after.Notes, 1)
		plan, err := f.Erase(t.Context(), "acme", Person{SessionIDs: []string{"s"}, Links: linksOf("s", "7")}, true)
		require.NoError(t, err)
		assert.Equal(t, 3, plan.NotesRedacted)

		f.records(t, did("bob", "b", 0))
		synctest.Wait()
		texts := f.desk.texts("7")
		assert.NotContains(t, texts[len(texts)-1], "visited a")
		assert.Equal(t, 3, f.desk.count("redact"), "alice's first note, and bob's two")
	})
}

// Each of two people may be erased from the conversation that both had in one session.
func TestErase_tellsTheUsersOfASessionApart(t *testing.T) {
	all := map[string]Person{
		"alice": {UserIDs: []string{"alice"}, SessionIDs: []string{"s"}, Links: linksOf("s", "7"),
			Others: map[string][]string{"s": {"bob"}}},
		"bob": {UserIDs: []string{"bob"}, SessionIDs: []string{"s"}, Links: linksOf("s", "7"),
			Others: map[string][]string{"s": {"alice"}}},
	}
	for first, second := range map[string]string{"alice": "bob", "bob": "alice"} {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			f.visit(t, "s", "home")
			f.linkAs(t, "7", "s", byStranger) // nobody is known
			synctest.Wait()
			for _, c := range [][2]string{{"alice", "7"}, {"carol", "8"}, {"bob", "7"}} {
				f.records(t, did(c[0], "of "+c[0], 0))
				f.links(t, c[1], "s")
				time.Sleep(time.Second)
			}
			require.Equal(t, []string{"[1] User visited home", "[1] User visited of alice", "[1] User visited of bob"},
				f.desk.texts("7"))
			ids := map[string][]string{"alice": {"1", "2"}, "bob": {"4"}} // 3 is carol's, in conversation 8
			erase := func(user string) {
				kept, _, err := f.Kept(t.Context(), "acme", all[user])
				require.NoError(t, err)
				require.Len(t, kept, 1)
				assert.Equal(t, ids[user], kept[0].NoteIDs)
				assert.Equal(t, len(ids[user]), f.erases(t, all[user], true).NotesRedacted)
				time.Sleep(time.Minute)
			}
			before := f.stored(t, "zendesk/7").Sessions[0]
			require.Equal(t, []string{"alice", "carol"}, before.Others)
			erase(first)
			assert.Equal(t, len(ids[first]), f.desk.count("redact"))
			left := f.stored(t, "zendesk/7").Sessions
			require.Len(t, left, 1)
			if first == "alice" {
				before.Former, before.Others = nil, []string{"carol"}
				assert.Equal(t, before, left[0], "it is bob's as before")
			}
			erase(second)
			assert.Equal(t, 3, f.desk.count("redact"))
			assert.Empty(t, f.stored(t, "zendesk/7").Sessions)
		})
	}
}

func TestKept_hasNothingOfTheSessionsNextUser(t *testing.T) {
	r := record{conversation: conversation{Sessions: []session{{ID: "s", UserID: "bob", Notes: []note{{ID: "3"}},
		Summary: &sessionSummary{Text: "bob's"}, History: summary.History{Recent: []summary.Action{{Text: "bob's"}}},
		Former: []formerNote{{"1", "carol"}, {"2", "alice"}}}, {ID: "bob's"}}}}
	of := Person{SessionIDs: []string{"s"}, Others: map[string][]string{"s": {"bob", "carol"}}}
	k := r.kept(of)
	assert.Equal(t, []string{"s"}, k.SessionIDs)
	assert.Equal(t, []string{"2"}, k.NoteIDs)
	assert.Empty(t, k.Actions)
	assert.Empty(t, k.Summaries)
	of.Others["s"] = []string{"alice", "carol"}
	k = r.kept(of)
	assert.Equal(t, []string{"3"}, k.NoteIDs)
	assert.Len(t, k.Actions, 1)
	assert.Len(t, k.Summaries, 1)
	r.Writing, r.Messages, r.Redact, r.Contact = &writing{}, []message{{Reply: "Hi"}}, []string{"1"}, &lookUp{}
	underWay := []Delivery{{Kind: "note"}, {Kind: "reply"}, {Kind: "redaction"}, {Kind: "contact"}}
	assert.Equal(t, underWay, r.kept(of).Deliveries)
}

func TestNext_writesNothingOfAnErasedUserInASessionThatAnotherTookOver(t *testing.T) {
	c := conversation{Sessions: []session{{ID: "s", UserID: "bob"}}}
	v := &view{now: time.Now(), desk: newDesk(), wants: []*want{{session: session{ID: "s", UserID: "alice"},
		found: []found{{Action: *did("alice", "a", 0).Action, kept: true}}}}}
	step, _, _ := c.next(v)
	assert.Nil(t, step)
	c.Sessions[0].UserID = "alice"
	step, _, _ = c.next(v)
	assert.NotNil(t, step)
}

// The session is another user's by the time the note is known to be written.
func TestConversation_settlesANoteForTheUserItIsOf(t *testing.T) {
	for name, summary := range map[string]*sessionSummary{"a note": nil, "a summary": {Upto: 3, Text: "what alice did"}} {
		t.Run(name, func(t *testing.T) {
			to := cursor{After: eventlog.IDAt(time.Now())}
			c := conversation{Sessions: []session{{ID: "s", UserID: "bob"}},
				Writing: &writing{Session: "s", UserID: "alice", To: to, Count: 1, Summary: summary}}
			c.Writing.History.Add(*did("alice", "a", 0).Action)
			c.written("1", time.Now())
			want := session{ID: "s", UserID: "bob", Former: []formerNote{{"1", "alice"}}}
			if summary == nil {
				want.Cursor = to
			}
			assert.Equal(t, []session{want}, c.Sessions)
		})
	}
}

func TestNext_postsNoDraftOfAnotherUser(t *testing.T) {
	v := &view{notes: DefaultNotes(), models: true,
		memo: memo{draft: &writing{Session: "s", UserID: "alice",
			Summary: &sessionSummary{Upto: 20, Text: "what alice did"}}}}
	for user, want := range map[string]kind{"alice": kindNote, "bob": kindDraft} {
		c := conversation{Sessions: []session{{ID: "s", UserID: user, Written: 25}}}
		step, _, _ := c.next(v)
		require.NotNil(t, step, user)
		assert.Equal(t, want, step.kind, user)
	}
}

func TestLink_leavesAnonymousActionsToTheUserWhoSignsIn(t *testing.T) {
	notes := DefaultNotes()
	notes.Debounce = 3 * time.Second
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("anon1", "alice", 0), did("alice", "a", 0))
		f.contactOf(t, "7", "alice")
		time.Sleep(time.Minute)
		f.records(t, did("anon2", "b", 0))
		time.Sleep(time.Second)
		f.records(t, did("anon2", "c", 0), signsIn("anon2", "bob", 0), did("bob", "d", 0))
		f.contactOf(t, "8", "bob")
		assert.Equal(t, []string{"a"}, f.noted("7"))
		assert.Equal(t, []string{"b", "c", "d"}, f.noted("8"))
	})
}

func TestLink_ofAnAnonymousSessionIsOfTheFirstToSignIn(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, did("anon1", "a", 0))
		require.Equal(t, "linked", f.linkAs(t, "7", "s", byStranger))
		f.records(t, signsIn("anon1", "alice", 0), did("alice", "b", 0))
		assert.Equal(t, "zendesk/7", f.linkedTo(t, "s"))
		f.records(t, did("anon2", "c", 0))
		assert.Equal(t, []string{"a", "b", "c"}, f.noted("7"), "signing out ends nothing")
		f.records(t, signsIn("anon3", "bob", 0), did("bob", "d", 0))
		assert.Empty(t, f.linkedTo(t, "s"))
		assert.NotContains(t, f.noted("7"), "d")
	})
}

func TestLinkContact_ofAUserWhoHasLeftWaits(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("anon1", "alice", time.Second), did("alice", "a", time.Second),
			signsIn("anon2", "bob", 0), did("bob", "b", 0))
		assert.Equal(t, pending, f.contactOf(t, "7", "alice"))
		assert.Empty(t, f.noted("7"))
		f.records(t, signsIn("anon3", "alice", 0), did("alice", "c", 0))
		assert.NotContains(t, f.noted("7"), "b")
		assert.Contains(t, f.noted("7"), "c")
	})
}

// A model is told nothing of another person's session, nor of the contact's beside one of higher
// standing.
func TestVouched_areTheContactsSessionsOfTheHighestStanding(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		standings := map[string]activity.Standing{"claimed": activity.Claimed, "reported": activity.Reported,
			"signed": activity.Signed, "hers": activity.Signed}
		for id, standing := range standings {
			f.records(t, activity.Event{ID: id, Time: time.Now(), SessionID: id, UserID: id, Email: map[bool]string{
				true: "eve@acme.example", false: "ada@acme.example"}[id == "hers"], Identified: true, Standing: standing,
				EmailStanding: standing})
		}
		f.records(t, activity.Event{ID: "m", Time: time.Now(), SessionID: "mail", Email: "ada@acme.example",
			EmailStanding: activity.Reported}, activity.Event{ID: "b", Time: time.Now(), SessionID: "bob", UserID: "bob",
			Identified: true, Standing: activity.Reported}, activity.Event{ID: "x", Time: time.Now(), SessionID: "mixed",
			UserID: "mixed", Email: "ada@acme.example", Identified: true, EmailStanding: activity.Reported})
		ada := helpdesk.Contact{Email: "Ada@acme.example"}
		for _, tt := range []struct {
			sessions []session
			claims   bool
			want     []string
			askers   []helpdesk.Contact
		}{
			{[]session{{ID: "claimed", Contact: ada}}, true, []string{"claimed"}, nil},
			{[]session{{ID: "claimed", Contact: ada}, {ID: "reported", Contact: ada}}, true, []string{"reported"}, nil},
			{[]session{{ID: "signed", Contact: ada}, {ID: "reported", Contact: ada}}, false, []string{"signed"}, nil},
			{[]session{{ID: "hers", Contact: ada}, {ID: "reported", Contact: ada}}, false, []string{"reported"}, nil},
			{[]session{{ID: "hers", Contact: helpdesk.Contact{UserID: "hers"}}}, false, []string{"hers"}, nil},
			{[]session{{ID: "reported", Contact: ada}}, false, []string{"reported"},
				[]helpdesk.Contact{{Email: "ADA@acme.example"}}},
			{[]session{{ID: "reported", Contact: ada}}, false, []string{"reported"}, []helpdesk.Contact{{UserID: "reported"}}},
			{[]session{{ID: "reported", Contact: ada}}, false, nil, []helpdesk.Contact{ada, {Email: "eve@acme.example"}}},
			{[]session{{ID: "reported", Contact: ada}}, false, nil, []helpdesk.Contact{{}}},
			{[]session{{ID: "reported", Contact: ada}}, false, nil, []helpdesk.Contact{{UserID: "eve"}}},
			{[]session{{ID: "bob"}}, false, nil, []helpdesk.Contact{{UserID: "eve"}}},
			{[]session{{ID: "mail"}}, false, nil, []helpdesk.Contact{{Email: "eve@acme.example"}}},
			{[]session{{ID: "mail"}, {ID: "bob"}}, false, []string{"mail", "bob"}, nil},
			{[]session{{ID: "mixed"}}, false, nil, nil},
			{[]session{{ID: "reported", Contact: ada}, {ID: "hers"}}, false, []string{"hers"},
				[]helpdesk.Contact{{Email: "eve@acme.example"}}},
		} {
			good, err := f.store.vouched(t.Context(), "acme", Link{"zendesk", "7"}, tt.sessions, tt.askers, tt.claims)
			require.NoError(t, err)
			var ids []string
			for _, s := range good {
				ids = append(ids, s.ID)
			}
			assert.Equal(t, tt.want, ids, "%+v", tt)
		}
		require.Equal(t, linked, f.contactOf(t, "8", "ada"))
		f.records(t, activity.Event{ID: "eve", Time: time.Now(), SessionID: "signed", UserID: "eve", Identified: true,
			Standing: activity.Signed})
		good, err := f.store.vouched(t.Context(), "acme", Link{"zendesk", "8"}, []session{{ID: "signed"}}, nil, false)
		require.NoError(t, err)
		assert.Empty(t, good, "the link's user has left the session")
		good, err = f.store.vouched(t.Context(), "acme", Link{"zendesk", "8"}, []session{{ID: "signed"}},
			[]helpdesk.Contact{{UserID: "eve"}}, true)
		require.NoError(t, err)
		assert.Empty(t, good, "and is not the one who asks")
		r := musttest.New(f.store.read(t.Context(), "acme", Link{"zendesk", "8"}))
		assert.Equal(t, helpdesk.Contact{Email: "ada@acme.example"}, r.Sessions[0].Contact)
	})
}

func TestReply_isComposedOfItsOwnUsersActions(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("anon1", "alice", 0), did("alice", "a", 0))
		f.contactOf(t, "7", "alice")
		time.Sleep(time.Second)
		f.records(t, signsIn("anon2", "bob", 0), did("bob", "b", 0))
		f.contactOf(t, "8", "bob")
		for id, want := range map[string][]string{"7": {"User visited a"}, "8": {"User visited b"}, "9": nil} {
			actions := musttest.New(f.store.actions(t.Context(), "acme", Link{"zendesk", id}, []session{{ID: "s"}}))
			assert.Equal(t, want, actions, id)
		}
	})
}
