package outage_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/outage"
)

func TestLevel_isDebugForAMarkedError(t *testing.T) {
	marked := fmt.Errorf("read: %w", outage.Mark(errors.New("refused")))
	assert.Equal(t, slog.LevelDebug, outage.Level(marked, slog.LevelError))
	assert.Equal(t, slog.LevelError, outage.Level(errors.New("refused"), slog.LevelError))
	assert.Equal(t, slog.LevelDebug, new(outage.Pace).Level(marked))
}

func TestPace_isDueOnceInATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p outage.Pace
		assert.True(t, p.Due(time.Minute))
		time.Sleep(time.Minute - 1)
		assert.False(t, p.Due(time.Minute))
		time.Sleep(time.Nanosecond)
		assert.True(t, p.Due(time.Minute))
	})
}

func TestPace_warnsOnceAMinuteOfEachOfEightCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p outage.Pace
		warned := func() (n int) {
			for cause := range 10 {
				for range 2 {
					if p.Level(fmt.Errorf("cause %d", cause)) == slog.LevelWarn {
						n++
					}
				}
			}
			return n
		}
		assert.Equal(t, 8, warned())
		time.Sleep(time.Minute - 1)
		assert.Zero(t, warned())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 8, warned())
	})
}
