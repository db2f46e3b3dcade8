package connector

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// eraseAda erases ada, whose session is s-ada, from the conversation c1 of the chat, and commits further entries.
func (s *service) eraseAda(t testing.TB, more ...eventlog.Entry) Erasure {
	t.Helper()
	return s.erases(t, Person{UserIDs: []string{"ada"}, Emails: []string{"ada@acme.example"},
		SessionIDs: []string{"s-ada"}, Links: map[string][]Link{"s-ada": {{"chat", "c1"}}}}, false, more...)
}

// conversationOf returns a conversation in which an offer was made and a reply is known, with
// these messages and links.
func conversationOf(sessions []session, messages ...message) conversation {
	return conversation{Sessions: sessions, Messages: messages, Machine: &assistance.Machine{},
		Contact: &lookUp{ContactID: "somebody", At: time.Now()}, Said: []said{{"words", time.Now()}}}
}

func TestErase_leavesNothingOfThePersonBesideStrangers(t *testing.T) {
	d := newDoors(t, (&fakeModel{}).answer)
	eve := session{ID: "s-eve"}
	d.put(t, "chat/c1", conversationOf(
		[]session{{ID: "s-ada", ByWebhook: true}, eve},
		message{ID: "1", Text: "by address", Contact: helpdesk.Contact{Email: "ADA@acme.example"}},
		message{ID: "2", Text: "by user", Contact: helpdesk.Contact{UserID: "ada"}},
		message{ID: "3", Text: "of an author that the desk does not name"},
		message{ID: "4", Text: "somebody else's", Contact: helpdesk.Contact{UserID: "bob"}}))
	d.eraseAda(t)
	c := d.stored(t, "chat/c1")
	require.Len(t, c.Messages, 1)
	assert.Equal(t, "4", c.Messages[0].ID)
	c.Messages = nil
	assert.Equal(t, conversation{Sessions: []session{eve}}, c)
}

func TestErase_leavesTheConversationToItsOtherParticipants(t *testing.T) {
	d := newDoors(t, (&fakeModel{}).answer)
	before := conversationOf(
		[]session{{ID: "s-ada", ByWebhook: true}, {ID: "s-bob", ByWebhook: true}},
		message{ID: "1", Contact: helpdesk.Contact{Email: "ada@acme.example"}},
		message{ID: "2", Contact: helpdesk.Contact{Email: "bob@acme.example"}}, message{ID: "3"})
	before.Writing = &writing{Session: "s-bob", Text: "what bob does"}
	d.put(t, "chat/c1", before)
	assert.Zero(t, d.eraseAda(t).NotesLeft)
	c := d.stored(t, "chat/c1")
	assert.Equal(t, before.Writing, c.Writing)
	assert.Equal(t, before.Sessions[1:], c.Sessions)
	assert.Equal(t, before.Messages[1:], c.Messages)
	assert.NotNil(t, c.Machine)
	assert.NotNil(t, c.Contact)
	assert.Len(t, c.Said, 1)

	before.Contact.UserID = "ada"
	d.put(t, "chat/c2", before)
	plan, err := d.Erase(t.Context(), "acme", Person{UserIDs: []string{"ada"}, Emails: []string{"ada@acme.example"},
		Address: "ada@acme.example"}, false) // found by the message
	require.NoError(t, err)
	require.Len(t, plan.Changes, 1)
	assert.NotContains(t, string(plan.Changes[0].Value), `"user_id":"ada"`)
}

// Another server erases a person between the choice of a step and its outbox.
func TestErase_isInTimeUntilTheOutbox(t *testing.T) {
	for name, tt := range map[string]struct {
		messages []string // of users
		again    bool     // the person is linked anew
		replies  int
	}{"a note": {}, "a note, and she goes on": {again: true}, "a reply": {messages: []string{"ada"}},
		"a reply to two": {messages: []string{"ada", "bob"}, replies: 1}} {
		t.Run(name, func(t *testing.T) {
			d, model := newChat(t)
			link := func(user, page string) {
				d.visitAs(t, "s-"+user, user, user+"@acme.example", time.Now(), page)
				musttest.New(d.link(t.Context(), "chat", "c1", "s-"+user, byWebhook, time.Now()))
			}
			link("ada", "secret")
			link("bob", "x")
			if tt.messages != nil {
				d.work(t, "chat/c1") // the notes
			}
			for _, user := range tt.messages {
				e := userReply(user, "c1", "Hi, it is "+user)
				e.Contact.Email = user + "@acme.example"
				d.event(t, chatPath, "chat", e)
			}
			erased := false
			d.store.log.(*watchtest.Log).Before = func(_ context.Context, op watchtest.Op) error {
				if op.Name == "write" && strings.HasPrefix(op.Documents[0], conversationPrefix) && !erased {
					erased = true
					require.NoError(t, d.store.unlink(t.Context(), "acme", Link{"chat", "c1"}, "s-ada"))
					d.eraseAda(t, eventlog.Entry{Data: musttest.New(json.Marshal(feed.Erasure{Type: feed.Erase, ProductID: "acme",
						SessionIDs: []string{"s-ada"}}))})
					if tt.again {
						link("ada", "b")
					}
				}
				return nil
			}
			d.work(t, "chat/c1")
			require.True(t, erased)
			assert.Equal(t, tt.messages == nil, !strings.Contains(strings.Join(d.chat.texts("c1"), ""), "secret"))
			assert.Len(t, d.chat.written(), tt.replies)
			if tt.replies > 0 {
				assert.NotContains(t, model.prompts[len(model.prompts)-1], "ada")
			}
		})
	}
}

func TestConversation_dropOther_reachesEverySession(t *testing.T) {
	c := conversation{Sessions: []session{{Others: []string{"ada"}}, {Others: []string{"ada", "eve"}}}}
	assert.True(t, c.dropOther(&Person{UserIDs: []string{"ada"}}))
	assert.Equal(t, []session{{Others: []string{}}, {Others: []string{"eve"}}}, c.Sessions)
}

// The directory knows a session for some hours, and the conversation for a day or more.
func TestErase_reachesConversationsThatOutliveTheirSessions(t *testing.T) {
	ada, bob := helpdesk.Contact{Email: "Ada@acme.example"}, helpdesk.Contact{Email: "bob@acme.example", UserID: "bob"}
	byUser, byEmail := Person{UserIDs: []string{"ada"}, Emails: []string{"bob@acme.example"}},
		Person{Emails: []string{"ada@acme.example"}, Address: "ada@acme.example"}
	known := helpdesk.Contact{Email: bob.Email}
	written, former := []note{{ID: "n1"}}, []formerNote{{"n0", "ada"}}
	for name, test := range map[string]struct {
		of    Person
		s     session
		notes int
		left  bool
	}{
		"of the user":     {byUser, session{UserID: "ada", Notes: written}, 1, false},
		"of the address":  {byEmail, session{UserID: "a", ByWebhook: true, Contact: ada, Notes: written}, 1, false},
		"after another's": {byUser, session{UserID: "ada", Notes: written, Former: []formerNote{{"n0", "bob"}}}, 1, true},
		"of another user at the address": {Person{UserIDs: []string{"ada"}, Address: byEmail.Address},
			session{UserID: "bob", ByWebhook: true, Contact: ada, Notes: written}, 0, true},
		"before another's":          {byUser, session{UserID: "bob", Notes: written, Former: former}, 1, true},
		"of another user":           {byUser, session{UserID: "bob", ByWebhook: true, Contact: bob, Notes: written}, 0, true},
		"of a claimed address":      {byUser, session{ByWebhook: true, Contact: known, Notes: written}, 0, true},
		"of somebody unknown":       {byEmail, session{Notes: written}, 0, true},
		"of a stranger's statement": {byEmail, session{Contact: ada, Notes: written}, 0, true},
		"used before another's": {byUser, session{UserID: "bob", Others: []string{"eve", "ada"}, Notes: written}, 0,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoors(t, nil)
			test.s.ID = "s1"
			d.put(t, "chat/c1", conversation{Sessions: []session{test.s},
				Messages: []message{{ID: "1", Contact: helpdesk.Contact{UserID: "carol"}}}})
			kept, _, err := d.Kept(t.Context(), "acme", test.of)
			require.NoError(t, err)
			plan := d.erases(t, test.of, false)
			assert.Equal(t, test.notes, plan.NotesLeft)
			assert.Len(t, kept, test.notes)
			assert.Equal(t, test.notes, plan.Conversations)
			c := d.stored(t, "chat/c1")
			assert.Equal(t, test.left, !c.isEmpty())
			assert.Empty(t, c.Redact)
			for _, s := range c.Sessions {
				assert.NotContains(t, s.Others, "ada")
				assert.Len(t, s.Others, max(0, len(test.s.Others)-1), "others stay")
			}
		})
	}
}

func TestErase_endsTheWaitOfThePersonsLinks(t *testing.T) {
	s := newLinks(t)
	for _, c := range []helpdesk.Contact{{Email: "Ada@acme.example"}, {UserID: "ada"}, {Email: "bob@acme.example"}} {
		musttest.New(s.linkContact(t.Context(), "7", c))
	}
	ada := Person{UserIDs: []string{"ada"}, Emails: []string{"ada@acme.example"}}
	_, waiting, err := s.Kept(t.Context(), "acme", ada)
	require.NoError(t, err)
	assert.Len(t, waiting, 2)
	assert.Len(t, s.erases(t, ada, false).Entries, 2)
	left := s.waiting(t)
	require.Len(t, left, 1)
	assert.Contains(t, string(left[0].Value), "bob@acme.example")
}

// An erasure that has not seen everything must not pass for one.
func TestErase_failsIfStorageDoes(t *testing.T) {
	var reads, fails int
	s := newService(t, before(musttest.New(memorylog.New(nil)), func(op watchtest.Op) error {
		if reads++; op.Name == "list" && reads == fails {
			return errAway
		}
		return nil
	}), Product{}, nil)
	for fails = range 3 {
		reads = 0
		_, err := s.Erase(t.Context(), "acme", Person{}, false)
		reads = 0
		_, _, kept := s.Kept(t.Context(), "acme", Person{})
		assert.Equal(t, []bool{fails > 0, fails > 0}, []bool{err != nil, kept != nil}, fails)
	}
	s.configure(productsFunc(func(string) (Product, bool, error) { return Product{}, false, errAway }))
	_, err := s.Erase(t.Context(), "acme", Person{}, false)
	assert.ErrorIs(t, err, errAway)
}

func TestKept_hasTheDigestsForTheNextSummaries(t *testing.T) {
	const digest = "Clicked Export CSV."
	s := session{ID: "s1", UserID: "ada"}
	s.History = s.historyWith([]activity.Action{{Type: activity.TypeClick, Title: "Click Export CSV"}}, false)
	for _, last := range []*sessionSummary{nil, {Text: "Was here."}, {Text: digest}} {
		want := []string{digest}
		if s.Summary = last; last != nil && last.Text != digest {
			want = []string{last.Text, digest}
		}
		r := record{conversation: conversation{Sessions: []session{s}}}
		assert.Equal(t, want, r.kept(Person{SessionIDs: []string{"s1"}}).Summaries)
	}
}

func TestConversation_isKeptForADayUnlessItHasOffers(t *testing.T) {
	for machine, kept := range map[string]bool{`"state":"thinking"`: false, `"state":"reactive_assistance"`: false,
		`"state":"thinking","dismissals":1`: true, `"state":"thinking","fired":{"t":{"at_us":1}}`: true} {
		synctest.Test(t, func(t *testing.T) {
			d, c := newLinks(t), conversation{Sessions: []session{{ID: "s1"}}}
			require.NoError(t, json.Unmarshal([]byte(`{"machine":{"version":1,`+machine+`}}`), &c))
			d.put(t, "chat/c1", c)
			time.Sleep(25 * time.Hour)
			assert.Equal(t, kept, len(d.stored(t, "chat/c1").Sessions) > 0, machine)
		})
	}
}

// The link is the known session's, and the conversation had another one of the person before.
func TestErase_reachesTheEarlierSessionsOfALinkedConversation(t *testing.T) {
	d := newDoors(t, nil)
	bob := session{ID: "s-bob", UserID: "bob", ByWebhook: true, Notes: []note{{ID: "n3"}}}
	d.put(t, "chat/c1", conversation{Sessions: []session{
		{ID: "s-earlier", UserID: "ada", ByWebhook: true, Notes: []note{{ID: "n1"}}},
		{ID: "s-ada", ByWebhook: true, Notes: []note{{ID: "n2"}}, Former: []formerNote{{"n0", "ada"}}}, bob,
	}})
	d.put(t, "chat/c2", conversation{Sessions: []session{bob}})
	plan := d.eraseAda(t)
	assert.Equal(t, []int{1, 3}, []int{plan.Conversations, plan.NotesLeft})
	assert.Equal(t, []session{bob}, d.stored(t, "chat/c1").Sessions)
}
