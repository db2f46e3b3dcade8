package servercmd

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestCheck_namesEveryFlagThatIsWrong(t *testing.T) {
	good := settings{Addr: "127.0.0.1:8080", Options: liveactivity.Options{MaxEvents: 1, Heartbeat: time.Second,
		Retention: eventlog.Retention{TTL: time.Second, MaxBytes: 1 << 20}}}
	tests := map[string]struct {
		change func(*settings)
		want   []string
	}{
		"nothing":            {func(*settings) {}, nil},
		"every host":         {func(s *settings) { s.Addr = ":8080" }, nil},
		"IPv6":               {func(s *settings) { s.Addr = "[::1]:0" }, nil},
		"no port":            {func(s *settings) { s.Addr = "localhost" }, []string{"--addr"}},
		"no address":         {func(s *settings) { s.Addr = "" }, []string{"--addr"}},
		"a URL as address":   {func(s *settings) { s.Addr = "http://127.0.0.1:80" }, []string{"--addr"}},
		"metrics elsewhere":  {func(s *settings) { s.MetricsAddr = "127.0.0.1:0" }, nil},
		"a prefix for Redis": {func(s *settings) { s.RedisURL, s.RedisPrefix = "redis://localhost", "x" }, nil},
		"everything": {func(s *settings) {
			*s = settings{MetricsAddr: "x", DataDir: "x", RedisURL: "x", Options: liveactivity.Options{PublicURL: "x", AdminKey: " x", MaxEvents: -1,
				Heartbeat: -1, Retention: eventlog.Retention{TTL: -1, MaxBytes: -1, StateMaxBytes: -1}}}
		}, []string{"--addr", "--metrics-addr", "--data-dir, --redis-url", "--activity-ttl", "--activity-max-events",
			"--log-max-bytes", "--state-max-bytes", "--admin-key", "--public-url", "--heartbeat"}},
		"too little of everything": {func(s *settings) {
			*s = settings{Addr: ":0", RedisPrefix: "x", Options: liveactivity.Options{Heartbeat: 99 * time.Millisecond,
				Retention: eventlog.Retention{TTL: 999 * time.Millisecond, MaxBytes: 65535, StateMaxBytes: 65535}}}
		}, []string{"--redis-prefix", "--activity-ttl", "--log-max-bytes", "--state-max-bytes", "--heartbeat"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, wrong := good, &command.Mistakes{}
			tt.change(&s)
			s.check(wrong)
			if tt.want == nil {
				require.NoError(t, wrong.Err())
				return
			}
			require.Error(t, wrong.Err())
			lines := strings.Split(wrong.Err().Error(), "\n")[1:]
			require.Len(t, lines, len(tt.want))
			for i, flag := range tt.want {
				assert.True(t, strings.HasPrefix(lines[i], flag+": "), lines[i])
			}
		})
	}
}

func TestOpenLog_refusesAWrongRedisURLWithoutRepeatingIt(t *testing.T) {
	for _, url := range []string{"localhost:6379", "http://:s3cr3t@localhost", "redis://:s3cr3t@local host", "redis://:s3cr3t@localhost/x", "redis://:s3cr3t@localhost?pool_size=x"} {
		_, err := (&settings{RedisURL: url}).openLog(slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "--redis-url", url)
		assert.NotContains(t, err.Error(), "s3cr3t")
	}
}

func TestOpenLog_refusesAFolderThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	open := func() (func() error, error) {
		return (&settings{DataDir: dir, display: newDisplay(io.Discard, "text")}).openLog(slog.New(slog.DiscardHandler))
	}
	release, err := open()
	require.NoError(t, err)
	_, err = open()
	require.ErrorContains(t, err, "--data-dir: ")
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, release())
	release, err = open()
	require.NoError(t, err)
	require.NoError(t, release())
}

// The memory that goes with a file is as large as what else is kept in it.
func TestOpenLog_boundsTheStoreByWhatAFileMayKeep(t *testing.T) {
	for given, want := range map[int64]int64{0: eventlog.DefaultLastingStateMaxBytes, 1 << 20: 1 << 20} {
		s := settings{DataDir: t.TempDir(), display: newDisplay(io.Discard, "text"), Options: liveactivity.Options{Retention: eventlog.Retention{StateMaxBytes: given}}}
		release, err := s.openLog(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Equal(t, want, s.Retention.StateMaxBytes)
		require.NoError(t, release())
	}
}
