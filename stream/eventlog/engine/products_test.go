package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

func TestProducts_beginsEachProductOnce(t *testing.T) {
	var products engine.Products[string]
	assert.Nil(t, products.Known("acme"))
	var begun atomic.Int32
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for _, id := range []string{"acme", "other"} {
				p := products.Get(id, func() *string {
					begun.Add(1)
					return &id
				})
				assert.Equal(t, id, *p)
			}
		})
	}
	running.Wait()
	assert.EqualValues(t, 2, begun.Load())
	assert.ElementsMatch(t, []*string{products.Known("acme"), products.Known("other")}, products.All())
}
