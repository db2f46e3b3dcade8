package recent_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// All products together hold no more than the bound, for actions of any kind.
func TestMemory_takesNoMoreThanItMay(t *testing.T) {
	const total, products, batches = 1 << 19, 10, 1_250
	long := strings.Repeat("x", 1000)
	for name, of := range map[string]func(i int) (session, user, url string){
		"unique everything": func(i int) (string, string, string) {
			return fmt.Sprint("s", i), fmt.Sprint("u", i), fmt.Sprint(page, i)
		},
		"long ids": func(i int) (string, string, string) {
			return fmt.Sprint(long, i), fmt.Sprint(long, i), page
		},
		"long URLs": func(i int) (string, string, string) {
			return "s", fmt.Sprint("u", i), fmt.Sprint(page, long, long, i)
		},
		"tiny":               func(i int) (string, string, string) { return "", fmt.Sprint(i), "" },
		"sessions of nobody": func(i int) (string, string, string) { return fmt.Sprint(i), "", "" },
		"many sessions of few users": func(i int) (string, string, string) {
			return fmt.Sprint(long, i), fmt.Sprint("u", i%100), page
		},
		"many users of few sessions": func(i int) (string, string, string) {
			return fmt.Sprint("s", i%100), fmt.Sprint("u", i), page
		},
		"users that change their size": func(i int) (string, string, string) {
			return "s", fmt.Sprint("u", i%500), page + long[:i%1000]
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := musttest.New(recent.NewMemory(&recent.MemoryOptions{TotalBytes: total}))
			now := time.Now()
			grown := heaptest.After(func() {
				for i := range batches {
					session, user, url := of(i)
					b := activitytest.NewBatch(fmt.Sprint("product", i*products/batches), session, user,
						activitytest.Click(now.Add(time.Duration(i)*time.Millisecond), "Save", url))
					require.NoError(t, m.Add(t.Context(), b))
				}
			})
			t.Logf("%.2f of the bound", float64(grown)/total)
			assert.LessOrEqual(t, grown, int64(total*12/10))
			runtime.KeepAlive(m)
		})
	}
}
