package document_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// All products together stay within the bound, for writes of any kind.
func TestMemory_staysWithinItsTotalBound(t *testing.T) {
	const total, products, writes = 1 << 20, 10, 6250
	for name, doc := range map[string]func(i int) document.Document{
		"tiny": func(i int) document.Document { return document.Document{Name: fmt.Sprint(i)} },
		"long names": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(strings.Repeat("n", 900),
				i)}
		},
		"small values": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(i), Value: make([]byte, i%200)}
		},
		"mixed": func(i int) document.Document {
			return document.Document{Name: fmt.Sprint(i), Value: make([]byte, i%17*i%4000)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(document.NewMemory(&document.MemoryOptions{TotalBytes: total}))
			grown := heaptest.After(func() {
				for i := range writes {
					d := doc(i)
					_, err := m.Write(t.Context(), fmt.Sprint("product", i*products/writes),
						document.Put(d, d.Value, time.Duration(1+i%7)*time.Hour))
					require.NoError(t, err)
				}
			})
			t.Logf("%.2f of the bound", float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*12/10))
			runtime.KeepAlive(m)
		})
	}
}

// A product that writes as much as it can evicts no other product's documents.
func TestMemory_evictsFromTheLargestProduct(t *testing.T) {
	m := musttest.New(document.NewMemory(&document.MemoryOptions{TotalBytes: 1 << 20}))
	for i := range 100 {
		put(t, m, fmt.Sprint("quiet", i), time.Hour)
	}
	for i := range 10_000 {
		_, err := m.Write(t.Context(), "loud", document.Put(document.Document{Name: fmt.Sprint(i)},
			make([]byte, 500), time.Hour))
		require.NoError(t, err)
	}
	assert.Len(t, strings.Fields(kept(t, m)), 100)
	assert.Greater(t, m.Bytes("loud"), int64(700_000), "the bound is used up")
	assert.LessOrEqual(t, m.Bytes("loud")+m.Bytes(product), int64(1<<20))
}
