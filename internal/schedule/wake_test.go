package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/schedule"
)

func TestWake_endsOneWaitForAllSignalsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := schedule.NewWake(), time.Now()
		w.Signal()
		w.Signal()
		w.Await(t.Context(), time.Second)
		assert.Zero(t, time.Since(began))
		w.Await(t.Context(), time.Second)
		assert.Equal(t, time.Second, time.Since(began), "the time is over")
		w.Await(t.Context(), -time.Second)
		time.AfterFunc(time.Second, w.Signal)
		w.Await(t.Context(), time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Await(ctx, time.Hour)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}
