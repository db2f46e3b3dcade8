package directory_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/document"
)

// changed returns the names of the documents that a book would change.
func changed(b *directory.Book) []string {
	names := []string{}
	for _, c := range b.Changes() {
		names = append(names, c.Name)
	}
	return names
}

func TestBook_keepsItsKnowledgeToItself(t *testing.T) {
	d := newDirectory(0)
	before := d.update(t, "s", func(s *directory.Session) { s.ConversationID, s.Actions = "c", 4 })
	e := seen(1, "s", "ada", "ada@x.example")
	b := d.open(t, e)
	assert.Empty(t, changed(b))
	learn(t, b, e)
	b.Count("s", 2)
	b.Count("s", 1)
	kept, _ := d.session(t, "s")
	assert.Equal(t, before, kept)
	assert.Empty(t, d.sessionOf(t, "ada@x.example"))
	s := learn(t, b, e)
	assert.Equal(t, 7, s.Actions, "the book knows")
	assert.Equal(t, "c", s.ConversationID)

	require.NoError(t, d.close(t, b))
	kept, _ = d.session(t, "s")
	assert.Equal(t, s, kept)
	assert.Equal(t, "s", d.sessionOf(t, "ada@x.example"))
}

// A session's clock is remembered with it: a slow request keeps its place. Another session, another
// product's session and events outside any session have clocks of their own.
func TestBook_remembersTheClockOfASession(t *testing.T) {
	d := newDirectory(0)
	began := time.Now().Truncate(time.Second)
	settle := func(product, session string, shown, arrived time.Duration) time.Duration {
		e := activity.Event{SessionID: session, Time: began.Add(shown), Sent: began.Add(shown), Received: began.Add(arrived)}
		b, err := d.Open(t.Context(), product, events{e})
		require.NoError(t, err)
		settled, _ := b.Settle(session, events{e})
		_, err = d.docs.Write(t.Context(), product, b.Changes()...)
		require.NoError(t, err)
		return settled[0].Time.Sub(began)
	}
	for _, id := range []string{"s", ""} {
		assert.Equal(t, time.Second, settle("acme", id, time.Hour, time.Second))
	}
	assert.Equal(t, 5*time.Second, settle("acme", "s", time.Hour+4*time.Second, 15*time.Second))
	for _, other := range [][2]string{{"acme", "t"}, {"other", "s"}, {"acme", ""}} {
		assert.Equal(t, 15*time.Second, settle(other[0], other[1], time.Hour+4*time.Second, 15*time.Second), other)
	}
}

// A server whose event is placed in a user's session does not share the clock of the user's browser: neither moves
// the events of the other, whichever clock is behind.
func TestBook_timesPlacedEventsByTheirServersClock(t *testing.T) {
	for _, behind := range []time.Duration{time.Hour, -time.Hour} {
		d := newDirectory(0)
		began := time.Now().Truncate(time.Second)
		for second, placed := range []bool{false, true, false, true, false} {
			at := began.Add(time.Duration(second) * time.Second)
			e := activity.Event{SessionID: "s", UserID: "ada", Time: at, Sent: at, Received: at, Placed: placed}
			if !placed {
				e.Time, e.Sent = at.Add(-behind), at.Add(-behind)
			}
			b := d.open(t, e)
			settled, _ := b.Settle("s", events{e})
			require.NoError(t, d.close(t, b))
			assert.WithinDuration(t, at, settled[0].Time, 0, second)
		}
	}
}

func TestBook_isAboutManySessions(t *testing.T) {
	d := newDirectory(0)
	first := events{seen(1, "s1", "ada", ""), seen(3, "s1", "ada", "ada@x.example")}
	second := events{seen(2, "s2", "ada", ""), seen(4, "s2", "bob", "ada@x.example")}
	third := events{seen(5, "s3", "ada", "")}
	nobody := events{seen(6, "", "", "")}
	b := d.open(t, append(append(append(first, second...), third...), nobody...)...)
	assert.Equal(t, "ada@x.example", learn(t, b, first...).Email)
	assert.Equal(t, "bob", learn(t, b, second...).UserID)
	assert.Equal(t, "ada@x.example", learn(t, b, third...).Email, "learned from another session of the book")
	assert.Zero(t, learn(t, b, nobody...).UserID)
	assert.ElementsMatch(t, []string{"session/s1", "session/s2", "session/s3", "user/ada", "user/bob",
		"email/ada@x.example"}, changed(b))
	require.NoError(t, d.close(t, b))
	assert.Equal(t, "s2", d.sessionOf(t, "ada@x.example"))
}

func TestBook_ofNothingChangesNothing(t *testing.T) {
	d := newDirectory(0)
	assert.Empty(t, changed(d.open(t)))
	d.docs.failGet = errors.New("not asked")
	b := d.open(t, seen(1, "", "", "nobody@x.example"))
	learn(t, b, seen(1, "", "", "nobody@x.example"))
	assert.Empty(t, changed(b), "an address of nobody, outside any session")
}

func TestBook_conflictsWithAnotherBookThatLearnedTheSame(t *testing.T) {
	acts := func(e activity.Event) activity.Event {
		e.Action = &activity.Action{}
		return e
	}
	for _, c := range []struct {
		name          string
		first, second activity.Event
		conflict      string // the document, empty for none
	}{
		{"one session", seen(1, "s", "ada", ""), seen(1, "s", "bob", ""), "session/s"},
		{"one user's address", seen(1, "s1", "ada", "a@x.example"), seen(1, "s2", "ada", "b@x.example"), "user/ada"},
		{"one address", seen(1, "s1", "ada", "a@x.example"), seen(1, "s2", "bob", "A@x.example"), "email/a@x.example"},
		{"one user, without an address", acts(seen(1, "s1", "ada", "")), acts(seen(1, "s2", "ada", "")), ""},
		{"nothing in common", seen(1, "s1", "ada", "a@x.example"), seen(1, "s2", "bob", "b@x.example"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDirectory(0)
			first, second := d.open(t, c.first), d.open(t, c.second)
			learn(t, first, c.first)
			learn(t, second, c.second)
			require.NoError(t, d.close(t, first))
			err := d.close(t, second)
			if c.conflict == "" {
				require.NoError(t, err)
				return
			}
			var conflict *document.ConflictError
			require.ErrorAs(t, err, &conflict)
			assert.Equal(t, c.conflict, conflict.Name)
			d.learn(t, c.second)
			s, _ := d.session(t, c.second.SessionID)
			assert.Equal(t, [2]string{c.second.UserID, c.second.Email}, who(&s))
		})
	}
}

// The newest event decides a user's and an address's facts. A late event changes nothing, however little older.
func TestBook_newestEventWinsHoweverLateOthersCome(t *testing.T) {
	const user, email = "user/ada", "email/ada@x.example"
	for name, c := range map[string]struct {
		later time.Duration  // than the newest event
		other activity.Event // where it differs
		want  []string       // the documents that change, beside the session's
	}{
		"at once":                   {0, activity.Event{}, []string{user, email}},
		"later":                     {1, activity.Event{}, []string{user, email}},
		"late":                      {-1, activity.Event{}, nil},
		"in another session":        {1, activity.Event{SessionID: "s2"}, []string{user, email}},
		"late in another session":   {-1, activity.Event{SessionID: "s2"}, []string{user, email}}, // one of their sessions
		"as another user":           {1, activity.Event{UserID: "bob"}, []string{"user/bob", email}},
		"late as another user":      {-1, activity.Event{UserID: "bob"}, []string{"user/bob", email}}, // one of its users
		"with another address":      {1, activity.Event{Email: "new@x.example"}, []string{user, "email/new@x.example"}},
		"late with another address": {-1, activity.Event{Email: "new@x.example"}, []string{"email/new@x.example"}},
		"in another spelling":       {1, activity.Event{Email: "Ada@x.example"}, []string{user, email}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(0)
			e := seen(0, cmp.Or(c.other.SessionID, "s"), cmp.Or(c.other.UserID, "ada"), cmp.Or(c.other.Email, "ada@x.example"))
			d.learn(t, seen(0, "s", "ada", "ada@x.example"))
			d.learn(t, seen(60, "s", "ada", "ada@x.example"))
			e.Time = e.Time.Add(time.Minute + c.later)
			b := d.open(t, e)
			learn(t, b, e)
			assert.ElementsMatch(t, append(c.want, "session/"+e.SessionID), changed(b))
		})
	}
	d := having(t, seen(0, "s", "ada", "ada@x.example"))
	b := d.open(t, seen(3600, "s", "ada", ""))
	learn(t, b, seen(3600, "s", "ada", ""))
	assert.Equal(t, []string{"session/s"}, changed(b), "without the address")
}

// An address stays known as long as its session, and a session for the retention after its last event.
func TestBook_keepsUsersAndAddressesForTheirTime(t *testing.T) {
	const ttl = 8 * time.Hour
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				longest := []time.Duration{time.Minute, time.Hour, 3 * time.Hour}[seed%3]
				d := newDirectory(ttl)
				for range 30 {
					time.Sleep(time.Duration(random.Int64N(int64(longest))))
					d.learn(t, activity.Event{Time: time.Now(), SessionID: "s", UserID: "ada", Email: "ada@x.example"})
				}
				time.Sleep(ttl - 1)
				assert.Equal(t, "s", d.sessionOf(t, "ada@x.example"))
				s, ok := d.session(t, "s")
				assert.True(t, ok)
				assert.Equal(t, "ada@x.example", s.Email)
				assert.Equal(t, "ada@x.example", d.update(t, "s2", func(s *directory.Session) { s.UserID = "ada" }).Email)

				time.Sleep(time.Nanosecond)
				assert.False(t, d.known(t, "s"))
				assert.Empty(t, d.sessionOf(t, "ada@x.example"))
				s, _ = d.session(t, "s2")
				assert.Empty(t, s.Email)
			})
		})
	}
}

// An SDK may state an address once, and a page sign its user once, for a long stay and many further sessions.
func TestBook_keepsAnAddressWhileItsSessionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory(time.Hour)
		learn := func(e activity.Event) (email string, changes []string) {
			s, b := d.settle(t, e)
			return s.Email, changed(b)
		}
		said := activity.Event{SessionID: "s", UserID: "ada", Email: "Ada@x.example",
			Standing: activity.Signed, EmailStanding: activity.Signed}
		learn(said)
		said.SessionID, said.Email = "", "ada@x.example"
		learn(said)
		learn(activity.Event{SessionID: "v", Email: "vera@x.example"})
		for range 20 {
			time.Sleep(20 * time.Minute)
			learn(activity.Event{SessionID: "s", UserID: "ada"})
			_, changes := learn(activity.Event{SessionID: "v"})
			assert.NotContains(t, changes, "user/")
			_, changes = learn(activity.Event{SessionID: "v"})
			assert.Equal(t, []string{"session/v"}, changes, "its address was just extended")
			_, changes = learn(activity.Event{SessionID: "b", UserID: "bob", Action: &activity.Action{}})
			assert.Equal(t, []string{"session/b"}, changes, "there is nothing to keep")
		}
		assert.Equal(t, "s", d.sessionOf(t, "ada@x.example"))
		assert.Equal(t, "v", d.sessionOf(t, "vera@x.example"))
		for range 20 {
			email, _ := learn(activity.Event{SessionID: "s2", UserID: "ada"})
			assert.Equal(t, "ada@x.example", email)
			time.Sleep(20 * time.Minute)
		}
		assert.Empty(t, d.sessionOf(t, "ada@x.example"), "it was not stated in the second session")
		_, changes := learn(activity.Event{UserID: "ada"})
		assert.Empty(t, changes, "without a session")
	})
}

// A user that the events do not name is read on demand. A failed read can be repeated.
func TestBook_readsFurtherUsersWhenNeeded(t *testing.T) {
	d := having(t, seen(1, "s", "ada", ""), seen(1, "other", "ada", "ada@x.example"))
	e := seen(2, "s", "", "")
	b := d.open(t, e)
	d.docs.failGet = errors.New("storage is away")
	_, err := b.Learn(t.Context(), "s", events{e})
	require.ErrorIs(t, err, d.docs.failGet)
	d.docs.failGet = nil
	assert.Equal(t, "ada@x.example", learn(t, b, e).Email)
}

// A fact from a clock that was more than a second ahead gives way to a present one. One from up to a second stays.
func TestDirectory_doesNotWaitForAClockThatWasAhead(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		wins  bool
	}{{time.Hour, true}, {1001 * time.Millisecond, true}, {time.Second, false}, {time.Millisecond, false}, {0, true}} {
		t.Run(c.ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDirectory(0)
				at := func(e activity.Event, ahead time.Duration) activity.Event { e.Time = time.Now().Add(ahead); return e }
				want := func(old, now string) string {
					if c.wins {
						return now
					}
					return old
				}
				d.learn(t, at(seen(0, "s", "old", "old@x.example"), c.ahead))
				s := d.learn(t, at(seen(0, "s", "now", "now@x.example"), 0))
				assert.Equal(t, [2]string{want("old", "now"), want("old@x.example", "now@x.example")}, who(&s))

				d.learn(t, at(seen(0, "t", "ada", "ada@x.example"), c.ahead))
				d.learn(t, at(seen(0, "u", "ada", "lovelace@x.example"), 0))
				d.learn(t, at(seen(0, "v", "eve", "ada@x.example"), 0))
				assert.Equal(t, want("ada@x.example", "lovelace@x.example"), d.learn(t, at(seen(0, "w", "ada", ""), 0)).Email,
					"the user's address")
				assert.Equal(t, want("t", "v"), d.sessionOf(t, "ada@x.example"), "the address's session")
			})
		})
	}
}
