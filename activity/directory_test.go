package activity_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
)

func TestSession_learnsTheNewestIdentity(t *testing.T) {
	base := time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)
	event := func(second int, user, email string) activity.Event {
		return activity.Event{Time: base.Add(time.Duration(second) * time.Second), UserID: user, Email: email}
	}
	known := func(second int, user, email string) activity.Event {
		e := event(second, user, email)
		e.Identified = true
		return e
	}
	cases := []struct {
		name        string
		events      []activity.Event
		user, email string
	}{
		{"nothing", nil, "", ""},
		{"nothing from an event without identity", []activity.Event{event(1, "", "")}, "", ""},
		{"both", []activity.Event{event(1, "ada", "ada@x.example")}, "ada", "ada@x.example"},
		{"newer wins", []activity.Event{event(1, "anon", "a@x.example"), event(2, "ada", "b@x.example")}, "ada", "b@x.example"},
		{"late older one changes nothing", []activity.Event{event(2, "ada", "b@x.example"), event(1, "anon", "a@x.example")}, "ada", "b@x.example"},
		{"of one instant the last wins", []activity.Event{event(1, "anon", "a@x.example"), event(1, "ada", "b@x.example")}, "ada", "b@x.example"},
		{"event without identity changes nothing", []activity.Event{event(1, "ada", "a@x.example"), event(2, "", "")}, "ada", "a@x.example"},
		{"id and e-mail are learnt apart", []activity.Event{event(1, "ada", ""), event(2, "", "a@x.example")}, "ada", "a@x.example"},
		{"a visitor's e-mail stays when it identifies", []activity.Event{event(1, "anon", "a@x.example"), known(3, "ada", "")}, "ada", "a@x.example"},
		{"a visitor's e-mail that comes late", []activity.Event{known(3, "ada", ""), event(2, "anon", "a@x.example")}, "ada", "a@x.example"},
		{"a visitor's events after identify", []activity.Event{known(1, "ada", "a@x.example"), event(3, "anon", "")}, "anon", "a@x.example"},
		{"another user's e-mail goes with that user", []activity.Event{known(1, "bob", "b@x.example"), known(3, "ada", "")}, "ada", ""},
		{"another user's e-mail that comes late", []activity.Event{known(3, "ada", ""), known(2, "bob", "b@x.example")}, "ada", ""},
		{"and comes back with the user", []activity.Event{known(1, "bob", "b@x.example"), known(3, "ada", ""), known(4, "bob", "")}, "bob", "b@x.example"},
		{"e-mail older than the newest e-mail", []activity.Event{event(3, "", "b@x.example"), event(2, "ada", "a@x.example")}, "ada", "b@x.example"},
		{"event without identity is not remembered as newer", []activity.Event{event(9, "", ""), event(1, "ada", "a@x.example")}, "ada", "a@x.example"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var s activity.Session
			for _, e := range c.events {
				s.Learn(e)
			}
			assert.Equal(t, c.user, s.UserID)
			assert.Equal(t, c.email, s.Email)
		})
	}
}

func TestDirectory_remembersWhatWasChanged(t *testing.T) {
	d := activity.NewDirectory(0, 0)
	_, ok := d.Get("acme", "s")
	assert.False(t, ok, "a session nobody told of")

	got := d.Update("acme", "s", func(s *activity.Session) {
		assert.Zero(t, *s, "a session starts out empty")
		s.UserID, s.Actions, s.ConversationID = "ada", 3, "c"
	})
	assert.Equal(t, "ada", got.UserID)
	got = d.Update("acme", "s", func(s *activity.Session) { s.Actions += 2 })
	assert.Equal(t, 5, got.Actions)

	kept, ok := d.Get("acme", "s")
	assert.True(t, ok)
	assert.Equal(t, got, kept)
	assert.Equal(t, "c", kept.ConversationID)
}

func TestDirectory_keepsSessionsApart(t *testing.T) {
	d := activity.NewDirectory(0, 0)
	names := [][2]string{{"acme", "s"}, {"other", "s"}, {"acme", "S"}, {"", "acme"}, {"acm", "es"}, {"acme:", "s"}, {"acme", ":s"}}
	for i, n := range names {
		d.Update(n[0], n[1], func(s *activity.Session) { s.Actions = i + 1 })
	}
	for i, n := range names {
		s, ok := d.Get(n[0], n[1])
		assert.True(t, ok)
		assert.Equal(t, i+1, s.Actions, n)
	}
}

func TestDirectory_forgetsTheLeastRecentlySeen(t *testing.T) {
	touch := func(d *activity.Directory, session string) {
		d.Update("acme", session, func(s *activity.Session) { s.Actions++ })
	}
	cases := []struct {
		name string
		see  func(d *activity.Directory)
		gone string
	}{
		{"first come", func(*activity.Directory) {}, "s1"},
		{"updated again", func(d *activity.Directory) { touch(d, "s1") }, "s2"},
		{"read again", func(d *activity.Directory) { d.Get("acme", "s1") }, "s2"},
		{"read of nothing", func(d *activity.Directory) { d.Get("acme", "none") }, "s1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := activity.NewDirectory(3, time.Hour)
			for _, s := range []string{"s1", "s2", "s3"} {
				touch(d, s)
			}
			c.see(d)
			touch(d, "s4")
			for _, s := range []string{"s1", "s2", "s3", "s4"} {
				_, ok := d.Get("acme", s)
				assert.Equal(t, s != c.gone, ok, s)
			}
		})
	}
}

func TestDirectory_keepsSessionsForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := activity.NewDirectory(0, time.Hour)
		learn := func(s *activity.Session) { s.UserID = "ada"; s.Actions++ }
		known := func(session string) bool {
			_, ok := d.Get("acme", session)
			return ok
		}
		d.Update("acme", "old", learn)
		d.Update("acme", "fresh", learn)
		time.Sleep(time.Hour)
		assert.True(t, known("old"))
		d.Update("acme", "fresh", learn)
		d.Expire()
		assert.True(t, known("old"), "an hour is not longer than an hour")

		time.Sleep(time.Second)
		assert.False(t, known("old"), "reading is not updating")
		assert.True(t, known("fresh"), "updating is")
		d.Expire()
		assert.True(t, known("fresh"))

		got := d.Update("acme", "old", func(s *activity.Session) { s.Actions++ })
		assert.Equal(t, 1, got.Actions, "an expired session starts out empty again")
		assert.Empty(t, got.UserID)
	})
}

func TestDirectory_defaults(t *testing.T) {
	for name, d := range map[string]*activity.Directory{"zero": activity.NewDirectory(0, 0), "negative": activity.NewDirectory(-1, -1)} {
		t.Run(name, func(t *testing.T) {
			for i := range 1000 {
				d.Update("acme", fmt.Sprint(i), func(*activity.Session) {})
			}
			_, ok := d.Get("acme", "0")
			assert.True(t, ok)
		})
	}
}

func TestDirectory_expireFreesWhatItHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1<<10)
		d := activity.NewDirectory(0, 0)
		grown := heapAfter(func() {
			for i := range 5000 {
				d.Update("acme", fmt.Sprint(long, i), func(*activity.Session) {})
			}
			time.Sleep(activity.DefaultTTL + time.Second)
			d.Expire()
		})
		assert.Less(t, grown, int64(2<<20), "5000 sessions with a kilobyte each")
		runtime.KeepAlive(d)
	})
}

func TestDirectory_changesAreAtomic(t *testing.T) {
	d := activity.NewDirectory(0, 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				d.Update("acme", "s", func(s *activity.Session) { s.Actions++ })
				d.Get("acme", "s")
			}
		})
		wg.Go(d.Expire)
	}
	wg.Wait()
	s, _ := d.Get("acme", "s")
	assert.Equal(t, 800, s.Actions)
}

// A user who comes back is known by the e-mail address told before, in another
// session or outside any; somebody else's session never gets it.
func TestDirectory_knowsUsersAcrossSessions(t *testing.T) {
	d := activity.NewDirectory(0, 0)
	at := time.Now()
	told := activity.Event{Time: at, UserID: "ada", Email: "ada@x.example"}
	assert.Equal(t, "ada@x.example", d.Learn("acme", "", []activity.Event{told}).Email)

	is := func(user string) []activity.Event {
		return []activity.Event{{Time: at.Add(time.Second), UserID: user}}
	}
	assert.Equal(t, "ada@x.example", d.Learn("acme", "s1", is("ada")).Email)
	assert.Empty(t, d.Learn("acme", "s2", is("bob")).Email)
	assert.Empty(t, d.Learn("other", "s1", is("ada")).Email)
	_, ok := d.Get("acme", "")
	assert.False(t, ok, "no session is no session")

	older := activity.Event{Time: at.Add(-time.Second), UserID: "ada", Email: "old@x.example"}
	d.Learn("acme", "s3", []activity.Event{older})
	assert.Equal(t, "ada@x.example", d.Learn("acme", "s4", is("ada")).Email)
}
