package servercmd

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestOpenLog_refusesAWrongRedisURLWithoutRepeatingIt(t *testing.T) {
	for _, url := range []string{"localhost:6379", "http://:s3cr3t@localhost", "redis://:s3cr3t@local host",
		"redis://:s3cr3t@localhost/x", "redis://:s3cr3t@localhost?pool_size=x"} {
		_, err := (&settings{RedisURL: url}).openLog(slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "--redis-url", url)
		assert.NotContains(t, err.Error(), "s3cr3t")
	}
}

func TestOpenLog_refusesAFolderThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	release, err := (&settings{DataDir: dir}).openLog(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, err = (&settings{DataDir: dir}).openLog(slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "--data-dir: ")
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, release())
}

// The store in memory has the same bound as the other state in the file.
func TestOpenLog_boundsTheStoreByTheLimitsOfAFile(t *testing.T) {
	for given, want := range map[int64]int64{0: eventlog.DefaultLastingStateMaxBytes, 1 << 20: 1 << 20} {
		s := settings{DataDir: t.TempDir(),
			Options: liveactivity.Options{Retention: eventlog.Retention{StateMaxBytes: given}}}
		release, err := s.openLog(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Equal(t, want, s.Retention.StateMaxBytes)
		require.NoError(t, release())
	}
}

func TestProgressLines_areLoggedEveryFewSecondsOfALongOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		report := progressLines(slog.New(slog.NewTextHandler(&out, nil)))
		for done := range int64(8) { // each takes a second
			report(done, 9)
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2)
		assert.Contains(t, lines[0], `msg="reading the log back" bytes=3 of=9`)
		assert.Contains(t, lines[1], "bytes=6 of=9")
	})
}
