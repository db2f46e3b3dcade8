package connector

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// A scan takes a few visitors at a time, since it looks for each in all earlier actions.
func TestScan_readsOfAFewVisitorsAtATime(t *testing.T) {
	const visitors, format = 2000, "0198c2f4-7a00-7000-8000-%012d"
	log := musttest.New(memorylog.New(nil))
	b := activity.Batch{Type: activity.BatchType, SessionID: "s"}
	entries := make([]eventlog.Entry, visitors+1)
	for n := range visitors {
		who := feed.Identity{Type: feed.IdentityType, SessionID: "s", UserID: "eve"}
		who.AnonymousID = fmt.Sprintf(format, n)
		b.Actions = append(b.Actions, activity.BatchAction{SessionID: "s", ConversationID: "7", UserID: who.AnonymousID})
		entries[n+1] = eventlog.Entry{SessionID: "s", Data: musttest.New(json.Marshal(who))}
	}
	entries[0] = eventlog.Entry{SessionID: "s", Data: musttest.New(json.Marshal(b))}
	require.NoError(t, log.Append(t.Context(), "acme", entries))
	scans := 0
	w := &want{more: true}
	for ; w.more; scans++ {
		w = &want{membership: membership{conversationID: "7"}, session: "s", from: w.reached, room: 1 << 30}
		require.NoError(t, scan(t.Context(), log, "acme", []*want{w}))
		require.LessOrEqual(t, len(w.others), maxVisitors)
	}
	assert.Equal(t, visitors/maxVisitors+1, scans, "all are read")
}

// Nothing of the product starts during a scan, and anyone with the capture token can choose its
// actions.
func TestScan_takesLittleMoreTimeThanDecoding(t *testing.T) {
	const entries, each = 4, 5000
	now := float64(time.Now().Unix())
	for name, act := range map[string]func(a *activity.BatchAction, n int){
		"too old":                func(a *activity.BatchAction, n int) { a.TimestampStart = now - 3600 },
		"another user's":         func(a *activity.BatchAction, n int) { a.UserID = "eve" },
		"another conversation's": func(a *activity.BatchAction, n int) { a.ConversationID = "8" },
		"marked, all at once":    func(a *activity.BatchAction, n int) { a.Marks = []string{activity.MarkRage} },
		"marked, one after another": func(a *activity.BatchAction, n int) {
			a.TimestampStart += float64(n)
			a.Marks = []string{activity.MarkRage}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := musttest.New(memorylog.New(nil))
			b := activity.Batch{Type: activity.BatchType, SessionID: "s"}
			for n := range each {
				a := activity.BatchAction{SessionID: "s", ConversationID: "7", Action: activity.Action{Type: activity.TypeClick,
					Title: "Click x", Description: "User clicked x", Index: n, TimestampStart: now}}
				act(&a, n)
				b.Actions = append(b.Actions, a)
			}
			data := musttest.New(json.Marshal(b))
			for range entries {
				require.NoError(t, log.Append(t.Context(), "acme", []eventlog.Entry{{SessionID: "s", Data: data}}))
			}
			begun := time.Now()
			require.NoError(t, json.Unmarshal(data, &activity.Batch{}))
			decoding := entries * time.Since(begun)
			of := membership{conversationID: "7", others: []string{"eve"}}
			w := &want{membership: of, session: "s", since: now - 60, room: 1 << 30}
			begun = time.Now()
			require.NoError(t, scan(t.Context(), log, "acme", []*want{w}))
			took := time.Since(begun)
			t.Logf("%d actions: %s, decoding %s", len(w.found), took, decoding)
			require.Len(t, w.found, entries*each)
			assert.Less(t, took, 8*decoding, "one is its own")
		})
	}
}
