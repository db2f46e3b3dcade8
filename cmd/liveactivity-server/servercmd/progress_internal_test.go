package servercmd

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestLogProgress_logsEveryFewSecondsOfALongOperation(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Second: 0, 8 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			var out logtest.Buffer
			began := time.Now()
			logProgress(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), func() eventlog.Progress {
				since := time.Since(began)
				return eventlog.Progress{Read: int64(since / time.Second), Entries: 9, Done: since > took}
			})
			require.Equal(t, want, strings.Count(out.String(), "\n"))
			for i := range want {
				assert.Contains(t, out.String(), fmt.Sprintf(`msg="reading the log back" entries=%d of=9`, 3*(i+1)))
			}
		})
	}
}
