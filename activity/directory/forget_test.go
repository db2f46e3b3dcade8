package directory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// names returns the names of all of a directory's documents.
func (d fixture) names(t testing.TB) (names []string) {
	t.Helper()
	docs := musttest.New(d.docs.List(t.Context(), "acme", "", "", 100))
	for _, doc := range docs {
		names = append(names, doc.Name)
	}
	return names
}

func TestDirectory_Forget_leavesOtherPeople(t *testing.T) {
	ada := directory.Person{UserIDs: []string{"ada"}, Emails: []string{"ada@x.example"}, SessionIDs: []string{"s"}}
	visitors, address := ada, directory.Person{Emails: []string{"ada@x.example"}, Address: "ada@x.example"}
	visitors.Visitors = []string{"anon", "shared", "none"}
	var crowd events
	var others []string
	for i := range 9 {
		crowd, others = append(crowd, seen(1, "", fmt.Sprint(i), "ada@x.example")), append(others, fmt.Sprint("user/", i))
	}
	eves := events{seen(1, "", "eve", "ada@x.example"), seen(2, "", "eve", "eve@x.example")}
	bobs := events{seen(1, "b", "bob", "bob@x.example"), seen(2, "", "bob", "bob@y.example")}
	keptOfBob := []string{"email/bob@x.example", "email/bob@y.example", "owned/bob", "session/b", "user/bob"}
	for name, c := range map[string]struct {
		events events
		who    directory.Person
		want   []string // besides bob's
	}{
		"a session and its address":    {events{seen(1, "s", "ada", "Ada@x.example")}, ada, nil},
		"an address of no session":     {events{seen(1, "", "ada", "Ada@x.example")}, ada, nil},
		"nothing is known":             {nil, ada, nil},
		"a session that is not theirs": {events{seen(1, "t", "ada", "")}, ada, []string{"session/t"}},
		"another address of theirs":    {events{seen(1, "s", "ada", "ada@y.example")}, ada, []string{"email/ada@y.example"}},
		"a visitor with their address": {events{seen(1, "s", "anon", "ada@x.example")}, visitors, nil},
		"a visitor with another one": {events{seen(1, "t", "shared", "eve@x.example")}, visitors,
			[]string{"email/eve@x.example", "session/t", "user/shared"}},
		"an address that another has": {events{seen(1, "t", "eve", "ada@x.example")}, ada,
			[]string{"email/ada@x.example", "session/t", "user/eve"}},
		"an address that another owns": {eves, ada,
			[]string{"email/ada@x.example", "email/eve@x.example", "owned/eve", "user/eve"}},
		"an address, for all its users": {eves, address, []string{"email/eve@x.example", "owned/eve", "user/eve"}},
		"an address of two users in turn": {append(slices.Clone(eves), seen(3, "", "carl", "ada@x.example")), address,
			[]string{"email/eve@x.example", "owned/eve", "user/eve", "user/carl"}},
		"an address of more users than it remembers": {crowd, address, others},
		"the only address of its user": {events{seen(1, "", "eve", "ada@x.example")}, address,
			[]string{"user/eve"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := having(t, append(c.events, bobs...)...)
			d.forget(t, c.who)
			assert.ElementsMatch(t, append(c.want, keptOfBob...), d.names(t))
			docs := musttest.New(d.docs.Get(t.Context(), "acme", "owned/eve"))
			if c.who.Address != "" {
				assert.NotContains(t, string(docs[0].Value), c.who.Address)
			}
		})
	}
}

// The others of a shared session keep their part of it, whoever used it last.
func TestDirectory_Forget_leavesTheOthersOfASession(t *testing.T) {
	by := func(second int, user, email string) activity.Event {
		return standing(reported, reported, seen(second, "s", user, email))
	}
	ada := by(2, "ada", "")
	ada.Identified = false
	for name, c := range map[string]struct {
		order        events
		links        []string // of ada and of bob
		user, email  string
		identified   []string
		conversation string
	}{
		"who is there now": {events{by(1, "ada", "ada@x.example"), by(2, "bob", "bob@x.example")},
			[]string{"1", "2"}, "bob", "bob@x.example", []string{"bob"}, "2"},
		"who was there before": {events{by(1, "bob", "bob@x.example"), by(2, "ada", "ada@x.example")},
			[]string{"2", "1"}, "", "", []string{"bob"}, ""},
		"who is there now, and is a visitor": {events{by(1, "bob", "bob@x.example"), ada},
			[]string{"2", ""}, "", "bob@x.example", []string{"bob"}, ""},
		"who is there now, without an address": {events{by(1, "ada", "ada@x.example"), by(2, "bob", "")},
			[]string{"1", "2"}, "bob", "", []string{"bob"}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, emails := range [][]string{{"ada@x.example"}, nil} { // the user's address goes with the user
				d := newDirectory(0)
				for i, e := range c.order {
					d.learn(t, e)
					d.update(t, "s", func(s *directory.Session) { s.Link("zendesk", []string{"1", "2"}[i], "", "") })
				}
				d.forget(t, directory.Person{UserIDs: []string{"ada"}, Emails: emails,
					SessionIDs: []string{"s"}, Others: map[string][]string{"s": {"bob"}}})
				s, known := d.session(t, "s")
				assert.True(t, known)
				assert.Equal(t, []string{c.user, c.email, c.conversation}, []string{s.UserID, s.Email, s.ConversationID})
				assert.Equal(t, c.identified, s.Identified())
				for _, left := range s.Conversations() {
					assert.Equal(t, directory.Conversation{Desk: "zendesk", ID: c.links[1], UserID: "bob"}, left)
				}
				assert.Equal(t, c.links[1] != "", len(s.Conversations()) > 0)
				for _, said := range s.Stated() {
					assert.Equal(t, directory.Statement{UserID: "bob", Email: "bob@x.example"}, said)
				}
				assert.Equal(t, !strings.HasSuffix(name, "without an address"), len(s.Stated()) > 0)
			}
		})
	}
}

// Another user of a session is known for as long as an erasure would find the session.
func TestBook_forgetsOtherUsersAfterTheirTime(t *testing.T) {
	ada := standing(reported, reported, identified(0, "ada", "ada@x.example"))
	bob := standing(reported, reported, identified(0, "bob", "bob@x.example"))
	eve := standing(reported, 0, identified(0, "eve", ""))
	visitor := standing(reported, 0, seen(0, "s", "0198c2f4-7a6b-7000-8000-000000000001", ""))
	visitor.Identified = false
	form := visitor
	form.Email = "form@x.example"
	claim := standing(claimed, 0, seen(0, "s", "ada", ""))
	for name, c := range map[string]struct {
		order events // an event every half minute, or as many seconds late
		known []string
		email string
	}{
		"gone for less":             {events{ada, bob, bob, bob}, []string{"ada", "bob"}, "bob@x.example"},
		"a visitor with an address": {events{form, eve, eve, eve, eve}, []string{"eve"}, "form@x.example"},
		"a user without one":        {events{eve, bob, bob, bob, bob}, []string{"bob"}, "bob@x.example"},
		"the present one":           {events{bob, claim, claim, claim, claim}, []string{"bob"}, "bob@x.example"},
		"gone for longer":           {events{ada, bob, bob, bob, bob}, []string{"bob"}, "bob@x.example"},
		"others left later":         {events{ada, bob, bob, eve, eve}, []string{"bob", "eve"}, ""},
		"others come and go":        {events{ada, bob, eve, bob, eve, bob}, []string{"eve", "bob"}, "bob@x.example"},
		"back, and gone for less":   {events{ada, bob, bob, ada, bob, bob, bob}, []string{"ada", "bob"}, "bob@x.example"},
		"acts at a lower standing":  {events{ada, bob, bob, claim, bob}, []string{"ada", "bob"}, "bob@x.example"},
		"acts, and an event is late": {events{ada, bob, bob, claim,
			standing(claimed, 0, seen(-90, "s", "ada", "")), bob}, []string{"ada", "bob"}, "bob@x.example"},
		"all, and a visitor there": {events{ada, bob, visitor, visitor, visitor, visitor}, []string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(time.Minute)
			for i, e := range c.order {
				e.Time = e.Time.Add(time.Duration(i) * time.Minute / 2)
				d.learn(t, e)
			}
			s, _ := d.session(t, "s")
			assert.ElementsMatch(t, c.known, s.Identified())
			assert.Equal(t, c.email, s.Email)
			for _, said := range s.Stated() {
				assert.Contains(t, append(c.known, ""), said.UserID)
			}
		})
	}
}

// The link of a visitor without an ID goes with nobody else.
func TestBook_leavesTheLinkOfAVisitorAmongExpiredUsers(t *testing.T) {
	d := newDirectory(time.Minute)
	d.learn(t, identified(0, "ada", ""))
	d.learn(t, identified(1, "bob", ""))
	d.forget(t, directory.Person{UserIDs: []string{"bob"}, SessionIDs: []string{"s"},
		Others: map[string][]string{"s": {"ada"}}})
	d.update(t, "s", func(s *directory.Session) { s.Link("zendesk", "1", "", "") })
	for _, second := range []int{10, 90, 170} {
		d.learn(t, seen(second, "s", "", ""))
	}
	s, _ := d.session(t, "s")
	assert.Equal(t, "1", s.ConversationID)
}

// A session or address that changes during an erasure is not forgotten halfway.
func TestDirectory_Forget_conflictsWithNews(t *testing.T) {
	who := directory.Person{UserIDs: []string{"ada"}, Emails: []string{"ada@x.example"}, SessionIDs: []string{"s"},
		Others: map[string][]string{"s": {"bob"}}}
	for _, before := range []events{{seen(1, "s", "ada", "ada@x.example")}, nil} {
		for _, others := range []map[string][]string{who.Others, nil} {
			d := having(t, before...)
			who.Others = others
			changes := musttest.New(d.Forget(t.Context(), "acme", who))
			d.learn(t, seen(2, "s", "ada", ""))
			_, err := d.docs.Write(t.Context(), "acme", changes...)
			assert.True(t, document.IsConflict(err), "%v", err)
		}
	}
}

func TestDirectory_Forget_passesStorageErrorsThrough(t *testing.T) {
	d := having(t, seen(1, "", "eve", "ada@x.example"))
	d.docs.failGet = errors.New("storage is away")
	for _, name := range []string{"email/ada@x.example", "owned/eve"} {
		d.docs.failName = name
		_, err := d.Forget(t.Context(), "acme", directory.Person{Emails: []string{"ada@x.example"}, Address: "ada@x.example"})
		assert.ErrorIs(t, err, d.docs.failGet)
	}
	for name, read := range map[string]func() error{
		"owned/eve":           func() error { _, _, err := d.LeadsOf(t.Context(), "acme", "eve"); return err },
		"email/ada@x.example": func() error { _, _, err := d.LeadsOf(t.Context(), "acme", "eve"); return err },
		"email/a@x":           func() error { _, _, err := d.Leads(t.Context(), "acme", "a@x"); return err },
	} {
		d.docs.failName = name
		assert.ErrorIs(t, read(), d.docs.failGet, name)
	}
}

// An address leads to the session that stated it last, to those that had done nothing else, and to its users,
// in a session or not.
func TestDirectory_Leads_ofAnAddress(t *testing.T) {
	d := newDirectory(0)
	leads := func(sessions string, users ...string) {
		t.Helper()
		inSessions, theirs, err := d.Leads(t.Context(), "acme", "ADA@x.example")
		require.NoError(t, err)
		assert.Equal(t, strings.Fields(sessions), append([]string{}, inSessions...))
		assert.ElementsMatch(t, users, theirs)
	}
	leads("")
	d.learn(t, seen(1, "", "ada", "ada@x.example"))
	leads("", "ada")
	d.learn(t, seen(2, "s", "", "ada@x.example"))
	leads("s", "ada")
	acts := seen(3, "t", "anon", "ada@x.example")
	acts.Action = &activity.Action{}
	d.learn(t, acts)
	leads("s t", "ada", "anon")
	d.forget(t, directory.Person{UserIDs: []string{"ada"}, Emails: []string{"ada@x.example"}, SessionIDs: []string{"s"}})
	leads("t", "anon")
	for i := range 20 {
		d.learn(t, seen(4, fmt.Sprint("claim", i), fmt.Sprint("claim", i), "ada@x.example"))
	}
	d.learn(t, standing(reported, reported, seen(5, "u", "ada", "ada@x.example")))
	sessions, users, err := d.Leads(t.Context(), "acme", "ada@x.example")
	require.NoError(t, err)
	assert.Len(t, users, 8)
	assert.Contains(t, users, "ada")
	assert.Len(t, sessions, 8)
	assert.Contains(t, sessions, "u")
	d.forget(t, directory.Person{Emails: []string{"ada@x.example"}, Address: "ada@x.example", SessionIDs: []string{"u"}})
	leads("")
}
