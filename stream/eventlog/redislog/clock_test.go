package redislog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// Servers whose clocks differ agree on the time: it is that of Redis, from the
// first connection on.
func TestServers_agreeOnTheTime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for name, ahead := range map[string]time.Duration{"fast": time.Hour, "slow": -time.Hour, "right": 0} {
			t.Run(name, func(t *testing.T) {
				log, err := redislog.Open(url, &redislog.Options{Prefix: "clock"})
				require.NoError(t, err)
				defer log.Release()
				log.SetClock(func() time.Time { return time.Now().Add(ahead) })
				require.NoError(t, log.Ping(t.Context()))
				assert.WithinDuration(t, time.Now(), log.Now(), 10*time.Second)
			})
		}
	})
}
