package directory_test

import (
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
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func TestDirectory_Find_findsTheOneSessionOfAUser(t *testing.T) {
	const own = "own"
	type session struct {
		id, user string // a session and its user; the action in it is ada's
		standing activity.Standing
	}
	claim := &activity.Event{UserID: "ada", Action: &activity.Action{}}
	for name, tt := range map[string]struct {
		sessions []session
		event    *activity.Event
		want     string
	}{
		"none":                    {nil, claim, own},
		"none, without an action": {nil, &activity.Event{UserID: "ada"}, ""},
		"one":                     {[]session{{"s", "ada", claimed}}, claim, "s"},
		"one, without an action":  {[]session{{"s", "ada", claimed}}, &activity.Event{UserID: "ada"}, "s"},
		"one beside her own":      {[]session{{"s", "ada", claimed}, {own, "ada", claimed}}, claim, "s"},
		"her own":                 {[]session{{own, "ada", claimed}}, &activity.Event{UserID: "ada"}, own},
		"two":                     {[]session{{"s", "ada", claimed}, {"t", "ada", claimed}}, claim, own},
		"another one's":           {[]session{{"s", "bob", claimed}}, claim, own},
		"hers and another one's":  {[]session{{"s", "bob", claimed}, {"t", "ada", claimed}}, claim, "t"},
		"one that stands higher":  {[]session{{"s", "ada", reported}}, claim, own},
		"one that stands no higher": {[]session{{"s", "ada", reported}},
			&activity.Event{UserID: "ada", Standing: verified}, "s"},
		"her own, with claims only": {[]session{{own, "ada", claimed}},
			&activity.Event{UserID: "ada", Standing: reported}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store, docs := musttest.New(recent.NewMemory(nil)), musttest.New(document.NewMemory(nil))
			dir := musttest.New(directory.New(docs, 0))
			ownID := musttest.New(dir.Find(t.Context(), store, "acme", claim))
			assert.Regexp(t, `^liveactivity-user-[0-9a-f-]{36}$`, ownID)
			replace := strings.NewReplacer(own, ownID)
			for _, s := range tt.sessions {
				id, now := replace.Replace(s.id), time.Now()
				for i, in := range []string{id, id, ""} {
					action := activity.Action{ID: fmt.Sprint(id, i), TimestampStart: activity.Seconds(now)}
					require.NoError(t, store.Add(t.Context(), activity.Batch{ProductID: "acme", SessionID: in,
						Actions: []activity.BatchAction{{Action: action, UserID: "ada"}}}))
				}
				_, err := dir.Update(t.Context(), "acme", id, func(known *directory.Session) {
					known.Learn(activity.Event{Time: now, SessionID: id, UserID: s.user, Standing: s.standing})
				})
				require.NoError(t, err)
			}
			assert.Equal(t, replace.Replace(tt.want), musttest.New(dir.Find(t.Context(), store, "acme", tt.event)))
		})
	}
}

// A user has done nothing where nobody has acted yet, where others acted, and where the only action is a mark: it may
// find no click.
func TestDirectory_LeadsOf_aUserWhoDidNothing(t *testing.T) {
	acting := func(e activity.Event) activity.Event {
		e.Action = &activity.Action{}
		return e
	}
	mark := func(e activity.Event) activity.Event {
		e.Action = &activity.Action{Marks: []string{activity.MarkRage}}
		return e
	}
	ada := func(second int) activity.Event { return identified(second, "ada", "") }
	for name, c := range map[string]struct {
		before, events events
		isSilent       bool
	}{
		"alone":                        {nil, events{ada(2)}, true},
		"and acts":                     {nil, events{ada(2), acting(ada(3))}, false},
		"and marks a click":            {nil, events{mark(ada(2))}, true},
		"where another acted":          {events{acting(identified(1, "bob", ""))}, events{ada(2)}, true},
		"where nobody known acted":     {events{acting(seen(1, "s", "", ""))}, events{ada(2)}, true},
		"where the visitor acted":      {events{acting(seen(1, "s", "anon", ""))}, events{naming("anon", ada(2))}, false},
		"where the visitor was a user": {events{acting(identified(1, "bob", ""))}, events{naming("bob", ada(2))}, true},
		"as a mere claim, which the session forgets": {events{standing(reported, reported, acting(seen(1, "s", "bob", "")))},
			events{ada(2)}, false},
		"and leaves": {nil, events{ada(2), identified(3, "bob", "")}, true},
		"as a mere claim with an address": {events{standing(reported, reported, acting(seen(1, "s", "bob", "")))},
			events{seen(2, "s", "ada", "ada@x.example")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := having(t, standing(reported, reported, seen(1, "elsewhere", "ada", "ada@x.example")))
			for _, e := range c.before {
				d.acts(t, e)
			}
			d.learn(t, c.events...)
			_, silent, err := d.LeadsOf(t.Context(), "acme", "ada")
			require.NoError(t, err)
			assert.Equal(t, c.isSilent, slices.Contains(silent, "s"), silent)
		})
	}
}

// acts lets the directory learn from an event with an action.
func (d fixture) acts(t testing.TB, e activity.Event) {
	t.Helper()
	b := d.open(t, e)
	learn(t, b, e)
	b.Count(e.SessionID, 1)
	require.NoError(t, d.close(t, b))
}
