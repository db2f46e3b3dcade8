//go:build unix

package connector

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// Nothing of the product starts during a scan, and anyone with the capture token can choose its
// actions.
func TestScan_costsLittleMoreThanDecoding(t *testing.T) {
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
			decoding := entries * cpuTime(t, func() { require.NoError(t, json.Unmarshal(data, &activity.Batch{})) })
			w := &want{session: session{ID: "s", Since: now - 60, Others: []string{"eve"}}, conversationID: "7", room: 1 << 30}
			cost := cpuTime(t, func() { require.NoError(t, scan(t.Context(), log, "acme", []*want{w})) })
			t.Logf("%d actions: %s, decoding %s", len(w.found), cost, decoding)
			require.Len(t, w.found, entries*each)
			assert.Less(t, cost, 8*decoding, "one is its own")
		})
	}
}

// cpuTime returns the processor time that a call takes, which other processes do not lengthen.
func cpuTime(t *testing.T, call func()) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begun := used()
	call()
	return used() - begun
}
