package registry

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestRun_asksForNothingUntilSomethingIsRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newWatchedLog()
		here, there := attached(t, log), registryOn(log)
		first := register(t, here, "first", false)
		var looked atomic.Bool
		log.After = func(_ context.Context, op watchtest.Op, err error) error {
			if op.Name == "list" && !looked.Swap(true) {
				register(t, here, "meanwhile", false)
			}
			return err
		}
		run(t, there)
		synctest.Wait()
		assert.Equal(t, []string{"first", "meanwhile"}, there.IDs(), "no registration during a look is missed")
		assertOpen(t, there, first, "first")
		log.bounds.Store(0)
		log.lists.Store(0)
		time.Sleep(time.Hour)
		assert.Zero(t, log.bounds.Load())
		for n := range 300 {
			register(t, here, fmt.Sprint("p", n), false)
		}
		require.NoError(t, here.Unregister(t.Context(), "first"))
		synctest.Wait()
		assert.Len(t, there.IDs(), 301)
		assertVoid(t, there, first, "first")
		assert.Zero(t, log.lists.Load(), "the entries say which registrations to read")
	})
}

func TestLoad_listsEverythingAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		away := attached(t, log)
		here := attached(t, log)
		register(t, here, "gone", false)
		require.NoError(t, away.Load(t.Context()))
		require.NoError(t, here.Unregister(t.Context(), "gone"))
		c := register(t, here, "old", false)
		time.Sleep(2 * eventlog.DefaultTTL)
		register(t, here, "new", false)
		require.NoError(t, away.Load(t.Context()))
		assert.Equal(t, []string{"new", "old"}, away.IDs())
		assertOpen(t, away, c, "old")
	})
}

// lossy is a log that reports entries as lost, up to the ID.
type lossy struct {
	eventlog.Log
	lost eventlog.ID
}

func (l *lossy) Bounds(ctx context.Context, productID string) (eventlog.Bounds, error) {
	bounds, err := l.Log.Bounds(ctx, productID)
	bounds.Lost = l.lost
	return bounds, err
}

func TestLoad_listsEverythingAfterALoss(t *testing.T) {
	log := &lossy{Log: newMemoryLog()}
	r := attached(t, log)
	register(t, r, "kept", false)
	register(t, r, "lost", false)
	require.NoError(t, r.Load(t.Context()))
	docs := musttest.New(log.Documents().Get(t.Context(), OwnProduct, registrationPrefix+"lost"))
	musttest.New(log.Documents().Write(t.Context(), OwnProduct, document.Delete(docs[0])))
	log.lost = r.seen
	require.NoError(t, r.Load(t.Context()))
	assert.Equal(t, []string{"kept"}, r.IDs())
}

// Nobody else has the secrets, so a registration that took effect returns them, even if its answer was lost.
func TestRegister_returnsTheSecretsOfWhatTookEffect(t *testing.T) {
	for _, lost := range []bool{true, false} {
		log := &watchtest.Log{Log: newMemoryLog()}
		log.After = func(_ context.Context, op watchtest.Op, err error) error {
			if op.Name == "append" && lost {
				return errDown
			}
			log.Down.Store(op.Name == "append")
			return err
		}
		r := attached(t, log)
		for _, force := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c := musttest.New(r.Register(ctx, productfile.Product{ProductID: "acme"}, "", force))
			cancel()
			log.Down.Store(false)
			waittest.Until(t, "the key opens the product",
				func() bool { return r.Keys().Check(c.Key, "acme", access.MCP) == nil })
			assertOpen(t, r, c, "acme")
			require.NoError(t, attached(t, log.Log).Keys().Check(c.Key, "acme", access.MCP))
		}
	}
}
