package eventlog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// elsewhere is a log by whose clock this process is ahead.
type elsewhere struct {
	eventlog.Log
	ahead time.Duration
}

func (l elsewhere) Now() time.Time { return time.Now().Add(-l.ahead) }

// A server whose clock is wrong records what happens at the time that it has by
// the log's clock, and what others report later is newer.
func TestRecorder_goesByTheClockOfTheLog(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t)
			wrong := musttest.New(eventlog.NewRecorder(elsewhere{r.log, ahead}, nil))
			now := time.Now().Add(-ahead) // by the log's clock
			report := func(by *eventlog.Recorder, clock time.Duration, user, title string, second int) {
				t.Helper()
				e := does("s", user, title, 0)
				e.Email = user + "@x.example"
				e.Received = now.Add(clock + time.Duration(second)*time.Second)
				e.Time, e.ServerTime = e.Received, true
				_, err := by.Record(t.Context(), product, []activity.Event{e})
				require.NoError(t, err)
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

// By an event that does not say when it arrived, it arrives now.
func TestRecorder_goesByTheClockOfTheLogForWhatArrivesNow(t *testing.T) {
	r := newRecording(t)
	fast := musttest.New(eventlog.NewRecorder(elsewhere{r.log, time.Hour}, nil))
	e := does("s", "ada", "now", 0)
	e.Time = time.Now()
	_, err := fast.Record(t.Context(), product, []activity.Event{e})
	require.NoError(t, err)
	assert.InDelta(t, activity.Seconds(time.Now().Add(-time.Hour)), r.batches(t)[0].Actions[0].TimestampStart, 10)
}
