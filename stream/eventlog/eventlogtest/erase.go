package eventlogtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// EraseEntry returns an entry with an erasure.
func EraseEntry(t testing.TB, e feed.Erasure) eventlog.Entry {
	t.Helper()
	e.Type = feed.Erase
	if e.SessionIDs == nil {
		e.SessionIDs = []string{}
	}
	data, err := json.Marshal(e)
	require.NoError(t, err)
	return eventlog.Entry{Data: data}
}

// Told returns the entries of a product's log as readers get them, in order: the users of the
// actions for a batch, and the type for any other entry.
func Told(t testing.TB, log eventlog.Log, productID string) (all [][]string) {
	t.Helper()
	for _, e := range Retained(t, log, productID) {
		require.Nil(t, e.Batch, "a read omits it")
		b, err := e.Decode()
		require.NoError(t, err)
		if b == nil {
			var typed struct{ Type string }
			require.NoError(t, json.Unmarshal(e.Data, &typed))
			all = append(all, []string{typed.Type})
			continue
		}
		require.Len(t, b.Actions, b.Count)
		require.Equal(t, e.SessionID, b.SessionID)
		var users []string
		for i, a := range b.Actions {
			users = append(users, a.UserID)
			require.Equal(t, e.Keys[i], feed.KeyOf(a.ID), "a key for each action")
		}
		all = append(all, users)
	}
	return all
}

// act returns an entry with one action of each user in a session.
func (f fixture) act(session string, users ...string) eventlog.Entry {
	f.Helper()
	b := activitytest.NewBatch(product, session, users[0])
	for _, user := range users {
		one := activitytest.NewBatch(product, session, user, activitytest.Click(time.Now(), "Save", page))
		b.Actions, b.Count = append(b.Actions, one.Actions...), b.Count+1
	}
	return BatchEntry(f, b)
}

func (f fixture) identity(session, anonymous, user string) eventlog.Entry {
	f.Helper()
	return identityEntry(feed.Identity{Type: feed.IdentityType, ProductID: product, SessionID: session,
		AnonymousID: anonymous, UserID: user, At: time.Now().UnixMicro()})
}

func (f fixture) sessionActions(session string) int {
	f.Helper()
	return f.actions(recent.Subject{SessionID: session})
}

var eraseTests = []test{
	{name: "earlier entries are gone, of the sessions and of the user", run: func(f fixture) {
		summary := eventlog.Entry{SessionID: "s1", Data: []byte(`{"type":"summary","session_id":"s1","summary":"x"}`)}
		entries := f.append(f.act("s1", "anon"), f.identity("s1", "anon", "ada"), f.act("s1", "ada", ""), summary,
			f.act("", "ada"), f.act("s2", "ada"), f.act("s3", "bob"), f.act("", "bob"))
		f.append(EraseEntry(f, feed.Erasure{UserID: "ada", SessionIDs: []string{"s1"}}))
		f.append(f.act("s1", "ada"), f.act("", "ada"))
		require.Equal(f, [][]string{{"erased"}, {"erased"}, {"erased"}, {"erased"}, {"erased"}, {"erased"}, {"bob"}, {"bob"},
			{"erase"}, {"ada"}, {"ada"}}, Told(f, f.log, product))
		require.Equal(f, 2, f.filed("ada"), "later activity is new")
		require.Zero(f, f.filed("anon"))
		require.Equal(f, 2, f.filed("bob"))
		require.Equal(f, 1, f.sessionActions("s1"))
		require.Zero(f, f.sessionActions("s2"))
		for _, e := range entries[:2] {
			e.ID = eventlog.ID{}
			f.refused(e)
		}
	}},
	{name: "a session keeps the actions of others", run: func(f fixture) {
		f.append(f.act("s1", "ada", "anon-2", "grace", ""), f.identity("s1", "anon-2", "grace"), f.act("s1", "ada"))
		f.append(EraseEntry(f, feed.Erasure{UserID: "ada", SessionIDs: []string{"s1"},
			Kept: map[string][]string{"s1": {"anon-2", "grace"}}}))
		require.Equal(f, [][]string{{"anon-2", "grace"}, {"identity"}, {"erased"}, {"erase"}}, Told(f, f.log, product))
		require.Zero(f, f.filed("ada"))
		require.Equal(f, 2, f.filed("grace"))
		require.Equal(f, 2, f.sessionActions("s1"))
	}},
	{name: "a visitor's actions are kept for the user who signed in", run: func(f fixture) {
		f.append(f.act("s1", "anon"), f.identity("s1", "anon", "ada"), f.act("s2", "anon"), f.act("", "anon"))
		told := [][]string{{"anon"}, {"identity"}, {"erased"}, {"erased"}}
		for _, sessions := range [][]string{{"s2"}, {}, {"s1"}} {
			f.append(EraseEntry(f, feed.Erasure{UserID: "anon", SessionIDs: sessions,
				Kept: map[string][]string{"s1": {"anon", "ada"}}}))
			told = append(told, []string{"erase"})
			require.Equal(f, told, Told(f, f.log, product))
			require.Equal(f, 1, f.filed("ada"))
			require.Equal(f, 1, f.sessionActions("s1"))
			require.Zero(f, f.sessionActions("s2"))
			ids, outside, err := f.log.Activity().Sessions(f.Context(), product, "anon")
			require.NoError(f, err)
			require.Equal(f, []string{"s1"}, ids, "for the next erasure")
			require.Empty(f, outside)
		}
		f.append(EraseEntry(f, feed.Erasure{UserID: "ada", SessionIDs: []string{"s1"}}))
		require.Zero(f, f.filed("ada"))
		require.Zero(f, f.sessionActions("s1"))
	}},
	{name: "erasures without a user, and repeated ones", run: func(f fixture) {
		f.append(f.act("s1", ""), f.act("", "ada"))
		for range 2 {
			f.append(EraseEntry(f, feed.Erasure{SessionIDs: []string{"s1", "none"}}))
		}
		require.Equal(f, [][]string{{"erased"}, {"ada"}, {"erase"}, {"erase"}}, Told(f, f.log, product))
		require.Zero(f, f.sessionActions("s1"))
		require.Equal(f, 1, f.filed("ada"))
	}},
	{name: "a product that is dropped forgets them, and later actions", run: func(f fixture) {
		f.append(f.act("s1", "ada"), EraseEntry(f, feed.Erasure{UserID: "ada", SessionIDs: []string{"s1"}}),
			f.act("s2", "ada"))
		f.drop()
		require.Zero(f, f.filed("ada"))
		f.append(f.act("s1", "ada"))
		require.Equal(f, [][]string{{"ada"}}, Told(f, f.log, product))
		require.Equal(f, 1, f.filed("ada"))
	}},
	{name: "a trimmed log", retention: small, run: func(f fixture) {
		f.append(f.act("s1", "ada"), EraseEntry(f, feed.Erasure{UserID: "ada", SessionIDs: []string{"s1"}}))
		erased := f.bounds().Newest
		f.appendUntil(func() bool { return f.bounds().TrimmedTo.Compare(erased) >= 0 })
		f.append(f.act("s1", "ada"))
		told := Told(f, f.log, product)
		require.Equal(f, []string{"ada"}, told[len(told)-1])
	}},
}
