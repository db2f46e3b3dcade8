package retriever_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
)

// visit is a batch of a session's actions in the last minute.
func visit(session, actions int) activity.Batch {
	at := time.Now().Add(-time.Minute)
	did := make([]activity.Action, actions)
	for i := range did {
		url := fmt.Sprintf("https://app.acme.example/projects/%d/tasks/%d", 1000+session%9000, 100+i)
		did[i] = activitytest.Click(at.Add(time.Duration(i)*time.Second), "Mark as done", url)
	}
	b := activitytest.NewBatch("acme", fmt.Sprint("session_", session), fmt.Sprint("user_", session), did...)
	b.Email = fmt.Sprint("user_", session, "@acme.example")
	return b
}

// BenchmarkEvents is a retrieval of 50 chunks of two actions each over a loopback connection, from
// one of a thousand sessions. It is compared with the least work of net/http for as many bytes. The
// median ratio must be at least 0.7.
func BenchmarkEvents(b *testing.B) {
	s := musttest.New(retriever.NewStore(nil))
	for range retriever.DefaultMaxChunks {
		for session := range 1000 {
			add(b, s, visit(session, 2))
		}
	}
	const target, bearer = "/events?session_id=session_7", "Bearer " + apiKey
	mux := newMux(s, &retriever.HandlerOptions{APIKey: apiKey})
	require.Equal(b, retriever.DefaultMaxChunks,
		strings.Count(get(mux, target, "Authorization", bearer).Body.String(), `"title"`))
	httpxtest.Compare(b, mux, target, http.Header{"Authorization": {bearer}})
}

// BenchmarkFootprint fills a store with 100,000 sessions of 10 chunks of two actions each. It
// reports the heap in use, also as a multiple of the records served. It needs about 1 GB.
func BenchmarkFootprint(b *testing.B) {
	const sessions, chunks = 100_000, 10
	var heap, served int64
	for b.Loop() {
		var s *retriever.Store
		heap = heaptest.After(func() {
			s = musttest.New(retriever.NewStore(nil))
			for range chunks {
				for session := range sessions {
					add(b, s, visit(session, 2))
				}
			}
		})
		require.Equal(b, sessions, s.Sessions())
		h, whole := newMux(s, nil), int64(0)
		for session := range 1000 {
			whole += int64(get(h, fmt.Sprint("/events?session_id=session_", session)).Body.Len())
		}
		served = whole * sessions / 1000
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(heap)/sessions, "bytes/session")
	b.ReportMetric(float64(heap)/float64(served), "x-of-json")
}
