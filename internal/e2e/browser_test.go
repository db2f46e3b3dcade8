package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/testdeps"
)

// userAgent is an ordinary one: from a headless browser posthog-js sends nothing.
const userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// startBrowser starts Chromium with a profile of its own. When the test ends
// Chromium is ended and the profile removed.
func startBrowser(t *testing.T) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(testdeps.Chromium(t)),
		chromedp.NoSandbox, // root has none
		chromedp.DisableGPU,
		chromedp.UserAgent(userAgent),
		chromedp.Flag("enable-automation", false),
		chromedp.Flag("disable-blink-features", "AutomationControlled"),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancelAllocator) // kills what has not ended by then, and waits for it
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		assert.NoError(t, chromedp.Cancel(ctx), "end Chromium and remove its profile")
	})
	require.NoError(t, chromedp.Do(ctx), "start Chromium")
	return ctx
}

// tab is a page of a visitor who was never here before.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests map[network.RequestID]string
	problems []string
}

// openTab opens a tab that shares no cookies and no storage with any other.
func openTab(t *testing.T, browser context.Context) *tab {
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, requests: map[network.RequestID]string{}}
	require.NoError(t, chromedp.Listen(ctx, p.listen), "open a tab")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("complaints of the browser: %q", p.complaints())
		}
	})
	return p
}

// do carries out what a visitor does.
func (p *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, actions...), what)
}

// eval returns the value of a JavaScript expression.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	require.NoError(p.t, err, expression)
	return value
}

// complaints returns the exceptions, the errors and warnings on the console, and
// the failed requests there were.
func (p *tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	complain := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complain("exception: %s %s", e.ExceptionDetails.Text, describe(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			complain("console %s: %s", e.Type, describe(e.Args...))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			complain("browser %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		p.requests[e.RequestID] = e.Request.Method + " " + e.Request.URL
	case *network.EventLoadingFailed:
		if !e.Canceled { // leaving a page cancels requests in flight
			complain("request failed: %s: %s", p.requests[e.RequestID], e.ErrorText)
		}
	}
}

func describe(objects ...*runtime.RemoteObject) (text string) {
	for _, o := range objects {
		if o != nil {
			text += fmt.Sprintf("%s%s ", o.Value, o.Description)
		}
	}
	return text
}
