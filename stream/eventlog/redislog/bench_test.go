package redislog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// batch returns an entry of n actions of a user in a session.
func batch(user string, n int) eventlog.Entry {
	now := time.Now()
	actions := make([]activity.Action, n)
	for i := range actions {
		actions[i] = activitytest.Click(now.Add(time.Duration(i)*time.Millisecond), "Export CSV", page)
	}
	b := activitytest.NewBatch(product, "session-"+user, user, actions...)
	e := eventlog.Entry{SessionID: b.SessionID, Batch: &b, Keys: make([]activity.Key, n)}
	for i, a := range actions {
		e.Keys[i] = activity.EventKey(a.ID)
	}
	e.Data, _ = jsontext.Marshal(b) // a batch always encodes
	return e
}

// BenchmarkRead reads entries that another server appends, as a reader who keeps up.
func BenchmarkRead(b *testing.B) {
	url := redistest.Start(b).URL()
	from, to := open(b, url, &redislog.Options{Prefix: "la"}), open(b, url, &redislog.Options{Prefix: "la"})
	r := follow(b, to, newest(b, to))
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		entries := make([]eventlog.Entry, min(20, b.N-sent))
		for i := range entries {
			entries[i] = batch("user", 1)
			entries[i].Batch = nil
		}
		require.NoError(b, from.Append(b.Context(), product, entries))
		sent += len(entries)
	}
	waittest.Until(b, "all is read", func() bool { return len(r.read()) == b.N })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
