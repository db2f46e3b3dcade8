package connector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// following is a service whose connector follows its log, and a desk.
type following struct {
	*service
	desk *desk
	stop func() // ends Follow, and returns when it has
}

// withDesk runs a test of a product with one desk in a bubble.
func withDesk(t *testing.T, notes Notes, opts *Options, test func(t *testing.T, f *following)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		s := newService(t, musttest.New(eventlog.NewMemoryLog(eventlog.Retention{})), Product{Desks: []Desk{{"zendesk", d}}, Notes: notes}, opts)
		f := &following{s, d, nil}
		f.follow(t)
		time.Sleep(time.Minute)
		test(t, f)
		f.stop()
	})
}

// follow lets a connector over the same log follow it.
func (f *following) follow(t testing.TB) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c := f.Connector
	go func() { done <- c.Follow(ctx, "acme", musttest.New(eventlog.NewSource(c.log, "acme"))) }()
	f.stop = func() {
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestFollow_flushesThePreLinkWindowAtTheLink(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.visit(t, "s", "early")
		time.Sleep(3 * time.Minute)
		f.visitAs(t, "s", "", "", time.Now().Add(-time.Hour), "old, reported late")
		f.visit(t, "s", "a")
		f.visit(t, "other", "x")
		time.Sleep(4 * time.Second)
		f.visit(t, "s", "b")
		assert.Empty(t, f.desk.texts("7"))
		f.linkAs(t, "7", "s", byWebhook)
		synctest.Wait()
		assert.Equal(t, []string{"[1] User visited a\n\n[2] User visited b"}, f.desk.texts("7"))
		f.visit(t, "s", "c")
		f.visit(t, "other", "y")
		synctest.Wait()
		assert.Equal(t, []string{"[1] User visited a\n\n[2] User visited b", "[1] User visited c"}, f.desk.texts("7"))
	})
}

func TestFollow_mergesByTheDebounceTimeWithoutStarving(t *testing.T) {
	notes := DefaultNotes()
	notes.Debounce, notes.Bin, notes.SummaryThreshold = 4*time.Second, 0, 0
	withDesk(t, notes, nil, func(t *testing.T, f *following) {
		f.visit(t, "s", "a")
		f.linkAs(t, "7", "s", byWebhook)
		synctest.Wait()
		require.Len(t, f.desk.texts("7"), 1)
		f.visit(t, "s", "b")
		time.Sleep(3 * time.Second)
		f.visit(t, "s", "c")
		time.Sleep(4*time.Second - time.Nanosecond)
		require.Len(t, f.desk.texts("7"), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, "[1] User visited b\n[2] User visited c", f.desk.texts("7")[1])
		for range 20 {
			f.visit(t, "s", "d")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Len(t, f.desk.texts("7"), 3, "3 × the debounce time after the first")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Len(t, f.desk.texts("7"), 4)
	})
}

func TestFollow_takesOverWhatAnotherHasNotWritten(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.visit(t, "s", "a")
		f.linkAs(t, "7", "s", byWebhook)
		synctest.Wait()
		f.stop()
		f.visit(t, "s", "b")
		time.Sleep(time.Hour)
		f.visit(t, "s", "c")
		f.service = newService(t, f.log, Product{Desks: []Desk{{"zendesk", f.desk}}, Notes: DefaultNotes()}, nil)
		f.follow(t)
		synctest.Wait()
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b\n\n[2] User visited c"}, f.desk.texts("7"))
	})
}

func TestFollow_looksBeforeItWritesAgain(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		lose := 2
		f.desk.lose = func(op, _ string) *helpdesk.APIError {
			if op == "note" && lose > 0 {
				lose--
				return &helpdesk.APIError{}
			}
			return nil
		}
		f.visit(t, "s", "a")
		f.linkAs(t, "7", "s", byWebhook)
		time.Sleep(time.Minute)
		f.visit(t, "s", "b")
		time.Sleep(time.Minute)
		f.visit(t, "s", "c")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b", "[1] User visited c"}, f.desk.texts("7"))
		assert.Equal(t, 2, f.desk.count("find"))
		assert.Equal(t, 3, f.desk.count("note"))
	})
}
