package eventlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

type recording struct {
	*eventlog.Recorder
	log   *watchtest.Log
	start eventlog.ID
}

func newRecording(t testing.TB) *recording {
	t.Helper()
	r := &recording{log: &watchtest.Log{Log: musttest.New(memorylog.New(&memorylog.Options{MaxEvents: 1000}))}}
	r.Recorder = musttest.New(eventlog.NewRecorder(r.log, nil))
	r.start = eventlogtest.Bounds(t, r.log, product).Newest
	return r
}

func (r *recording) amend(t testing.TB, sessionID string, change func(*directory.Session)) {
	t.Helper()
	err := musttest.New(directory.New(r.log.Documents(), 0)).Amend(t.Context(), product, sessionID, nil,
		func(a *directory.Amendment) error {
			change(&a.Session)
			return nil
		})
	require.NoError(t, err)
}

// record records the events as one request, which must work.
func (r *recording) record(t testing.TB, events ...activity.Event) activity.Result {
	t.Helper()
	return recordBy(t, r.Recorder, product, events...)
}

func recordBy(t testing.TB, r *eventlog.Recorder, productID string, events ...activity.Event) activity.Result {
	t.Helper()
	result, err := r.Record(t.Context(), productID, events)
	require.NoError(t, err)
	return result
}

// entries returns the entries appended to the log since its last call.
func (r *recording) entries(t testing.TB) []eventlog.Entry {
	t.Helper()
	entries := eventlogtest.ReadAll(t, r.log, product, r.start, 1000)
	r.start = eventlogtest.Bounds(t, r.log, product).Newest
	return entries
}

// batches is entries, decoded.
func (r *recording) batches(t testing.TB) []activity.Batch {
	t.Helper()
	entries := r.entries(t)
	batches := make([]activity.Batch, len(entries))
	for i, e := range entries {
		require.NoError(t, json.Unmarshal(e.Data, &batches[i]))
		require.Equal(t, e.SessionID, batches[i].SessionID, "what readers filter by")
		require.Equal(t, []string{activity.BatchType, product}, []string{batches[i].Type, batches[i].ProductID})
		require.Len(t, batches[i].Actions, batches[i].Count)
	}
	return batches
}

// actions returns the actions that a lookup finds for a user.
func (r *recording) actions(t testing.TB, userID string) []activity.Action {
	t.Helper()
	recorded, err := r.log.Activity().Recent(t.Context(), product, recent.Subject{UserID: userID}, 1000)
	require.NoError(t, err)
	actions, err := recorded.Actions()
	require.NoError(t, err)
	return actions
}

// stored is actions' titles.
func (r *recording) stored(t testing.TB, userID string) []string {
	t.Helper()
	found := []string{}
	for _, a := range r.actions(t, userID) {
		found = append(found, a.Title)
	}
	return found
}

// noon is when the tests' sessions begin.
var noon = time.Now().Add(-time.Hour).Truncate(time.Second).UTC()

// does is an action of a session, so many seconds after noon. The event's id is the title.
func does(sessionID, userID, title string, second float64) activity.Event {
	return activity.Event{
		ID: title, SessionID: sessionID, UserID: userID,
		Time: noon.Add(time.Duration(second * float64(time.Second))),
		Action: &activity.Action{Type: activity.TypeClick, Title: title, Description: "User did " + title,
			RawURL: "https://app.example.com/tasks/7?a=1&b=<2>", CanonicalURL: "https://app.example.com/tasks/:id"},
	}
}

// identifies is an event that identifies the user of a session and does nothing else.
func identifies(sessionID, userID, email string, second float64) activity.Event {
	e := does(sessionID, userID, fmt.Sprint("identify ", sessionID, userID, email, second), second)
	e.Email, e.Action = email, nil
	return e
}

func seconds(after float64) float64 {
	return activity.Seconds(noon.Add(time.Duration(after * float64(time.Second))))
}

func TestRecorder_makesOneEntryOfASessionPerRequestInOrderOfTime(t *testing.T) {
	r := newRecording(t)
	require.Equal(t, activity.Result{}, r.record(t), "of nothing there is no entry")
	require.Equal(t, activity.Result{Accepted: 6}, r.record(t,
		does("s1", "u1", "third", 3), does("s2", "u2", "other", 9), does("s1", "u1", "first", 1),
		does("s1", "u1", "second", 2), does("s1", "u1", "also third", 3), does("s3", "", "alone", 0)))
	var got [][]string
	for _, b := range r.batches(t) {
		got = append(got, append([]string{b.SessionID}, activitytest.Titles(b)...))
	}
	require.Equal(t, [][]string{{"s1", "first", "second", "third", "also third"}, {"s2", "other"}, {"s3", "alone"}}, got)
}

func TestRecorder_keepsTheOrderOfSimultaneousEvents(t *testing.T) {
	r := newRecording(t)
	var events []activity.Event
	var want [3][]string
	for n := range 150 {
		events = append(events, does("s1", "u1", fmt.Sprint("action ", n), float64(n%3)))
		want[n%3] = append(want[n%3], fmt.Sprint("action ", n))
	}
	r.record(t, events...)
	require.Equal(t, slices.Concat(want[:]...), activitytest.Titles(r.batches(t)[0]))
}

func TestRecorder_countsEachProductsSessionsByThemselves(t *testing.T) {
	r := newRecording(t)
	r.record(t, does("s1", "u1", "a", 1))
	recordBy(t, r.Recorder, "another", does("s1", "u1", "a", 1), identifies("s1", "u1", "x@example.com", 2))
	r.record(t, does("s1", "u1", "b", 2))
	batches := r.batches(t)
	require.Equal(t, []int{1}, activitytest.Indexes(batches[1]))
	require.Empty(t, batches[1].Email)
}

// The envelope has the known identity of the session; an action has the user ID of its own event.
// posthog-js sends $identify ahead of queued clicks.
func TestRecorder_keepsTheIdentityOfEventsThatAreOvertaken(t *testing.T) {
	r := newRecording(t)
	require.Equal(t, activity.Result{Accepted: 1}, r.record(t, identifies("s1", "ada", "ada@example.com", 10)))
	require.Empty(t, r.batches(t), "no action, no entry")
	r.record(t, does("s1", "anonymous", "before", 5), does("s1", "ada", "after", 11))
	b := r.batches(t)[0]
	require.Equal(t, []string{"ada", "ada@example.com"}, []string{b.UserID, b.Email})
	require.Equal(t, []string{"anonymous", "ada"}, []string{b.Actions[0].UserID, b.Actions[1].UserID})
	for _, a := range b.Actions {
		require.Equal(t, []string{"s1", "ada@example.com"}, []string{a.SessionID, a.Email})
	}
	require.Equal(t, []string{"before"}, r.stored(t, "anonymous"), "nothing is merged")
	require.Equal(t, []string{"after"}, r.stored(t, "ada"))
}

func TestRecorder_learnsFromNewEventsOnly(t *testing.T) {
	r := newRecording(t)
	click := does("s1", "u1", "a", 1)
	r.record(t, click)
	r.record(t, click, identifies("s1", "u1", "ada@example.com", 2))
	r.record(t, does("s1", "u1", "b", 3))
	require.Equal(t, "ada@example.com", r.batches(t)[1].Email)
	r.amend(t, "s1", func(s *directory.Session) { *s = directory.Session{} }) // as after an erasure
	require.Equal(t, activity.Result{Duplicate: 1}, r.record(t, click))
	r.record(t, does("s1", "", "c", 4))
	require.Empty(t, r.batches(t)[0].UserID)
}

// All spellings of a UUID are the same ID.
func TestRecorder_dropsDuplicatesWithinARequest(t *testing.T) {
	r := newRecording(t)
	a, b := does("s1", "u1", "a", 1), does("s1", "u1", "b", 2)
	a.ID = "0198f3a2-6f00-7abc-8def-0123456789ab"
	moved := a
	moved.SessionID, moved.ID = "s2", strings.ToUpper(a.ID)
	require.Equal(t, activity.Result{Accepted: 2, Duplicate: 3}, r.record(t, a, b, a, moved, a))
	batches := r.batches(t)
	require.Len(t, batches, 1)
	require.Equal(t, []string{"a", "b"}, activitytest.Titles(batches[0]))
}

// Only the new part of a partly known request is appended, as if it had come alone.
func TestRecorder_appendsOnlyNewEvents(t *testing.T) {
	r := newRecording(t)
	r.record(t, does("s1", "u1", "b", 2), does("s1", "u1", "d", 4))
	r.batches(t)
	result := r.record(t, does("s1", "u1", "a", 1), does("s1", "u1", "b", 2), does("s1", "u1", "c", 3),
		does("s1", "u1", "d", 4), does("s1", "u1", "e", 5), does("s2", "u1", "b", 2))
	require.Equal(t, activity.Result{Accepted: 3, Duplicate: 3}, result)
	batches := r.batches(t)
	require.Len(t, batches, 1, "nothing is left of the other session")
	require.Equal(t, []string{"a", "c", "e"}, activitytest.Titles(batches[0]))
	require.Equal(t, []int{2, 3, 4}, activitytest.Indexes(batches[0]))
	require.Equal(t, seconds(3), batches[0].Actions[0].TimestampEnd)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, r.stored(t, "u1"))
}

// Where claims name nobody, a sign-in has two entries, and it is still one event.
func TestRecorder_countsARepeatedSignInOnce(t *testing.T) {
	r := musttest.New(eventlog.NewRecorder(newMemoryLog(), &eventlog.RecorderOptions{
		VerifiedOnly: func(string) bool { return true }}))
	named := signsIn("s1", "anon", "ada", 2)
	named.Standing = activity.Signed
	require.Equal(t, activity.Result{Accepted: 2}, recordBy(t, r, product, does("s1", "anon", "a", 1), named))
	require.Equal(t, activity.Result{Accepted: 1, Duplicate: 2},
		recordBy(t, r, product, does("s1", "anon", "a", 1), named, does("s1", "ada", "b", 3)))
}

// If neither session nor user is known, nothing shows that two events are of one person: an email
// address belongs only to the event that carried it.
func TestRecorder_keepsUsersWithoutASessionApart(t *testing.T) {
	r := newRecording(t)
	ada, stranger := does("", "ada", "a", 1), does("", "", "s", 4)
	ada.Email, stranger.Email = "ada@example.com", "somebody@example.com"
	r.record(t, ada, does("", "grace", "g", 2), does("", "ada", "b", 3), stranger, does("", "", "n", 4),
		does("s1", "ada", "in s1", 5))
	got := map[string][]string{}
	for _, b := range r.batches(t) {
		require.Equal(t, b.Email, b.Actions[0].Email)
		got[b.SessionID+"/"+b.UserID+"/"+b.Email] = activitytest.Titles(b)
	}
	require.Equal(t, map[string][]string{"/ada/ada@example.com": {"a", "b"}, "/grace/": {"g"},
		"//somebody@example.com": {"s"}, "//": {"n"}, "s1/ada/ada@example.com": {"in s1"}}, got)
	require.Equal(t, []string{"a", "b", "in s1"}, r.stored(t, "ada"))
	require.Equal(t, []string{"g"}, r.stored(t, "grace"))
	require.Empty(t, r.stored(t, ""))
}

func TestRecorder_whenTheLogFails_recordsNothingAndCanBeRepeated(t *testing.T) {
	r := newRecording(t)
	r.record(t, does("s1", "u1", "a", 1))
	r.log.Down.Store(true)
	events := []activity.Event{does("s1", "u1", "b", 2), does("s1", "u1", "c", 3), does("s2", "u1", "d", 4)}
	result, err := r.Record(t.Context(), product, events)
	require.ErrorIs(t, err, errDown)
	require.Zero(t, result)
	require.Equal(t, []string{"a"}, r.stored(t, "u1"))
	r.log.Down.Store(false)
	require.Len(t, r.batches(t), 1)
	require.Equal(t, activity.Result{Accepted: 3}, r.record(t, events...))
	batches := r.batches(t)
	require.Equal(t, []int{1, 2}, activitytest.Indexes(batches[0]))
	require.Equal(t, []int{0}, activitytest.Indexes(batches[1]))
	require.Equal(t, []string{"a", "b", "c", "d"}, r.stored(t, "u1"))
}

func TestRecorder_ofALogThatMakesNoSense_isNotCaughtInALoop(t *testing.T) {
	log := &watchtest.Log{Log: newMemoryLog()}
	log.After = func(context.Context, watchtest.Op, error) error { // of a key that nobody appended
		return &eventlog.DuplicateError{Keys: []feed.Key{{1}}}
	}
	r := musttest.New(eventlog.NewRecorder(log, nil))
	require.Error(t, errorOf(r.Record(t.Context(), product, []activity.Event{does("s1", "u1", "a", 1)})))
}

// signsIn is an event of a session that identifies its visitor.
func signsIn(sessionID, anonymous, userID string, second float64) activity.Event {
	e := identifies(sessionID, userID, "", second)
	e.Anonymous, e.Identified = anonymous, true
	return e
}

// A user who signs in is known from the first click on, and nobody else's actions move.
func TestRecorder_givesAUserTheSessionsEarlierActions(t *testing.T) {
	r := newRecording(t)
	r.record(t, does("s1", "anon", "first", 1), does("s2", "anon", "elsewhere", 2))
	r.record(t, signsIn("s1", "anon", "ada", 3))
	require.Equal(t, []string{"first"}, r.stored(t, "ada"), "without an action of her own")
	require.Equal(t, []string{"elsewhere"}, r.stored(t, "anon"))
	second := does("s1", "ada", "second", 4)
	second.Identified = true
	require.Equal(t, activity.Result{Accepted: 2}, r.record(t, second, does("s1", "anon", "late", 2)))
	require.Equal(t, []string{"first", "late", "second"}, r.stored(t, "ada"))
	r.record(t, does("s5", "anon", "alone", 5))
	both := signsIn("s5", "anon", "grace", 6)
	both.Action = does("s5", "grace", "both", 6).Action
	for _, want := range []activity.Result{{Accepted: 1}, {Duplicate: 1}} {
		require.Equal(t, want, r.record(t, both))
		require.Equal(t, []string{"alone", "both"}, r.stored(t, "grace"), "by an event that is an action, too")
	}

	r.record(t, signsIn("s1", "ada", "eve", 5), signsIn("s2", "ada", "eve", 5), signsIn("", "ada", "eve", 5))
	require.Empty(t, r.stored(t, "eve"), "what an identified user did stays")
	r.record(t, signsIn("s3", "anon", "eve", 6))
	require.Empty(t, r.stored(t, "eve"), "so does what another session did")
	require.Equal(t, []string{"first", "late", "second"}, r.stored(t, "ada"))
}

// A sign-in gives its address to the session's user, and to nobody who was there before.
func TestRecorder_namesTheOwnerOfAnAddress(t *testing.T) {
	r := newRecording(t)
	ada, bob := signsIn("s1", "anon", "ada", 1), signsIn("s1", "anon-2", "bob", 2)
	bob.Email = "bob@x.example"
	r.record(t, ada, bob)
	emails := map[string]string{}
	for _, e := range r.entries(t) {
		who, err := e.DecodeIdentity()
		require.NoError(t, err)
		emails[who.UserID] = who.Email
	}
	require.Equal(t, map[string]string{"ada": "", "bob": "bob@x.example"}, emails)
}

// A sign-in that is reported again, or with many others, is appended once, and then is a duplicate.
func TestRecorder_takesASignInOnce(t *testing.T) {
	r := newRecording(t)
	for _, want := range []activity.Result{{Accepted: 1}, {Duplicate: 1}, {Duplicate: 1}} {
		require.Equal(t, want, r.record(t, signsIn("s1", "anon", "ada", 1)))
	}
	entries := r.entries(t)
	require.Len(t, entries, 1)
	who, err := entries[0].DecodeIdentity()
	require.NoError(t, err)
	require.Equal(t, &feed.Identity{Type: "identity", ProductID: product, SessionID: "s1", AnonymousID: "anon",
		UserID: "ada", At: noon.Add(time.Second).UnixMicro()}, who)
	batch, err := entries[0].Decode()
	require.NoError(t, err)
	require.Nil(t, batch)
}

func TestRecorder_leavesTheCallersEventsAlone(t *testing.T) {
	r := newRecording(t)
	events := []activity.Event{does("s1", "u1", "b", 2), does("s1", "u1", "a", 1)}
	actions := []activity.Action{*events[0].Action, *events[1].Action}
	before := slices.Clone(events)
	r.record(t, events...)
	require.Equal(t, before, events)
	require.Equal(t, actions, []activity.Action{*events[0].Action, *events[1].Action})
	events[0].Action.Title = "reused"
	require.Equal(t, []string{"a", "b"}, activitytest.Titles(r.batches(t)[0]))
}

// In a session whose user is reported, a claim of another ID belongs to no conversation. The only
// exception is the ID of the visitor who signs in with the same request.
func TestRecorder_leavesClaimsOfOthersOutOfTheConversation(t *testing.T) {
	r := newRecording(t)
	reports := func(e activity.Event) activity.Event {
		e.Standing, e.EmailStanding, e.Email = activity.Reported, activity.Reported, "ada@x.example"
		return e
	}
	r.record(t, reports(does("s1", "ada", "first", 1)))
	r.amend(t, "s1", func(s *directory.Session) { s.Link("zendesk", "7", "ada@x.example", "") })
	r.record(t, does("s1", "eve", "claimed", 2), reports(does("s1", "ada", "reported", 3)),
		does("s1", "anon", "before", 4), reports(signsIn("s1", "anon", "ada", 5)))
	r.record(t, does("s1", "eve", "alone", 6))
	got, batches := map[string][2]string{}, []string{}
	for _, e := range r.entries(t) {
		if b, err := e.Decode(); err == nil && b != nil {
			batches = append(batches, b.ConversationID)
			for _, a := range b.Actions {
				got[a.Title] = [2]string{a.Email, a.ConversationID}
			}
		}
	}
	own := [2]string{"ada@x.example", "7"}
	require.Equal(t, map[string][2]string{"first": {"ada@x.example"}, "claimed": {}, "reported": own, "before": own,
		"alone": {}}, got)
	require.Equal(t, []string{"", "7", ""}, batches, "a batch of another's actions alone is in no conversation")
}

// Each action of two users in one session has the address of its own user, whichever request brings it.
func TestRecorder_givesNoActionTheAddressOfAnotherUser(t *testing.T) {
	r := newRecording(t)
	early, late := does("s1", "ada", "early", 3), does("s1", "ada", "late", 4)
	early.Identified, early.Email = true, "ada@x.example"
	late.Identified = true
	r.record(t, does("s1", "anon", "visitor's", 0), identifies("s1", "ada", "ada@x.example", 1),
		does("s1", "ada", "first", 2))
	r.record(t, early, identifies("s1", "bob", "bob@x.example", 5), does("s1", "bob", "bob's", 6))
	r.amend(t, "s1", func(s *directory.Session) { s.Link("zendesk", "7", "bob@x.example", "") })
	r.record(t, late)
	r.record(t, does("s1", "bob", "linked", 7))
	got := map[string][2]string{}
	for _, b := range r.batches(t) {
		for _, a := range b.Actions {
			got[a.Title] = [2]string{a.Email, b.ConversationID}
		}
	}
	adas := [2]string{"ada@x.example"}
	require.Equal(t, map[string][2]string{"visitor's": adas, "first": adas, "early": adas, "bob's": {"bob@x.example"},
		"late": {}, "linked": {"bob@x.example", "7"}}, got)
}

// Requests overlap in part, and the actions of a session come from everywhere at once. Each action
// is there once, and the index follows the order of the log.
func TestRecorder_numbersASessionInTheOrderOfTheLog(t *testing.T) {
	const requests, distinct = 64, 200
	r := newRecording(t)
	total := r.recordAtOnce(t, requests, func(request int) []activity.Event {
		random := rand.New(rand.NewPCG(1, uint64(request)))
		var events []activity.Event
		for _, n := range random.Perm(distinct)[:20] {
			events = append(events, does("s1", "u1", fmt.Sprint("action ", n), float64(n)))
			events = append(events, identifies("s1", "u1", "ada@example.com", float64(n)))
		}
		return append(events, does("s1", "u1", fmt.Sprint("request ", request), float64(request)))
	})
	require.Equal(t, requests*41, total.Accepted+total.Duplicate)
	r.requireEachOnce(t, -1)
}

// SDKs and webhooks retry while the first attempt is still in flight, and the same event from two
// sessions is one event.
func TestRecorder_appendsAnEventOnceWhicheverSessionBringsIt(t *testing.T) {
	const requests = 32
	r := newRecording(t)
	total := r.recordAtOnce(t, requests, func(request int) []activity.Event {
		var events []activity.Event
		for n := range 10 {
			events = append(events, does(fmt.Sprint("s", (request+n)%5), "u1", fmt.Sprint("action ", n), float64(n)))
		}
		return events
	})
	require.Equal(t, activity.Result{Accepted: 10, Duplicate: 10 * (requests - 1)}, total)
	r.requireEachOnce(t, 10)
}

// A request of very many actions of a session is recorded in several steps, and in batches that are not
// too large for a client: common ones take events of at most 64 KiB. It makes no difference.
func TestRecorder_dividesTheActionsOfASession(t *testing.T) {
	const total = 2000
	r := newRecording(t)
	r.record(t, does("s1", "u0", "earlier", -1))
	r.batches(t)
	events := []activity.Event{identifies("s1", "u0", "ada@example.com", total)}
	for n := range total {
		e := does("s1", fmt.Sprint("u", n/10%10), fmt.Sprint("action ", n), float64(n))
		if n < 75 { // so that the batches differ
			e.Action.RawURL += strings.Repeat("<", 1500)
		}
		events = append(events, e)
	}
	slices.Reverse(events) // the order of their times counts
	require.Equal(t, activity.Result{Accepted: total + 1}, r.record(t, events...))
	require.Equal(t, activity.Result{Accepted: 1, Duplicate: total}, r.record(t, events...),
		"who somebody is may be said again")
	entries, bytes, next := r.entries(t), 0, 0
	for _, e := range entries {
		require.LessOrEqual(t, len(e.Data), 60<<10)
		bytes += len(e.Data)
		var b activity.Batch
		require.NoError(t, json.Unmarshal(e.Data, &b))
		require.Len(t, b.Actions, b.Count)
		require.Equal(t, []string{"s1", "s1", "u0", "ada@example.com"}, []string{e.SessionID, b.SessionID, b.UserID, b.Email})
		for _, a := range b.Actions {
			require.Equal(t, fmt.Sprint("action ", next), a.Title)
			require.Equal(t, next+1, a.Index)
			end := float64(next)
			if next%10 < 9 { // the next action is the same user's
				end++
			}
			require.Equal(t, seconds(end), a.TimestampEnd, "also across steps and entries")
			next++
		}
	}
	require.Equal(t, total, next)
	t.Logf("%d entries of %d bytes", len(entries), bytes)
	require.Less(t, len(entries), 2*bytes/(60<<10), "divided by their size, not halved again and again")
	r.record(t, does("s1", "u0", "later", total))
	require.Equal(t, []int{total + 1}, activitytest.Indexes(r.batches(t)[0]))
}

// recordAtOnce records requests concurrently, by the recorders of three servers over one log, and
// returns the sum of their results.
func (r *recording) recordAtOnce(t *testing.T, requests int,
	events func(request int) []activity.Event) (total activity.Result) {
	t.Helper()
	results := make([]activity.Result, requests)
	recorders := []*eventlog.Recorder{r.Recorder, musttest.New(eventlog.NewRecorder(r.log, nil)),
		musttest.New(eventlog.NewRecorder(r.log, nil))}
	waittest.Together(requests, func(request int) {
		var err error
		results[request], err = recorders[request%len(recorders)].Record(t.Context(), product, events(request))
		assert.NoError(t, err)
	})
	for _, result := range results {
		total.Accepted += result.Accepted
		total.Duplicate += result.Duplicate
	}
	return total
}

// requireEachOnce fails the test unless the log has every action once, with this total (any number
// for -1), the indexes of each session follow the log's order, and the store has all actions.
func (r *recording) requireEachOnce(t *testing.T, total int) {
	t.Helper()
	next, users := map[string]int{}, map[string]bool{}
	var logged, filed []string
	for _, b := range r.batches(t) {
		for _, a := range b.Actions {
			require.Equal(t, next[b.SessionID], a.Index)
			next[b.SessionID]++
			users[a.UserID] = true
			logged = append(logged, a.Title)
		}
	}
	for user := range users {
		filed = append(filed, r.stored(t, user)...)
	}
	slices.Sort(logged)
	slices.Sort(filed)
	require.Equal(t, logged, slices.Compact(slices.Clone(logged)))
	require.Equal(t, logged, filed)
	if total >= 0 {
		require.Len(t, logged, total)
	}
}

func TestRecorder_metersItsResult(t *testing.T) {
	var metered tracing.Flow
	log, reg := newMemoryLog(), prometheus.NewRegistry()
	recorder := musttest.New(eventlog.NewRecorder(log,
		&eventlog.RecorderOptions{Metrics: reg, Meter: func(productID string, f tracing.Flow) {
			assert.Equal(t, product, productID)
			metered = metered.Plus(f)
		}}))
	old, view := does("s1", "u1", "old", 0), does("s2", "u1", "b", 2)
	old.Time = time.Now().Add(-2 * activity.DefaultTTL)
	view.Action.Type = activity.TypePageview
	events := []activity.Event{does("s1", "u1", "a", 1), view, identifies("s1", "u1", "ada@example.com", 3), old}
	want := tracing.Flow{Accepted: 3, Ignored: 1, Actions: 2}
	recordBy(t, recorder, product, events...)
	assert.Equal(t, want, metered)
	recordBy(t, recorder, product, events[0], events[1], events[0])
	want.Duplicate = 3
	assert.Equal(t, want, metered)
	require.NoError(t, log.Close())
	require.Error(t, errorOf(recorder.Record(t.Context(), product, []activity.Event{does("s1", "u1", "c", 4)})))
	assert.Equal(t, want, metered, "what is to be sent again is counted then")
	assert.Equal(t, map[string]float64{product + " pageview": 1, product + " click": 1},
		metricstest.By(t, reg, "liveactivity_actions_total", "product_id", "type"))
}

// A repeated append, without duplicates or from newer documents, is traced once.
func TestRecorder_tracesAnAppendOnce(t *testing.T) {
	var traced []string
	recorder := musttest.New(eventlog.NewRecorder(newMemoryLog(), &eventlog.RecorderOptions{Tracer: func(s tracing.Step) {
		require.NoError(t, s.Err)
		traced = append(traced, fmt.Sprint(s.Name, len(s.Actions)))
	}}))
	first, second := does("s1", "u1", "a", 1), does("s1", "u1", "b", 2)
	recordBy(t, recorder, product, first)
	recordBy(t, recorder, product, first, second)
	want := fmt.Sprint(tracing.Ingest, 1, " ", tracing.Append, 1)
	assert.Equal(t, []string{want, want}, []string{strings.Join(traced[:2], " "), strings.Join(traced[2:], " ")})
}

// The events of a failed request are metered once, whichever attempt recorded them.
func TestRecorder_metersTheStepsBeforeAFailure(t *testing.T) {
	var metered tracing.Flow
	log, room := &watchtest.Log{Log: newMemoryLog()}, 1
	log.Before = func(_ context.Context, op watchtest.Op) error {
		if op.Name == "append" && room == 0 {
			return errFull
		}
		return nil
	}
	log.After = func(_ context.Context, op watchtest.Op, err error) error {
		if op.Name == "append" && err == nil {
			room--
		}
		return err
	}
	recorder := musttest.New(eventlog.NewRecorder(log, &eventlog.RecorderOptions{Meter: func(_ string, f tracing.Flow) {
		metered = metered.Plus(f)
	}}))
	events := make([]activity.Event, 300)
	for i := range events {
		events[i] = does(fmt.Sprint("s", i), "u1", fmt.Sprint("e", i), 1)
	}
	result, err := recorder.Record(t.Context(), product, events)
	require.ErrorIs(t, err, errFull)
	first := metered.Accepted
	assert.Equal(t, activity.Result{Accepted: first}, result)
	assert.Positive(t, first)
	assert.Less(t, first, 300)
	room = 2
	assert.Equal(t, activity.Result{Accepted: 300 - first, Duplicate: first}, recordBy(t, recorder, product, events...))
	assert.Equal(t, tracing.Flow{Accepted: 300, Duplicate: first, Actions: 300}, metered)
}

var errFull = errors.New("the log is full")

// Followers in the process that recorded a batch share it, decoded. The log does
// not keep it in memory; later followers decode the same.
func TestRecorder_sharesItsBatchesWithFollowers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	log, page := newMemoryLog(), make([]eventlog.Entry, 2)
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	recordBy(t, recorder, product, does("s1", "ada", "a", 1), does("s1", "ada", "b", 2))
	n, err := log.Read(t.Context(), product, eventlog.ID{}, page)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	decode := func() *activity.Batch {
		b, err := page[0].Decode()
		require.NoError(t, err)
		return b
	}
	withoutIDs := func(b activity.Batch) activity.Batch {
		b.Actions = slices.Clone(b.Actions)
		for i := range b.Actions {
			require.NotEmpty(t, b.Actions[i].ID)
			b.Actions[i].ID = ""
		}
		return b
	}
	shared, message := decode(), page[0].Message()
	delivered, err := message.Batch()
	require.NoError(t, err)
	require.Same(t, shared, delivered)
	require.Same(t, shared, decode())
	recorded := withoutIDs(*shared)
	shared, message, delivered = nil, feed.Message{}, nil
	runtime.GC()
	require.Equal(t, recorded, withoutIDs(*decode()))
	require.NotSame(t, decode(), decode(), "the log does not keep it")
}

// A server whose clock is wrong records actions at their time by the log's clock, and later reports
// to other servers are newer.
func TestRecorder_goesByTheClockOfTheLog(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			wrong := musttest.New(eventlog.NewRecorder(&watchtest.Log{Log: r.log, Skew: -ahead}, nil))
			now := time.Now().Add(-ahead) // by the log's clock
			report := func(by *eventlog.Recorder, clock time.Duration, user, title string, second int) {
				t.Helper()
				e := does("s", user, title, 0)
				e.Email = user + "@x.example"
				e.Received = now.Add(clock + time.Duration(second)*time.Second)
				e.Time = time.Time{}
				recordBy(t, by, product, e)
			}
			report(wrong, ahead, "eve", "first", 0)
			report(r.Recorder, 0, "ada", "second", 1)
			report(wrong, ahead, "ada", "third", 2)
			got := r.batches(t)
			require.Len(t, got, 3)
			for i, want := range []string{"eve", "ada", "ada"} {
				assert.Equal(t, want, got[i].Actions[0].UserID)
				assert.Equal(t, want+"@x.example", got[i].Email)
				assert.InDelta(t, activity.Seconds(now)+float64(i), got[i].Actions[0].TimestampStart, 0.5)
			}
		})
	}
}

// A time for which a sender vouches is the same at every server, so events keep their order.
func TestRecorder_leavesTimesThatAreVouchedFor(t *testing.T) {
	r := newRecording(t)
	sent := time.Now().Add(-time.Minute).Round(0)
	for i, ahead := range []time.Duration{0, 2 * time.Second, -2 * time.Second, time.Hour} {
		by := musttest.New(eventlog.NewRecorder(&watchtest.Log{Log: r.log, Skew: -ahead}, nil))
		e := does("s", "ada", fmt.Sprint(i), 0)
		e.Time, e.ServerTime, e.Received = sent.Add(time.Duration(i)*time.Second), true, time.Now().Add(ahead)
		recordBy(t, by, product, e)
	}
	for i, b := range r.batches(t) {
		assert.InDelta(t, activity.Seconds(sent)+float64(i), b.Actions[0].TimestampStart, 0.001)
	}
}

// An event without a time of arrival arrives now. A consumer has caught up once an entry was
// forwarded after the date of its stream, which is by the log's clock, too.
func TestRecorder_goesByTheClockOfTheLogForNewEvents(t *testing.T) {
	r := newRecording(t)
	fast := musttest.New(eventlog.NewRecorder(&watchtest.Log{Log: r.log, Skew: -time.Hour}, nil))
	e := does("s", "ada", "now", 0)
	e.Time = time.Now()
	recordBy(t, fast, product, e)
	now, b := activity.Seconds(time.Now().Add(-time.Hour)), r.batches(t)[0]
	assert.InDelta(t, now, b.Actions[0].TimestampStart, 10)
	assert.InDelta(t, now, b.ForwardedAt, 60)
}

// An event without a time happened its age before its arrival, whatever the clock of its session shows.
func TestRecorder_placesAnEventWithoutATimeByItsAge(t *testing.T) {
	r := newRecording(t)
	now := time.Now()
	timed, aged := does("s", "ada", "timed", 0), does("s", "ada", "aged", 0)
	timed.Received = now.Add(-time.Minute)
	timed.Time, timed.Sent = timed.Received.Add(time.Hour), timed.Received.Add(time.Hour)
	aged.Time, aged.Age, aged.Received = time.Time{}, 5*time.Second, now
	recordBy(t, r.Recorder, product, timed)
	recordBy(t, r.Recorder, product, aged)
	got := r.batches(t)
	assert.InDelta(t, activity.Seconds(now)-60, got[0].Actions[0].TimestampStart, 0.1)
	assert.InDelta(t, activity.Seconds(now)-5, got[1].Actions[0].TimestampStart, 0.1)
}

// clicks is a click that marks may follow, and marks an event with a mark.
func clicks(user, title string, second float64) activity.Event {
	e := does("s", user, title, second)
	e.ID, e.Markable = fmt.Sprint("click ", user, title, second), true
	return e
}

func marks(mark, user, title string, second float64) activity.Event {
	e := does("s", user, title, second)
	e.ID, e.Action.Marks = strings.Join([]string{mark, user, title}, " "), []string{mark}
	return e
}

// A mark shows on the nearest matching click, at once or as a later entry with that click's index.
// All views of activity have the click once.
func TestRecorder_marksTheClickThatAMarkCameWith(t *testing.T) {
	bothMarks := marks("both", "ada", "Pay", 0)
	bothMarks.Action.Marks = []string{activity.MarkRage, activity.MarkDead}
	type shown struct {
		index  int
		words  string
		marked string
	}
	for name, c := range map[string]struct {
		requests [][]activity.Event
		missed   int
		stream   []shown
		lookup   []string
	}{
		"in one request": {
			[][]activity.Event{{marks("rage", "ada", "Pay", 0.9), clicks("ada", "Pay", 0), clicks("ada", "Pay", 1)}}, 0,
			[]shown{{0, "User did Pay", ""}, {1, "User did Pay, repeatedly", "rage"}},
			[]string{"User did Pay", "User did Pay, repeatedly"}},
		"later": {
			[][]activity.Event{{clicks("ada", "Pay", 0), does("s", "ada", "Scroll", 1)},
				{marks("dead", "ada", "Pay", 0.1), clicks("ada", "Help", 4)}}, 0,
			[]shown{{0, "User did Pay", ""}, {1, "User did Scroll", ""}, {0, "User did Pay, and nothing happened", "dead"},
				{2, "User did Help", ""}},
			[]string{"User did Pay, and nothing happened", "User did Scroll", "User did Help"}},
		"out of turn": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {does("s", "ada", "Scroll", 1), marks("dead", "ada", "Pay", 1.5)}}, 0,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, and nothing happened", "dead"}, {1, "User did Scroll", ""}},
			[]string{"User did Pay, and nothing happened", "User did Scroll"}},
		"both, one after the other": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {marks("dead", "ada", "Pay", 0)}, {marks("rage", "ada", "Pay", 0)}}, 0,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, and nothing happened", "dead"},
				{0, "User did Pay, repeatedly, and nothing happened", "rage dead"}},
			[]string{"User did Pay, repeatedly, and nothing happened"}},
		"again": {
			[][]activity.Event{{clicks("ada", "Pay", 0), marks("rage", "ada", "Pay", 0)}, {marks("rage", "ada", "Pay", 0)}}, 1,
			[]shown{{0, "User did Pay, repeatedly", "rage"}}, []string{"User did Pay, repeatedly"}},
		"both at once": {
			[][]activity.Event{{clicks("ada", "Pay", 0)}, {bothMarks}, {marks("dead", "ada", "Pay", 0)}}, 1,
			[]shown{{0, "User did Pay", ""}, {0, "User did Pay, repeatedly, and nothing happened", "rage dead"}},
			[]string{"User did Pay, repeatedly, and nothing happened"}},
		"of no click": {
			[][]activity.Event{{clicks("ada", "Pay", 0), does("s", "ada", "Buy", 0)}, {marks("rage", "ada", "Pay", 2.1),
				marks("rage", "bob", "Pay", 0), marks("dead", "ada", "Buy", 0)}}, 3,
			[]shown{{0, "User did Pay", ""}, {1, "User did Buy", ""}}, []string{"User did Pay", "User did Buy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			missed := 0
			for _, events := range c.requests {
				result := r.record(t, events...)
				missed += result.Unmarked
				assert.Equal(t, len(events), result.Accepted+result.Unmarked)
			}
			assert.Equal(t, c.missed, missed)
			var stream []shown
			for _, b := range r.batches(t) {
				for i, a := range b.Actions {
					require.True(t, i == 0 || b.Actions[i-1].TimestampStart <= a.TimestampStart, "in time order")
					stream = append(stream, shown{a.Index, a.Description, strings.Join(a.Marks, " ")})
				}
			}
			assert.Equal(t, c.stream, stream)
			var lookup []string
			for _, a := range r.actions(t, "ada") {
				lookup = append(lookup, a.Description)
			}
			assert.Equal(t, c.lookup, lookup)

			for _, events := range c.requests { // sent again, as SDKs do
				assert.Zero(t, r.record(t, events...).Accepted)
			}
			assert.Empty(t, r.entries(t))
		})
	}
}

// A session remembers only a few clicks, the newest.
func TestRecorder_marksNewClicksOnly(t *testing.T) {
	r := newRecording(t)
	titles := strings.Split("abcdefghi", "")
	for i, title := range titles {
		r.record(t, clicks("ada", title, float64(i)/10))
	}
	assert.Equal(t, 1, r.record(t, marks("rage", "ada", "a", 0)).Unmarked)
	assert.Equal(t, 1, r.record(t, marks("rage", "ada", "b", 0.1)).Accepted)
	assert.Equal(t, titles, r.stored(t, "ada"))
}
