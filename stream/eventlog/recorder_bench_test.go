package eventlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// BenchmarkRecorder records requests of sessions that are known, with a user and
// without an e-mail address, as most are.
func BenchmarkRecorder(b *testing.B) {
	for _, size := range []int{1, 20} {
		b.Run(fmt.Sprintf("events=%d", size), func(b *testing.B) {
			log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 32 << 20}}))
			recorder := musttest.New(eventlog.NewRecorder(log, nil))
			events := make([]activity.Event, size)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				for i := range events {
					a := activity.NewAction(activity.TypeClick, activity.Target{Label: "Buy"}, "https://app.example.com/projects/42?tab=open")
					who := fmt.Sprint((n*size + i) % 1000)
					events[i] = activity.Event{ID: uuid.NewString(), Time: time.Now(), Received: time.Now(),
						SessionID: "session-" + who, UserID: "user-" + who, Action: &a}
				}
				_, err := recorder.Record(b.Context(), product, events)
				require.NoError(b, err)
			}
		})
	}
}
