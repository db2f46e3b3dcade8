// Package browsertest drives Chromium in tests: a browser, isolated tabs in it, and the browser's
// complaints.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Patience is the maximum time for anything on a slow machine.
const Patience = 30 * time.Second

// userAgent is an ordinary user agent, because posthog-js sends nothing from a headless
// browser.
const userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
	"Safari/537.36"

// Start starts Chromium with its own profile and with these options in addition to the usual
// ones, and returns the context in which to open tabs. When the test ends, it ends Chromium and
// removes the profile.
func Start(t testing.TB, more ...chromedp.ExecAllocatorOption) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(depstest.Command(t, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")),
		chromedp.NoSandbox, // root has no sandbox
		chromedp.DisableGPU,
		chromedp.UserAgent(userAgent),
		chromedp.Flag("enable-automation", false),
		chromedp.Flag("disable-blink-features", "AutomationControlled"),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancelAllocator := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	t.Cleanup(cancelAllocator) // kills the remaining processes, and waits for them
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		assert.NoError(t, chromedp.Cancel(ctx), "end Chromium and remove its profile")
	})
	require.NoError(t, chromedp.Do(ctx), "start Chromium")
	return ctx
}

// Tab is the page of a new visitor.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests map[network.RequestID]string
	problems []string
}

// Open opens a tab that shares no cookies or storage with any other.
func Open(t testing.TB, browser context.Context) *Tab {
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &Tab{t: t, ctx: ctx, requests: map[network.RequestID]string{}}
	require.NoError(t, chromedp.Listen(ctx, p.listen), "open a tab")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("complaints of the browser: %q", p.Complaints())
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location + "\n" + document.body.innerText`))
			t.Logf("the page at the end: %s %v", text, err)
		}
	})
	return p
}

// Do performs a visitor's actions.
func (p *Tab) Do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	err := chromedp.Do(ctx, actions...)
	for len(actions) == 1 && isRedrawn(err) {
		err = chromedp.Do(ctx, actions...)
	}
	require.NoError(p.t, err, what)
}

// isRedrawn reports whether an action failed before it did anything, because the page
// redrew the element after it was found.
func isRedrawn(err error) bool {
	var failed *cdproto.Error
	return errors.As(err, &failed) && strings.Contains(failed.Message, "does not have a layout object")
}

// Eval returns the value of a JavaScript expression. If the page navigates away in the meantime,
// it evaluates the expression on the next page.
func (p *Tab) Eval(expression string) (value string) {
	p.t.Helper()
	var err error
	waittest.Until(p.t, expression, func() bool {
		value, err = p.evaluate(expression)
		return !errors.As(err, new(*cdproto.Error))
	})
	require.NoError(p.t, err, expression)
	return value
}

// Await waits until a JavaScript expression is true. An expression that throws is not true,
// since the page may be loading. Await evaluates it from outside, because a page's policy may
// forbid any evaluation inside.
func (p *Tab) Await(what, expression string) {
	p.t.Helper()
	var value string
	var err error
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%s is %s %v", expression, value, err)
		}
	}()
	waittest.Until(p.t, what, func() bool {
		value, err = p.evaluate("String(" + expression + ")")
		return err == nil && value == "true"
	})
}

// evaluate returns the value of an expression. The error is a *cdproto.Error if the page
// navigated away in the meantime, and a *runtime.ExceptionDetails if the expression throws.
func (p *Tab) evaluate(expression string) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[string](expression))
}

// Texts returns the texts of the elements, one per line.
func (p *Tab) Texts(selector string) string {
	p.t.Helper()
	return p.Eval(`[...document.querySelectorAll('` + selector + `')].map(e => e.innerText).join("\n")`)
}

// Context returns the tab's context, for uses beyond the methods. It ends with the test.
func (p *Tab) Context() context.Context { return p.ctx }

// Complaints returns the exceptions, the errors and warnings on the console, and
// the failed requests so far.
func (p *Tab) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

func (p *Tab) listen(event any) {
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
		if !e.Canceled { // navigating away cancels requests in flight
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
