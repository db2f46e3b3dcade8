package directory_test

import (
	"fmt"
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
