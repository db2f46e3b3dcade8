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
			said := int64(0)
			for i := range products {
				said += m.Bytes(fmt.Sprint("product", i))
			}
			assert.LessOrEqual(t, said, int64(total))
			runtime.KeepAlive(m)
		})
	}
}
