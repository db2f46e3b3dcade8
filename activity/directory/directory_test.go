package directory_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func TestSession_learnsTheNewestIdentity(t *testing.T) {
	event := func(second int, user, email string) activity.Event { return seen(second, "", user, email) }
	known := identified
	for _, c := range []struct {
		name        string
		events      []activity.Event
		user, email string
	}{
		{"nothing from an event without identity", events{event(1, "", "")}, "", ""},
		{"newer wins", events{event(1, "anon", "a@x"), event(2, "ada", "b@x")}, "ada", "b@x"},
		{"late older one changes nothing", events{event(2, "ada", "b@x"), event(1, "anon", "a@x")}, "ada", "b@x"},
		{"of one instant the last wins", events{event(1, "anon", "a@x"), event(1, "ada", "b@x")}, "ada", "b@x"},
		{"event without identity changes nothing", events{event(1, "ada", "a@x"), event(2, "", "")}, "ada", "a@x"},
		{"id and email are learnt apart", events{event(1, "ada", ""), event(2, "", "a@x")}, "ada", "a@x"},
		{"a visitor's email stays when it identifies", events{event(1, "anon", "a@x"), known(3, "ada", "")}, "ada", "a@x"},
		{"a visitor's email that comes late", events{known(3, "ada", ""), event(2, "anon", "a@x")}, "ada", "a@x"},
		{"a visitor's events after identify", events{known(1, "ada", "a@x"), event(3, "anon", "")}, "anon", "a@x"},
		{"a visitor after two users", events{known(1, "ada", "a@x"), known(2, "bob", ""), event(3, "anon", "")}, "anon", ""},
		{"another user's email goes with that user", events{known(1, "bob", "b@x"), known(3, "ada", "")}, "ada", ""},
		{"another user's email that comes late", events{known(3, "ada", ""), known(2, "bob", "b@x")}, "ada", ""},
		{"and comes back with the user", events{known(1, "bob", "b@x"), known(3, "ada", ""),
			known(4, "bob", "")}, "bob", "b@x"},
		{"email older than the newest email", events{event(3, "", "b@x"), event(2, "ada", "a@x")}, "ada", "b@x"},
		{"event without identity is not remembered as newer", events{event(9, "", ""), event(1, "ada", "a@x")}, "ada", "a@x"},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, [2]string{c.user, c.email}, who(told(c.events...))) })
	}
}

// The link of an anonymous visitor passes to the user whose event names that visitor, and to no other user.
func TestSession_keepsItsLinkWhenTheVisitorSignsIn(t *testing.T) {
	for anonymous, want := range map[string]string{"anon": "ada", "other": "anon", "": "anon"} {
		s := told(seen(0, "s", "anon", ""))
		s.Link("zendesk", "7", "", "anon")
		s.Learn(naming(anonymous, identified(1, "ada", "")))
		user, until, ok := s.LinkedUser("zendesk", "7")
		assert.True(t, ok, anonymous)
		assert.Equal(t, want, user, anonymous)
		assert.Equal(t, want == "ada", until.IsZero(), "the link goes on: %q", anonymous)
	}
}

// A session lists its last conversations, because an erasure has to find them.
func TestSession_remembersItsLastConversations(t *testing.T) {
	var s directory.Session
	for i, user := range []string{"ada", "bob", "ada"} {
		s.Learn(identified(i, user, ""))
		s.Link("zendesk", fmt.Sprint(i), "", "")
	}
	s.GiveWay(seenBase)
	s.Link("intercom", "7", "", "")
	assert.Equal(t, []directory.Conversation{{"intercom", "7", "ada"}, {"zendesk", "1", "bob"}, {"zendesk", "2", "ada"},
		{"zendesk", "0", "ada"}}, s.Conversations())
	_, _, ok := s.LinkedUser("zendesk", "2")
	assert.False(t, ok, "it has given way")
	assert.True(t, s.Unlink("zendesk", "0"))
	assert.False(t, s.Unlink("zendesk", "0"))
	for i := range 9 {
		s.GiveWay(seenBase)
		s.Link("intercom", fmt.Sprint(i), "", "")
	}
	assert.Len(t, s.Conversations(), 6)
}

// Without an identified user, two user IDs with two addresses are two persons. No action of one is
// written into the other's conversation, however the session was linked.
func TestSession_tellsPersonsApartByTheirAddresses(t *testing.T) {
	ivy, bob := seen(1, "s", "ivy", "ivy@x.example"), seen(2, "s", "bob", "bob@x.example")
	known := func(e activity.Event) activity.Event { e.Identified = true; return e }
	at := func(second int, e activity.Event) activity.Event { e.Time = seen(second, "", "", "").Time; return e }
	names := func(anonymous string, e activity.Event) activity.Event { return known(naming(anonymous, e)) }
	signs := func(e activity.Event) activity.Event { e.Standing = verified; return e }
	reports := func(e activity.Event) activity.Event { e.Standing, e.EmailStanding = reported, reported; return e }
	for _, c := range []struct {
		name      string
		before    activity.Event
		after     []activity.Event
		belonging []string // conversations of the events after the link, as of their arrival
	}{
		{"neither is identified", ivy, events{bob, at(3, ivy)}, []string{"", ""}},
		{"and the first has no address anew", ivy, events{bob, seen(3, "s", "ivy", ""), bob}, []string{"", "", ""}},
		{"the first is", known(ivy), events{bob, at(3, seen(3, "s", "bob", ""))}, []string{"", ""}},
		{"an earlier event comes late", ivy, events{at(0, bob), at(3, ivy)}, []string{"", "7"}},
		{"the second only claims to be one", reports(ivy), events{bob, reports(at(3, ivy))}, []string{"", "7"}},
		{"an identified one only claims to be", reports(ivy),
			events{known(seen(2, "s", "bob", "")), reports(at(3, ivy))}, []string{"", "7"}},
		{"the visitor signs in by a claim", reports(ivy), events{names("ivy", seen(2, "s", "bob", ""))}, []string{""}},
		{"the same address in capitals", ivy, events{seen(2, "s", "bob", "IVY@x.example")}, []string{"7"}},
		{"an address where none was known", seen(1, "s", "ivy", ""), events{bob}, []string{"7"}},
		{"a visitor in between", known(ivy), events{seen(2, "s", "anon", ""), at(3, bob), at(2, ivy)},
			[]string{"7", "", "7"}},
		{"the same user with a new address", ivy, events{seen(2, "s", "ivy", "new@x.example")}, []string{"7"}},
		{"another ID without an address", ivy, events{seen(2, "s", "anon", "")}, []string{"7"}},
		{"an identified user without an address", ivy, events{known(seen(2, "s", "bob", "")), at(3, ivy)}, []string{"", ""}},
		{"a signed one", ivy, events{signs(seen(2, "s", "bob", ""))}, []string{""}},
		{"a visitor who signs in", ivy, events{names("ivy", seen(2, "s", "bob", "ivy@x.example"))}, []string{"7"}},
	} {
		for _, way := range []struct{ email, user string }{{"Ivy@x.example", ""}, {"", "ivy"}, {"", ""}} {
			t.Run(fmt.Sprintf("%s, linked by %q", c.name, way.email+way.user), func(t *testing.T) {
				d := having(t, c.before)
				d.update(t, "s", func(s *directory.Session) { s.Link("zendesk", "7", way.email, way.user) })
				for i, e := range c.after {
					b := d.open(t, e)
					learnt := events{e}
					s := learn(t, b, learnt...)
					require.NoError(t, d.close(t, b))
					assert.Equal(t, c.belonging[i], s.ConversationOf(&learnt[0]), "event %d", i+1)
				}
			})
		}
	}
}

// A user who is identified on the visitor's device is the visitor, for any form of the user's ID.
func TestSession_keepsItsLinkAtTheVisitorsDevice(t *testing.T) {
	ivy, bob := seen(1, "s", "ivy", "ivy@x.example"), identified(2, "bob", "")
	for visitor, want := range map[string]string{"ivy": "7", "other": "", "": ""} {
		d := having(t, ivy)
		d.update(t, "s", func(s *directory.Session) { s.Link("zendesk", "7", "ivy@x.example", "") })
		bob.Visitor = visitor
		for _, e := range []activity.Event{bob, ivy} {
			assert.Equal(t, want, d.learn(t, e).ConversationID, visitor)
		}
	}
}

// One person stays one in every order of events that state the ID and the address and mark the ID as a user's or a
// visitor's, also against the order of their times. No event is kept out of the conversation.
func TestSession_isOfOnePersonHoweverNamed(t *testing.T) {
	var tell func(told []activity.Event)
	tell = func(told []activity.Event) {
		d := having(t, told...)
		if s, _ := d.session(t, "s"); s.Email != "" {
			d.update(t, "s", func(s *directory.Session) {
				s.Link("zendesk", "7", "Ivy@x.example", "")
				assert.Empty(t, s.OtherUsers(), "%v", told)
			})
			for _, e := range told {
				s := d.learn(t, e)
				assert.Equal(t, "7", s.ConversationOf(&e), "%v", told)
			}
		}
		if len(told) == 3 {
			return
		}
		for _, second := range []int{len(told), -len(told)} {
			for _, email := range []string{"", "ivy@x.example"} {
				e := seen(second, "s", "ivy", email)
				tell(append(told[:len(told):len(told)], e))
				e.Identified = true
				tell(append(told[:len(told):len(told)], e))
				e.Identified, e.Anonymous = false, "anon"
				tell(append(told[:len(told):len(told)], e))
			}
		}
	}
	tell(nil)
}

// The address of a claimed user does not pass to a signed user, unless the claimed ID is a device's.
func TestSession_keepsAnAddressFromTheNextUser(t *testing.T) {
	next := standing(verified, claimed, seen(2, "s", "bob", ""))
	const old = "17e5c2b1d6a5f3-0d8c9b1b0c5d47-1f3a6253-1fa400-17e5c2b1d6b9a1"
	for user, want := range map[string]string{"ivy": "", "device": "ivy@x.example", old: "ivy@x.example",
		"0198c2f4-7a6b-7000-8000-000000000001": "ivy@x.example", "1234-5678-9012-3456-7890": "",
		"1-2-3-4-00000000000000000000000000000": ""} {
		next.Visitor = "device" // as several sources state with every event
		d := having(t, seen(1, "s", user, "ivy@x.example"))
		assert.Equal(t, want, d.learn(t, next).Email, user)
	}
}

// Nor does a user's address pass to an identified one who comes back, with events that do not repeat it.
func TestSession_keepsAnAddressFromTheUserBefore(t *testing.T) {
	d := having(t, identified(1, "bob", ""), seen(2, "s", "ivy", "ivy@x.example"))
	s := d.learn(t, seen(3, "s", "bob", ""))
	assert.Equal(t, []string{"bob", ""}, []string{s.UserID, s.Email})
}

// A person of a lower standing than the session's is none of its identified users, in a batch's further events, too.
func TestSession_takesNobodyForIdentifiedByALowerWord(t *testing.T) {
	d := newDirectory(0)
	ivy, bob := seen(1, "s", "ivy", "ivy@x.example"), seen(2, "s", "bob", "bob@x.example")
	ivy.Standing, ivy.EmailStanding = reported, reported
	s := d.learn(t, ivy, bob)
	assert.Empty(t, s.Identified())

	bob.Standing, bob.EmailStanding = reported, reported
	s = musttest.New(d.open(t, ivy).Learn(t.Context(), "s", events{ivy}, ivy, bob))
	assert.ElementsMatch(t, []string{"ivy", "bob"}, s.Identified())

	s = d.learn(t, naming("anon", seen(1, "t", "ivy", "")))
	assert.Equal(t, []string{"ivy"}, s.Identified(), "an alias says so by naming the visitor")
}

// A session linked by the address of an unidentified visitor stays linked for the first identified
// user, unless that user's events state another address.
func TestSession_isLinkedForTheUserOfTheAddress(t *testing.T) {
	identify := func(second int, email string) activity.Event {
		return naming("anon", identified(second, "bob", email))
	}
	for email, want := range map[string]string{"ivy@x.example": "7", "": "7", "bob@x.example": ""} {
		var s directory.Session // nobody's, after an erasure
		s.Link("zendesk", "7", "ivy@x.example", "")
		s.Learn(identify(1, email))
		assert.Equal(t, want, s.ConversationID, email)
	}
	for _, c := range []struct {
		name   string
		after  []activity.Event
		linked bool // whether the link stays
	}{
		{"the address", events{identify(2, "ivy@x.example")}, true},
		{"no address", events{identify(2, "")}, true},
		{"another one", events{identify(2, "bob@x.example")}, false},
		{"another one later", events{identify(2, ""), identify(3, "bob@x.example")}, false},
		{"the address, then a new one", events{identify(2, "ivy@x.example"), identify(3, "new@x.example")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, visitor := range []string{"", "anon"} {
				d := having(t, seen(1, "s", visitor, "ivy@x.example"))
				d.update(t, "s", func(s *directory.Session) { s.Link("zendesk", "7", "ivy@x.example", "") })
				for _, e := range c.after {
					d.learn(t, e)
				}
				s, _ := d.session(t, "s")
				assert.Equal(t, c.linked, s.ConversationID == "7", visitor)
				before, bob := seen(1, "s", visitor, ""), c.after[0]
				assert.Equal(t, "7", s.ConversationOf(&before), "what happened before: %q", visitor)
				assert.Equal(t, c.linked, s.ConversationOf(&bob) == "7", "what the user did: %q", visitor)
				assert.Equal(t, []string{"bob"}, s.Identified(), "the visitor is not another person: %q", visitor)

				d.forget(t, directory.Person{Emails: []string{"ivy@x.example"}, Address: "ivy@x.example", SessionIDs: []string{"s"},
					Others: map[string][]string{"s": {"bob"}}})
				s, _ = d.session(t, "s")
				assert.Equal(t, c.linked, len(s.Conversations()) > 0, "after the visitor was erased: %q", visitor)
				for _, said := range s.Stated() {
					assert.NotEqual(t, "ivy@x.example", said.Email)
				}
			}
		})
	}
}

func TestSession_remembersTheNewestStatements(t *testing.T) {
	var s directory.Session
	want := make([]directory.Statement, 20)
	for n := range want {
		want[n] = directory.Statement{UserID: "ada", Email: fmt.Sprint(n, "@x.example")}
		e := seen(n, "s", want[n].UserID, want[n].Email)
		s.Learn(e)
		s.Learn(e)
	}
	assert.Equal(t, want[12:], s.Stated())
	s.Learn(standing(reported, reported, seen(30, "s", "bob", "bob@x.example")))
	for n := range 20 {
		s.Learn(standing(claimed, claimed, seen(40+n, "s", "eve", fmt.Sprint(n, "@evil.example"))))
	}
	assert.Contains(t, s.Stated(), directory.Statement{UserID: "bob", Email: "bob@x.example"}, "claims crowd it out")
}

// fixture is a directory under test, with its documents.
type fixture struct {
	*directory.Directory
	docs *meddling
}

func newDirectory(ttl time.Duration) fixture {
	docs := &meddling{Store: musttest.New(document.NewMemory(nil))}
	return fixture{musttest.New(directory.New(docs, ttl)), docs}
}

// having returns a directory that has learned from the events, one after the other.
func having(t testing.TB, events ...activity.Event) fixture {
	t.Helper()
	d := newDirectory(0)
	for _, e := range events {
		d.learn(t, e)
	}
	return d
}

// meddling is a store that fails, or lets something happen before a write.
type meddling struct {
	document.Store
	failGet, failWrite error
	failName           string // the document that cannot be read; "" for all
	beforeWrite        func()
}

func (m *meddling) Get(ctx context.Context, productID string, names ...string) ([]document.Document, error) {
	if m.failGet != nil && (m.failName == "" || slices.Contains(names, m.failName)) {
		return nil, m.failGet
	}
	return m.Store.Get(ctx, productID, names...)
}

func (m *meddling) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	if m.failWrite != nil {
		return 0, m.failWrite
	}
	if meddle := m.beforeWrite; meddle != nil {
		meddle()
	}
	return m.Store.Write(ctx, productID, changes...)
}

func (d fixture) update(t testing.TB, sessionID string, change func(*directory.Session)) directory.Session {
	return musttest.New(d.Update(t.Context(), "acme", sessionID, change))
}

func (d fixture) session(t testing.TB, sessionID string) (directory.Session, bool) {
	t.Helper()
	s, ok, err := d.Session(t.Context(), "acme", sessionID)
	require.NoError(t, err)
	return s, ok
}

func (d fixture) known(t testing.TB, sessionID string) bool {
	t.Helper()
	_, ok := d.session(t, sessionID)
	return ok
}

// sessionOf returns the session of an email address, empty for none.
func (d fixture) sessionOf(t testing.TB, email string) string {
	return musttest.New(d.SessionOf(t.Context(), musttest.New(recent.NewMemory(nil)), "acme", email))
}

func (d fixture) open(t testing.TB, events ...activity.Event) *directory.Book {
	return musttest.New(d.Open(t.Context(), "acme", events))
}

// close writes a book's changes.
func (d fixture) close(t testing.TB, b *directory.Book) error {
	_, err := d.docs.Write(t.Context(), "acme", b.Changes()...)
	return err
}

func (d fixture) forget(t testing.TB, who directory.Person) {
	changes := musttest.New(d.Forget(t.Context(), "acme", who))
	musttest.New(d.docs.Write(t.Context(), "acme", changes...))
}

// learn lets the directory learn from events of one session.
func (d fixture) learn(t testing.TB, events ...activity.Event) directory.Session {
	t.Helper()
	b := d.open(t, events...)
	s := learn(t, b, events...)
	require.NoError(t, d.close(t, b))
	return s
}

// settle lets the directory learn from an event of the present at the time that it settles.
func (d fixture) settle(t testing.TB, e activity.Event) (directory.Session, *directory.Book) {
	t.Helper()
	e.Time = time.Now()
	b := d.open(t, e)
	settled, _ := b.Settle(e.SessionID, events{e})
	s := learn(t, b, settled...)
	require.NoError(t, d.close(t, b))
	return s, b
}

// learn lets a book learn from events of one session.
func learn(t testing.TB, b *directory.Book, events ...activity.Event) directory.Session {
	return musttest.New(b.Learn(t.Context(), events[0].SessionID, events))
}

type events = []activity.Event

// seen returns an event at that second.
func seen(second int, session, user, email string) activity.Event {
	return activity.Event{Time: seenBase.Add(time.Duration(second) * time.Second), SessionID: session,
		UserID: user, Email: email}
}

var seenBase = time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)

func TestDirectory_keepsSessionsForTheirTime(t *testing.T) {
	for given, ttl := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: activity.DefaultTTL} {
		synctest.Test(t, func(t *testing.T) {
			d := newDirectory(given)
			learn := func(s *directory.Session) { s.UserID = "ada"; s.Actions++ }
			d.update(t, "old", learn)
			d.update(t, "fresh", learn)
			time.Sleep(ttl - 1)
			assert.True(t, d.known(t, "old"))
			d.update(t, "fresh", learn)

			time.Sleep(time.Nanosecond)
			assert.False(t, d.known(t, "old"), "reading is not updating")
			assert.True(t, d.known(t, "fresh"), "updating is")

			got := d.update(t, "old", func(s *directory.Session) { s.Actions++ })
			assert.Equal(t, 1, got.Actions, "an expired session starts out empty again")
			assert.Empty(t, got.UserID)
		})
	}
}

func TestDirectory_changesFurtherDocumentsTogetherWithASession(t *testing.T) {
	d := newDirectory(0)
	conflicts := 2
	d.docs.beforeWrite = func() {
		if conflicts--; conflicts < 0 {
			return
		}
		docs := musttest.New(d.docs.Store.Get(t.Context(), "acme", "other"))
		musttest.New(d.docs.Store.Write(t.Context(), "acme", document.Put(docs[0], append(docs[0].Value, 'x'), 0)))
	}
	err := d.Amend(t.Context(), "acme", "s", []string{"other"}, func(a *directory.Amendment) error {
		a.Session.Actions++
		a.Changes = []document.Change{document.Put(a.Docs[0], append(a.Docs[0].Value, '!'), 0)}
		return nil
	})
	require.NoError(t, err)
	docs := musttest.New(d.docs.Get(t.Context(), "acme", "other"))
	assert.Equal(t, "xx!", string(docs[0].Value))

	refused := errors.New("refused")
	err = d.Amend(t.Context(), "acme", "s", nil, func(a *directory.Amendment) error {
		assert.True(t, a.Known)
		a.Session.Actions++
		a.Changes = []document.Change{document.Delete(docs[0])}
		return refused
	})
	require.ErrorIs(t, err, refused)
	s, _ := d.session(t, "s")
	assert.Equal(t, 1, s.Actions)
}

func TestDirectory_updateEndsWithItsContext(t *testing.T) {
	d := newDirectory(0)
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	d.docs.beforeWrite = func() {
		if tries++; tries == 3 {
			cancel()
		}
		another := musttest.New(directory.New(d.docs.Store, 0))
		musttest.New(another.Update(t.Context(), "acme", "s", func(s *directory.Session) { s.Actions++ }))
	}
	_, err := d.Update(ctx, "acme", "s", func(*directory.Session) {})
	var conflict *document.ConflictError
	require.ErrorAs(t, err, &conflict)
	assert.Equal(t, 3, tries)
}

// A returning user is known by the email address of an earlier event, in another session or outside
// any. Another user's session never gets that address.
func TestDirectory_knowsUsersAcrossSessions(t *testing.T) {
	d := newDirectory(0)
	assert.Equal(t, "ada@x.example", d.learn(t, seen(0, "", "ada", "ada@x.example")).Email)

	assert.Equal(t, "ada@x.example", d.learn(t, seen(1, "s1", "ada", "")).Email)
	assert.Empty(t, d.learn(t, seen(1, "s2", "bob", "")).Email)
	b := musttest.New(d.Open(t.Context(), "other", events{seen(1, "s1", "ada", "")}))
	assert.Empty(t, learn(t, b, seen(1, "s1", "ada", "")).Email)
	assert.False(t, d.known(t, ""), "no session is no session")

	d.learn(t, seen(-1, "s3", "ada", "old@x.example"))
	assert.Equal(t, "ada@x.example", d.learn(t, seen(1, "s4", "ada", "")).Email)
	s, _ := d.session(t, "s4")
	assert.Equal(t, "ada@x.example", s.Email, "also for who only reads")
	assert.Equal(t, "ada@x.example", d.update(t, "s5", func(s *directory.Session) { s.UserID = "ada" }).Email)

	d.learn(t, seen(2, "s6", "ada", "new@x.example"))
	s, _ = d.session(t, "s4")
	assert.Equal(t, "new@x.example", s.Email)
	s, _ = d.session(t, "s3")
	assert.Equal(t, "old@x.example", s.Email, "a session keeps its own address")
}

func TestDirectory_knowsNoSessionWithoutAnID(t *testing.T) {
	d := newDirectory(0)
	got := d.update(t, "", func(s *directory.Session) {
		assert.Zero(t, *s)
		s.Actions++
	})
	assert.Equal(t, 1, got.Actions)
	assert.False(t, d.known(t, ""))
	b := d.open(t, seen(1, "", "ada", "ada@x.example"))
	learn(t, b, seen(1, "", "ada", "ada@x.example"))
	b.Count("", 3)
	require.NoError(t, d.close(t, b))
	assert.False(t, d.known(t, ""))
	assert.Empty(t, d.sessionOf(t, "ada@x.example"))
}

// The last session that states an address has it. One stated outside sessions leads to its user's newest session.
func TestDirectory_findsTheSessionOfAnEmail(t *testing.T) {
	ownOf := func(standing activity.Standing) string {
		return musttest.New(newDirectory(0).Find(t.Context(), musttest.New(recent.NewMemory(nil)), "acme",
			&activity.Event{UserID: "ada", Standing: standing, Action: &activity.Action{}}))
	}
	own, ownReported := ownOf(activity.Claimed), ownOf(activity.Reported)
	in := func(second int, session string) activity.Event { return seen(second, session, "ada", "ada@x.example") }
	server := seen(5, "", "ada", "ada@x.example")
	mallory, reported := server, server
	mallory.UserID, reported.Standing, reported.EmailStanding = "mallory", activity.Reported, activity.Reported
	higher := seen(1, "s1", "ada", "")
	higher.Standing = activity.Reported
	ownReports := higher
	ownReports.SessionID = ownReported
	for name, tt := range map[string]struct {
		events []activity.Event
		want   string
	}{
		"of nobody in particular":     {events{seen(1, "s1", "", "ada@x.example")}, "s1"},
		"the last one, in any case":   {events{in(1, "s1"), seen(2, "s2", "ada", "Ada@x.example")}, "s2"},
		"the last one by their times": {events{in(2, "s2"), in(1, "s1")}, "s2"},
		"of one instant the last":     {events{in(1, "s1"), in(1, "s2")}, "s2"},
		"back again":                  {events{in(1, "s1"), in(2, "s2"), in(3, "s1")}, "s1"},
		"an event without address":    {events{in(1, "s1"), seen(2, "s2", "ada", "")}, "s1"},
		"an event without session":    {events{in(1, "s1"), in(2, "")}, "s1"},
		"another address": {
			events{in(1, "s1"), seen(2, "s1", "ada", "b@x.co"), seen(3, "s2", "ada", "b@x.co")}, "s1"},
		"another user with the address": {events{in(1, "s1"), seen(2, "s2", "bob", "ada@x.example")}, "s2"},
		"first without a session":       {events{in(2, ""), in(1, "s1")}, "s1"},
		"only without a session":        {events{in(1, "")}, ""},
		"in her own session":            {events{seen(1, own, "ada", "ada@x.example")}, own},
		"in her own, which acted last":  {events{seen(1, "s1", "ada", ""), seen(2, own, "ada", "ada@x.example")}, "s1"},
		"in her newest own":             {events{seen(1, ownReported, "ada", ""), seen(2, own, "ada", "ada@x.example")}, own},
		"in the older one": {
			events{seen(1, own, "ada", "ada@x.example"), seen(2, ownReported, "ada", "")}, ownReported},
		"before the session":          {events{server, seen(6, "s1", "ada", "")}, "s1"},
		"after the session":           {events{seen(1, "s1", "ada", ""), server}, "s1"},
		"the newest of two":           {events{seen(1, "s1", "ada", ""), seen(1, "s2", "ada", ""), server}, "s2"},
		"a session states it later":   {events{server, seen(1, "s1", "ada", ""), seen(1, "s2", "", "ada@x.example")}, "s2"},
		"a session claims it later":   {events{reported, higher, seen(7, "s2", "", "ada@x.example")}, "s1"},
		"a session claimed it before": {events{seen(4, "s2", "", "ada@x.example"), reported, higher}, "s1"},
		"her own before one that claims it": {
			events{reported, ownReports, seen(7, "s2", "", "ada@x.example")}, ownReported},
		"only a session claims it": {events{reported, seen(6, "s1", "ada", ""), seen(7, "s2", "", "ada@x.example")}, "s2"},
		"another user has it since": {
			events{server, mallory, seen(6, "s1", "ada", ""), seen(7, "s2", "mallory", "")}, "s2"},
		"a lower standing takes none":   {events{reported, mallory, higher, seen(7, "s2", "mallory", "")}, "s1"},
		"a session of a lower standing": {events{reported, seen(6, "s1", "ada", "")}, ""},
		"the highest before the newest": {events{reported, higher, seen(6, "s2", "ada", "")}, "s1"},
		"a session with another address": {
			events{seen(1, "s1", "ada", ""), server, seen(6, "s2", "ada", "old@x.example")}, "s1"},
		"a session of another user since": {events{server, seen(6, "s1", "ada", ""), seen(7, "s1", "bob", "")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, store := newDirectory(0), musttest.New(recent.NewMemory(nil))
			for i, e := range tt.events {
				d.learn(t, e)
				if e.SessionID == "" {
					continue
				}
				action := activity.Action{ID: fmt.Sprint(i), TimestampStart: activity.Seconds(time.Now())}
				require.NoError(t, store.Add(t.Context(), activity.Batch{ProductID: "acme", SessionID: e.SessionID,
					Actions: []activity.BatchAction{{Action: action, UserID: e.UserID}}}))
			}
			for email, want := range map[string]string{"ada@x.example": tt.want, "Ada@X.EXAMPLE": tt.want, "": "",
				" ada@x.example": ""} {
				assert.Equal(t, want, musttest.New(d.SessionOf(t.Context(), store, "acme", email)), "%q", email)
			}
			assert.Empty(t, musttest.New(d.SessionOf(t.Context(), store, "other", "ada@x.example")))
		})
	}
}

func TestDirectory_keepsTheUserOfAnEmailUntilTheUserIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory(time.Hour)
		d.learn(t, activity.Event{Time: time.Now(), UserID: "ada", Email: "ada@x.example"})
		exists := func() bool {
			docs := musttest.New(d.docs.Get(t.Context(), "acme", "email/ada@x.example", "owned/ada"))
			return docs[0].Exists() && docs[1].Exists()
		}
		for range 4 {
			d.settle(t, activity.Event{SessionID: "s", UserID: "ada"})
			time.Sleep(40 * time.Minute)
			assert.True(t, exists(), "the session of the user goes on")
		}
		d.learn(t, activity.Event{Time: time.Now(), SessionID: "bob", UserID: "bob", Email: "ada@x.example"})
		d.forget(t, directory.Person{UserIDs: []string{"ada"}, Emails: []string{"ada@x.example"}})
		id := musttest.New(d.SessionOf(t.Context(), nil, "acme", "ada@x.example"))
		assert.Equal(t, "bob", id, "another session has the address, too")
		d.learn(t, activity.Event{Time: time.Now(), UserID: "ada", Email: "ada@x.example"})
		d.forget(t, directory.Person{SessionIDs: []string{"bob"}, Emails: []string{"ada@x.example"}})
		assert.True(t, exists(), "another user has it")
		d.forget(t, directory.Person{UserIDs: []string{"ada"}, Emails: []string{"ada@x.example"}})
		assert.False(t, exists())
	})
}

func TestDirectory_knowsManySessionsAtOnce(t *testing.T) {
	d := having(t, seen(0, "s1", "ada", "ada@x.example"))
	d.update(t, "s1", func(s *directory.Session) { s.Desk, s.ConversationID = "zendesk", "7" })
	d.learn(t, seen(1, "s2", "bob", ""))
	got := musttest.New(d.Sessions(t.Context(), "acme", "s2", "none", "s1", "s1"))
	require.Len(t, got, 4)
	assert.Equal(t, "bob", got[0].UserID)
	assert.Zero(t, got[1])
	assert.Equal(t, [2]string{"zendesk", "7"}, [2]string{got[2].Desk, got[2].ConversationID})
	assert.Equal(t, got[2], got[3])
}

// IDs of any form stay apart: a long one goes by its digest, and another ID may look like that digest.
func TestDirectory_takesAnyID(t *testing.T) {
	long := strings.Repeat("x", 5000)
	digest := func(id string) string {
		sum := sha256.Sum256([]byte(id))
		return "sha256/" + hex.EncodeToString(sum[:])
	}
	fits := func(prefix string) string { return strings.Repeat("x", document.MaxName-len(prefix)) }
	ids := []string{
		long, long + "x", digest(long), digest(digest(long)), "sha256/", "sha256/x", "sha256", digest(long) + "0",
		"session/" + digest(long),
		fits("session/"), fits("session/") + "x", fits("user/"), fits("email/"),
		"\x00", "/", "..", "{x}", "*", "日本", " ",
	}
	d := newDirectory(0)
	for i, id := range ids {
		d.learn(t, seen(1, id, id, fmt.Sprint(i, "@x.example")))
		d.learn(t, seen(2, id, id, id))
		d.update(t, id, func(s *directory.Session) { s.Actions = i + 1 })
	}
	for i, id := range ids {
		s, ok := d.session(t, id)
		require.True(t, ok)
		assert.Equal(t, i+1, s.Actions, "%.60q", id)
		assert.Equal(t, id, s.UserID)
		assert.Equal(t, id, s.Email)
		assert.Equal(t, id, d.sessionOf(t, fmt.Sprint(i, "@X.example")))
		assert.Equal(t, id, d.sessionOf(t, id), "%.60q", id)
		assert.Equal(t, id, d.update(t, "other", func(s *directory.Session) { *s = directory.Session{UserID: id} }).Email)
	}
}

// Other versions of the program read the stored form.
func TestDirectory_keepsDocumentsOfThisForm(t *testing.T) {
	d := newDirectory(0)
	e := seen(1, "s", "ada", "Ada@x.example")
	e.Time = e.Time.In(time.FixedZone("somewhere", 3600))
	e.Identified = true
	d.learn(t, e)
	d.update(t, "s", func(s *directory.Session) { s.Desk, s.ConversationID, s.Actions = "zendesk", "c", 3 })
	d.update(t, "empty", func(*directory.Session) {})
	docs := musttest.New(d.docs.List(t.Context(), "acme", "", "", 100))
	got := map[string]string{}
	for _, doc := range docs {
		got[doc.Name] = string(doc.Value)
	}
	assert.Equal(t, map[string]string{
		"session/s": `{"user_id":"ada","desk":"zendesk","conversation_id":"c","actions":3,` +
			`"past":{"stated":[{"user_id":"ada","email":"Ada@x.example"}]},"email":"Ada@x.example",` +
			`"user_by":{"at":1790848801000000,"is_user":true},"email_by":{"at":1790848801000000,"is_user":true}}`,
		"session/empty":       `{}`,
		"user/ada":            `{"email":"Ada@x.example","silent":["s"],"at":1790848801000000}`,
		"email/ada@x.example": `{"session_id":"s","users":["ada"],"silent":["s"],"at":1790848801000000}`,
	}, got)
}

// A document that cannot be decoded counts as missing and is rewritten.
func TestDirectory_outlivesDamagedDocuments(t *testing.T) {
	for _, value := range []string{
		"", "{", "null ,", "[]", `"text"`, "42", "\x00\xff", `{"user_id":42,"session_id":42,"email":42}`,
		`{"user_id":"eve","actions":"many","session_id":"eve","email":"eve@x.example","at":"never"}`,
		`{"actions":1.5}`, `{"clock":[]}`, `{"user_id":"u"`, `{"user_id":"u","user_by":{"at":""}}`,
	} {
		t.Run(value, func(t *testing.T) {
			d := newDirectory(0)
			d.damage(t, value)
			assert.Empty(t, d.sessionOf(t, "ada@x.example"))
			s, ok := d.session(t, "s")
			assert.False(t, ok)
			assert.Zero(t, s)

			d.damage(t, value)
			assert.Equal(t, "c", d.update(t, "s", func(s *directory.Session) { s.ConversationID = "c" }).ConversationID)
			d.damage(t, value)
			s = d.learn(t, seen(1, "s", "ada", "ada@x.example"))
			assert.Equal(t, "ada@x.example", s.Email)
			kept, ok := d.session(t, "s")
			assert.True(t, ok)
			assert.Equal(t, s, kept)
			assert.Equal(t, "s", d.sessionOf(t, "ada@x.example"))
			assert.Equal(t, "ada@x.example", d.learn(t, seen(2, "s2", "ada", "")).Email)
		})
	}
}

// damage gives every document about ada the value.
func (d fixture) damage(t testing.TB, value string) {
	docs := musttest.New(d.docs.Get(t.Context(), "acme", "session/s", "user/ada", "email/ada@x.example"))
	var changes []document.Change
	for _, doc := range docs {
		changes = append(changes, document.Put(doc, []byte(value), 0))
	}
	musttest.New(d.docs.Write(t.Context(), "acme", changes...))
}

func TestDirectory_passesStorageErrorsThrough(t *testing.T) {
	errAway := errors.New("storage is away")
	d := newDirectory(0)
	d.update(t, "s", func(s *directory.Session) { s.UserID = "ada" })
	d.docs.failWrite = errAway
	_, err := d.Update(t.Context(), "acme", "new", func(s *directory.Session) { s.Actions++ })
	assert.ErrorIs(t, err, errAway)
	assert.False(t, d.known(t, "new"))

	d.docs.failGet = errAway
	_, _, session := d.Session(t.Context(), "acme", "s")
	_, sessions := d.Sessions(t.Context(), "acme", "s")
	_, ofAddress := d.SessionOf(t.Context(), nil, "acme", "ada@x.example")
	_, update := d.Update(t.Context(), "acme", "s", func(*directory.Session) { t.Error("there is nothing to change") })
	_, open := d.Open(t.Context(), "acme", events{seen(1, "s", "ada", "")})
	d.docs.failName = "user/ada"
	_, _, ofUser := d.Session(t.Context(), "acme", "s")
	for _, err := range []error{session, sessions, ofAddress, update, open, ofUser} {
		assert.ErrorIs(t, err, errAway)
	}
}

func TestConstructors_reportEveryMistake(t *testing.T) {
	_, err := directory.New(nil, -1)
	assert.Equal(t, []string{"directory.docs", "directory.ttl"}, musttest.Mistakes(t, err))
}
