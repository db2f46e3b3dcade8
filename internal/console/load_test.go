package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/browsertest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const (
	loadTime     = 6 * time.Second
	loadSessions = 10_000
	loadRate     = 400 // actions a second, twice the required rate
)

// staysResponsive lets 10,000 sessions do 400 things a second, and reads Chromium's figures of the
// page.
func staysResponsive(t *testing.T, browser context.Context) {
	f := newFake()
	for i := range loadSessions {
		f.rows = append(f.rows, row(fmt.Sprintf("session-%05d", i), fmt.Sprint("user_", i),
			fmt.Sprintf("person.%05d@example.com", i), "User clicked Export CSV on the billing history page",
			"https://app.example.com/account/billing-history", time.Hour, time.Duration(i)*100*time.Millisecond))
	}
	tab := open(t, browser, serveFake(t, f), "", fakeKey)
	awaitLive(tab)
	// Everything is read, so that the page holds all of it.
	tab.Await("all sessions are read", `(() => { const list = document.querySelector(".now .list-scroll"); `+
		`list.scrollTop = list.scrollHeight; `+
		`return document.querySelector(".now [role=grid]").getAttribute("aria-rowcount") === `+
		`"10001" })()`)
	tab.Eval(`document.querySelector(".now .list-scroll").scrollTop = 0; ""`)

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick, i := time.NewTicker(time.Second/loadRate), 0; ; i++ {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				n := i * 7919 % loadSessions
				if i%10 == 0 {
					n = loadSessions + i // someone new
				}
				f.act(fmt.Sprintf("session-%05d", n), fmt.Sprint("user_", n), "", fmt.Sprint("User clicked button ", i),
					fmt.Sprint("https://app.example.com/page-", i%50), i%100)
			}
		}
	}()
	defer func() {
		stop()
		<-done
	}()

	// The list may be drawn ten times a second, and once by the clock.
	tab.Eval(`drawn = 0;
		new MutationObserver(() => drawn++).observe(document.querySelector(".now .list-space"),
			{subtree: true, childList: true, characterData: true, attributes: true});
		began = performance.now(); ""`)
	first := measure(t, tab)
	cpu, wall := longestTask(t, tab, loadTime)
	last := measure(t, tab)
	t.Log("at first", first, "at last", last, "longest task", cpu, "of CPU time,", wall, "on the clock")
	assert.Less(t, cpu, 200*time.Millisecond)
	waittest.Until(t, "the page takes little more memory than at first", func() bool { // answers on their way do, too
		last = measure(t, tab)
		return last.heap < first.heap+600<<10
	})
	assert.Less(t, last.nodes, 3000, "elements and texts")
	assert.Less(t, last.nodes, first.nodes+500, "elements and texts")
	assert.Less(t, last.listeners, first.listeners+20)
	rate, err := chromedp.Run(tab.Context(), chromedp.Evaluate[float64](`drawn / (performance.now() - began) * 1000`))
	require.NoError(t, err)
	assert.LessOrEqual(t, rate, 11.5, "drawn a second")
	assert.Greater(t, rate, 1.0, "drawn a second")
	assert.Equal(t, "10001", tab.Eval(`document.querySelector(".now [role=grid]").getAttribute("aria-rowcount")`),
		"older sessions make room for new ones")
	awaitRows(tab, "the list follows", "User clicked button", "Page ")
}

// usage is a page's use of memory after garbage collection.
type usage struct{ heap, nodes, listeners int }

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB in %d nodes and %d listeners", float64(u.heap)/(1<<20), u.nodes, u.listeners)
}

func measure(t *testing.T, tab *browsertest.Tab) (u usage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab.Context(), browsertest.Patience)
	defer cancel()
	for range 2 {
		_, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{})
		require.NoError(t, err)
	}
	heap, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, performance.Enable, performance.EnableParams{})
	require.NoError(t, err)
	metrics, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	require.NoError(t, err)
	u.heap = int(heap.UsedSize)
	for _, m := range metrics.Metrics {
		switch m.Name {
		case "Nodes":
			u.nodes = int(m.Value)
		case "JSEventListeners":
			u.listeners = int(m.Value)
		}
	}
	return u
}

// longestTask returns the time of the page's longest task in a while: in its thread's CPU time,
// which is the page's own, and on the clock, which other programs stretch.
func longestTask(t *testing.T, tab *browsertest.Tab, while time.Duration) (cpu, wall time.Duration) {
	t.Helper()
	var mu sync.Mutex
	complete := make(chan struct{})
	// A RunTask is a task of some thread. The page's tasks are by far the longest in this Chromium.
	require.NoError(t, chromedp.Listen(tab.Context(), func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, value := range e.Value {
				var task struct {
					Name      string
					Dur, TDur int64 // microseconds
				}
				if json.Unmarshal(value, &task) == nil && task.Name == "RunTask" {
					cpu, wall = max(cpu, time.Duration(task.TDur)*time.Microsecond),
						max(wall, time.Duration(task.Dur)*time.Microsecond)
				}
			}
		case *tracing.EventTracingComplete:
			select {
			case <-complete:
			default:
				close(complete)
			}
		}
	}))
	ctx, cancel := context.WithTimeout(tab.Context(), while+browsertest.Patience)
	defer cancel()
	timeline := &tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline"},
		ExcludedCategories: []string{"*"}}
	_, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{TraceConfig: timeline})
	require.NoError(t, err)
	time.Sleep(while)
	_, err = chromedp.Call(ctx, tracing.End, cdp.Empty{})
	require.NoError(t, err)
	select {
	case <-complete:
	case <-ctx.Done():
		require.Fail(t, "the trace does not end")
	}
	mu.Lock()
	defer mu.Unlock()
	return cpu, wall
}
