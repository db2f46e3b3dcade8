package connector

import (
	"encoding/json"
	"fmt"
	"testing"

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
		w = &want{session: session{ID: "s"}, conversationID: "7", from: w.reached, room: 1 << 30}
		require.NoError(t, scan(t.Context(), log, "acme", []*want{w}))
		require.LessOrEqual(t, len(w.Others), maxVisitors)
	}
	assert.Equal(t, visitors/maxVisitors+1, scans, "all are read")
}
