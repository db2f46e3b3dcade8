package connector

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestWant_takesAPartOfAnEntry(t *testing.T) {
	id := eventlog.ID{Milli: 9}
	actions := make([]activity.BatchAction, 5)
	for i := range actions {
		actions[i].Index = 10 + i
	}
	w := &want{at: cursor{Inside: id, Actions: 1, Next: 11}}
	w.takeActions(id, &activity.Batch{Actions: actions})
	require.Len(t, w.found, 4)
	assert.Equal(t, cursor{Inside: id, Actions: 3, Next: 13}, w.found[1].after)
	assert.Equal(t, cursor{After: id, Next: 15}, w.at)
	assert.Zero(t, w.trimmed)

	w = &want{at: cursor{Inside: id, Actions: 3, Next: 13}}
	w.takeActions(id, &activity.Batch{Actions: actions[2:]}) // without two that were erased
	assert.Len(t, w.found, 2)
}

// Before the link, the only sign of a claimed user's action is that it has neither the user nor the
// address of its batch. A visitor who signs in is no claimed user.
func TestWant_leavesOutClaimsBeforeTheLink(t *testing.T) {
	kept := func(userID, email, batchUser, signsIn string) bool {
		w := &want{session: session{LinkedAt: 1}, conversationID: "7"}
		a := activity.BatchAction{UserID: userID, Email: email}
		w.takeActions(eventlog.ID{Milli: 9}, &activity.Batch{UserID: batchUser, Email: "ada@x.example",
			Actions: []activity.BatchAction{a}})
		w.identify(&feed.Identity{AnonymousID: signsIn, UserID: "ada", ConversationID: "7"})
		w.decide()
		return w.found[0].kept
	}
	for _, c := range []struct {
		name, user, email, batch string
		kept                     bool
	}{
		{"the session's user", "ada", "ada@x.example", "ada", true},
		{"a claimed user", "eve", "", "ada", false},
		{"a visitor with the address", "anon", "ada@x.example", "ada", true},
		{"nobody", "", "", "ada", true},
		{"a user in a session of nobody", "eve", "", "", true},
	} {
		assert.Equal(t, c.kept, kept(c.user, c.email, c.batch, "somebody else"), c.name)
		assert.True(t, kept(c.user, c.email, c.batch, "eve"), "%s, who signs in", c.name)
	}
	w := &want{session: session{LinkedAt: 1}, conversationID: "7"}
	w.takeActions(eventlog.ID{Milli: 9}, &activity.Batch{UserID: "ada", Actions: []activity.BatchAction{
		{Action: activity.Action{Index: 1}, UserID: "eve", ConversationID: "7"}, {Action: activity.Action{Index: 1}}}})
	w.decide()
	assert.True(t, w.found[0].kept, "after the link, the action says where it belongs")
	assert.False(t, w.found[1].kept, "to no conversation")
}

// A visitor's click and the same with its mark are one, also after the visitor has signed in.
func TestWant_hasAClickOfAVisitorOnce(t *testing.T) {
	w := &want{session: session{LinkedAt: 2}, conversationID: "7"}
	click := activity.BatchAction{UserID: "anon",
		Action: activity.Action{Type: "click", Title: "Click Save", TimestampStart: 1}}
	marked := click
	marked.Marks = []string{activity.MarkRage}
	w.takeActions(eventlog.ID{Milli: 9}, &activity.Batch{UserID: "ada", Actions: []activity.BatchAction{click, marked}})
	w.identify(&feed.Identity{AnonymousID: "anon", UserID: "ada", ConversationID: "7"})
	w.identify(&feed.Identity{AnonymousID: "anon", UserID: "eve"}) // only the first counts
	w.decide()
	assert.Equal(t, []bool{false, true}, []bool{w.found[0].kept, w.found[1].kept})
}

// A job may read a session, and begin a call only after the session's erasure.
func TestJob_losesTheSummaryAndTheReplyOfAnErasedSession(t *testing.T) {
	for _, erased := range []string{"s", "another"} {
		d := newLinks(t).newDelivery("acme")
		var call func(context.Context) error
		d.spawn = func(work func(context.Context) error) { call = work }
		l := d.lane(linkOf("zendesk/7"), time.Now())
		d.join(l, "s", 1, eventlog.ID{}, false)
		j := &job{d: d, lane: l, erasures: l.erasures}
		*l.ensureMemo() = memo{match: &offering{}, answer: &step{}, draft: &writing{}}
		d.erase(&feed.Erasure{SessionIDs: []string{erased}})
		lost, m := erased == "s", l.memo
		assert.Equal(t, [3]bool{lost, lost, lost}, [3]bool{m.match == nil, m.answer == nil, m.draft == nil}, erased)
		j.think(func(context.Context) func(*memo) {
			return func(m *memo) { m.answer, m.draft = &step{}, &writing{} }
		})
		require.NoError(t, call(t.Context()))
		assert.Equal(t, [2]bool{lost, lost}, [2]bool{m.answer == nil, m.draft == nil}, erased)
		assert.True(t, l.slot.IsSet(), "a model is asked again")
	}
}

// A lead, whose address nobody has verified, may take part in a user's conversation, but not in a chat.
func TestJob_answersALeadFromNoUsersActions(t *testing.T) {
	own, stated := session{ID: "own", ByWebhook: true}, session{ID: "stated", Signed: true}
	for chats, want := range map[bool][]session{true: {own, stated}, false: {stated}} {
		j := &job{can: helpdesk.Capabilities{Chats: chats}}
		j.r.Sessions = []session{own, stated}
		assert.Equal(t, want, j.sessionsFor([]message{{Text: "What did she do?"}}), "a chat: %t", chats)
		assert.Len(t, j.sessionsFor([]message{{ContactID: "k1"}}), 2)
	}
}

// A failed reply delays the answers of its conversation, and no notes.
func TestJob_delaysTheClassThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLinks(t).newDelivery("acme")
		j := &job{d: d, lane: d.lane(linkOf("zendesk/7"), time.Now())}
		reply := &step{kind: kindReply}
		waits := func() time.Duration { return time.Until(j.lane.memo.again[answers]) }
		require.NoError(t, j.absorb(reply, &helpdesk.APIError{Status: http.StatusConflict}))
		assert.GreaterOrEqual(t, waits(), backoffs[answers].Min)
		require.NoError(t, j.absorb(reply, &helpdesk.APIError{Status: http.StatusConflict, Wait: time.Minute}))
		assert.Equal(t, time.Minute, waits())
		require.NoError(t, j.absorb(reply, &pausedError{wait: time.Hour}))
		assert.Equal(t, time.Hour, waits())
		assert.Equal(t, &pausedError{account: true}, j.absorb(reply, &helpdesk.APIError{Status: http.StatusBadGateway}))
		assert.GreaterOrEqual(t, waits(), backoffs[answers].Min)
		assert.Less(t, waits(), time.Hour, "since the last failure")
		assert.Zero(t, j.lane.memo.again[notes])
		for _, err := range []error{&pausedError{account: true}, errNoDocument} {
			require.ErrorIs(t, j.absorb(reply, err), err)
		}
	})
}

// A server whose lease has passed to another changes nothing.
func TestJob_changesNothingWithoutTheLease(t *testing.T) {
	s := newLinks(t)
	s.visit(t, "s", "/a")
	s.linkAs(t, "7", "s", byWebhook)
	lease := musttest.New(document.Acquire(t.Context(), s.store.docs, "acme", "test", 0))
	require.NoError(t, lease.Release(t.Context()))
	r := musttest.New(s.store.read(t.Context(), "acme", linkOf("zendesk/7")))
	j := &job{d: s.newDelivery("acme"), lease: lease, r: r}
	err := j.update(t.Context(), func(c *conversation) error { c.LastNote = "n"; return nil })
	require.ErrorAs(t, err, new(*document.ConflictError))
	after := musttest.New(s.store.read(t.Context(), "acme", linkOf("zendesk/7")))
	assert.Equal(t, r.doc, after.doc)
}

// A session may join a conversation just before that turns out to be gone.
func TestJob_endsAConversationOnlyAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDoors(t, nil)
		s.visit(t, "s", "/a")
		s.visit(t, "late", "/a")
		s.linkAs(t, "7", "s", byWebhook)
		lease := musttest.New(document.Acquire(t.Context(), s.store.docs, "acme", "test", 0))
		d := s.newDelivery("acme")
		j := &job{d: d, lane: d.lane(linkOf("zendesk/7"), time.Now()), lease: lease}
		require.NoError(t, j.reload(t.Context()))
		s.away = errAway
		require.NoError(t, j.gone(t.Context(), errRemoved))
		s.away = nil
		assert.Len(t, s.sessions(t, "7"), 1)
		assert.True(t, j.lane.slot.IsSet(), "storage is asked again")
		j.lane.begin()
		s.linkAs(t, "7", "late", byWebhook)
		require.NoError(t, j.gone(t.Context(), errRemoved))
		assert.Len(t, s.sessions(t, "7"), 2)
		assert.True(t, j.lane.slot.IsSet(), "the desk is asked again")
		before := j.r
		require.NoError(t, j.gone(t.Context(), errRemoved))
		assert.Empty(t, s.sessions(t, "7"))
		assert.InDelta(t, 2, valueOf(t, d.metrics.links.WithLabelValues("acme", "zendesk", "ended")), 0, "of each session")
		j.r = before // as after an answer that was lost
		require.NoError(t, j.gone(t.Context(), errRemoved))
		assert.Empty(t, s.linkedTo(t, "s")+s.linkedTo(t, "late"))
	})
}

// newJob returns a job that has the lease for a while, its lease, a desk, and a function that writes a
// note.
func newJob(t *testing.T) (j *job, lease *document.Lease, d *desk, note func() error) {
	s := newLinks(t)
	lease = musttest.New(document.Acquire(t.Context(), s.store.docs, "acme", "test", document.DefaultLeaseTTL))
	d = newDesk()
	delivery := s.newDelivery("acme")
	j = &job{d: delivery, lane: delivery.lane(linkOf("zendesk/7"), time.Now()),
		lease: lease, desk: d}
	return j, lease, d, func() error {
		return j.perform(t.Context(), &step{kind: kindNote, writing: &writing{Text: "text"}}).err
	}
}

// A job that was let in before the desk limited the account waits like all others.
func TestJob_asksNothingBeforeTheTimeThatTheDeskNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, d, note := newJob(t)
		j.lane.account.observe(notes, &helpdesk.APIError{Status: http.StatusTooManyRequests, Wait: time.Second}, nil)
		time.Sleep(time.Second - time.Nanosecond)
		require.ErrorAs(t, note(), new(*pausedError))
		assert.Zero(t, d.count("note"))
		time.Sleep(time.Nanosecond)
		require.NoError(t, note())
	})
}

// Of the jobs let in before the desk went away, one at a time asks it.
func TestJob_probesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLinks(t).newDelivery("acme")
		a := d.account("zendesk")
		jobs := make([]*job, 2)
		for i := range jobs {
			jobs[i] = &job{d: d, lane: d.lane(Link{"zendesk", strconv.Itoa(i)}, time.Now())}
			jobs[i].lane.begin()
		}
		for range maxInside { // one failure more than the first delays no probe
			a.observe(notes, &helpdesk.APIError{Status: http.StatusBadGateway}, d.logger)
		}
		time.Sleep(time.Second)
		require.ErrorAs(t, jobs[0].permit(notes), new(*pausedError))
		jobs[0].back(time.Now())
		require.NoError(t, jobs[1].permit(notes))
	})
}

// A failure after a success delays its class no longer than a first failure.
func TestJob_forgetsFailuresAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLinks(t).newDelivery("acme")
		j := &job{d: d, lane: d.lane(linkOf("zendesk/7"), time.Now())}
		for _, k := range []kind{kindContact, kindOffer, kindFind, kindRemove} {
			s := &step{kind: k}
			for range 6 {
				require.NoError(t, j.absorb(s, &helpdesk.APIError{Status: http.StatusConflict}))
				require.LessOrEqual(t, time.Until(j.lane.memo.again[k.class()]), 2*backoffs[k.class()].Min)
				require.NoError(t, j.absorb(s, nil))
			}
		}
	})
}

// A server begins no request once its lease may be over, even if it has not noticed.
func TestJob_beginsNothingThatTheLeaseMightNotOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, lease, d, note := newJob(t)
		require.NoError(t, note())
		time.Sleep(document.DefaultLeaseTTL*2/3 + time.Nanosecond)
		require.ErrorAs(t, note(), new(*pausedError))
		require.NoError(t, lease.Renew(t.Context()))
		require.NoError(t, note())
		assert.Equal(t, 2, d.count("note"))
	})
}

// Triggers look at the conversation of a session's newest link, also after jobs of earlier ones
// and after a restart, whose documents come in any order.
func TestDelivery_ordersTheConversationsOfASession(t *testing.T) {
	d := newLinks(t).newDelivery("acme")
	first, second := &lane{key: "zendesk/9"}, &lane{key: "zendesk/12"}
	newest := func() string { return d.bySession["s"][len(d.bySession["s"])-1].key }
	join := func(l *lane, linkedAt int) { d.join(l, "s", linkedAt, eventlog.ID{}, false) }
	join(first, newLink)
	join(first, 0)
	join(second, newLink)
	assert.Equal(t, "zendesk/12", newest())
	join(first, 0)
	assert.Equal(t, "zendesk/12", newest(), "a job of the earlier one runs before the document of the newest was read")
	join(second, 3)
	join(first, 0)
	assert.Equal(t, "zendesk/12", newest(), "or after")
	join(first, newLink)
	assert.Equal(t, "zendesk/9", newest(), "it is linked again")
	join(first, 3)
	assert.Equal(t, "zendesk/9", newest())

	d.bySession = map[string][]*lane{}
	join(second, 3)
	join(first, 0)
	assert.Equal(t, []*lane{first, second}, d.bySession["s"])
}

// With wrong credentials for storage every product fails every second.
func TestStore_warnsOnceAMinuteForAllProducts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		var s store
		for range 90 {
			require.NoError(t, s.awaitStorage(t.Context(), logger.With("product_id", "acme"), errAway))
		}
		require.Equal(t, 2, strings.Count(logged.String(), "conversations wait for storage"), "%s", &logged)
	})
}

// No step of the wall clock moves a due time in memory.
func TestStore_givesTimesOfTheMonotonicClock(t *testing.T) {
	s := newLinks(t).store
	assert.Contains(t, s.hostTime(s.now()).String(), " m=")
	assert.Zero(t, s.hostTime(time.Time{}))
}
