package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/flow"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// following is a service whose connector follows its log, and a desk.
type following struct {
	*service
	desk *desk
	done chan error // what Follow returns
	stop func()     // ends Follow, and returns when it has; the end of the test calls it, too
}

// withDesk runs a test of a product with one desk in a bubble.
func withDesk(t *testing.T, notes Notes, opts *Options, test func(t *testing.T, f *following)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		f := newService(t, musttest.New(memorylog.New(nil)),
			Product{Desks: []Desk{{"zendesk", d}}, Notes: notes, TakesClaims: true}, opts).follows(t, d)
		time.Sleep(time.Minute)
		test(t, f)
	})
}

// follows lets the service follow its log until the end of the test.
func (s *service) follows(t testing.TB, d *desk) *following {
	f := &following{service: s, desk: d}
	f.follow(t)
	return f
}

// follow lets a connector over the same log follow it.
func (f *following) follow(t testing.TB) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	f.done = done
	c := f.Connector
	go func() { done <- c.Follow(ctx, "acme", musttest.New(eventlog.NewSource(c.store.log, "acme"))) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	t.Cleanup(func() { f.stop() })
}

// begins has session s view pages, and links it to conversation 7 as a webhook does.
func (f *following) begins(t testing.TB, pages ...string) {
	t.Helper()
	f.visit(t, "s", pages...)
	f.links(t, "7", "s")
}

// links links a session as a webhook does, and waits until the bubble is at rest.
func (f *following) links(t testing.TB, conversationID, sessionID string) {
	t.Helper()
	f.linkAs(t, conversationID, sessionID, byWebhook)
	synctest.Wait()
}

// views has a session view pages, and waits until the bubble is at rest.
func (f *following) views(t testing.TB, sessionID string, pages ...string) {
	t.Helper()
	f.visit(t, sessionID, pages...)
	synctest.Wait()
}

// each has the sessions that many has linked view a page.
func (f *following) each(t testing.TB, n int, page string) {
	t.Helper()
	for i := range n {
		f.visit(t, fmt.Sprint("s", i), page)
	}
}

// A change too long for the store ends its job. Otherwise the desk's other conversations would wait
// for it.
func TestFollow_writesBesideConversationsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		log := before(musttest.New(memorylog.New(nil)), func(op watchtest.Op) error {
			ofFull := strings.HasPrefix(strings.Join(op.Documents, ""), "conversations/zendesk/full")
			if full.Load() && op.Name != "get" && ofFull {
				return document.ErrInvalid
			}
			return nil
		})
		d := newDesk()
		f := newService(t, log, Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}, nil).follows(t, d)
		for i := range maxInside {
			of := fmt.Sprint("of ", i)
			f.visit(t, of, "a")
			f.links(t, fmt.Sprint("full", i), of)
		}
		full.Store(true)
		for i := range maxInside {
			f.visit(t, fmt.Sprint("of ", i), "b")
		}
		time.Sleep(5 * time.Second)
		f.begins(t, "a")
		time.Sleep(5 * time.Second)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
		assert.Len(t, f.desk.texts("full0"), 1)
	})
}

func TestFollow_postsASummaryAndRedactsTheNotesItCovers(t *testing.T) {
	notes := summaries(3)
	var metered, traced tracing.Flow
	opts := &Options{Logger: slog.New(slog.DiscardHandler), Meter: func(productID string, f tracing.Flow) {
		assert.Equal(t, "acme", productID)
		metered = metered.Plus(f)
	}, Tracer: func(s tracing.Step) {
		if s.Name == tracing.Summary {
			traced.Summaries++
		} else {
			traced.Notes++
		}
	}}
	withDesk(t, notes, opts, func(t *testing.T, f *following) {
		f.begins(t, "a")
		for _, page := range []string{"b", "c", "d"} {
			f.views(t, "s", page)
		}
		texts := f.desk.texts("7")
		require.Len(t, texts, 5)
		assert.Equal(t, "[1] User visited c", texts[2], "the note that reaches the threshold is written")
		assert.NotContains(t, texts[3], "[1]")
		assert.Equal(t, "[1] User visited d", texts[4])
		for i, n := range f.desk.notes["7"] {
			assert.Equal(t, i < 3, n.redacted, n.text)
		}
		assert.Equal(t, texts[3], f.sessions(t, "7")[0].Summary)
		f.views(t, "s", "e", "f")
		require.Len(t, f.desk.texts("7"), 6, "a summary that says the same is not written")
		f.views(t, "s", "g", "h")
		f.click(t, "s", "Pay")
		synctest.Wait()
		texts = f.desk.texts("7")
		require.Len(t, texts, 9)
		assert.Equal(t, texts[8], f.sessions(t, "7")[0].Summary)
		assert.Contains(t, texts[8], "clicked Pay")
		for i, n := range f.desk.notes["7"] {
			assert.Equal(t, i < 8, n.redacted, "%s: a summary replaces the notes and the summary before it", n.text)
		}
		assert.Equal(t, tracing.Flow{Notes: 7, Summaries: 2}, metered)
		assert.Equal(t, metered, traced, "as the desk received them")
	})
}

func TestFollow_letsNoNoteWaitForAModel(t *testing.T) {
	notes := summaries(2)
	var mu sync.Mutex
	var prompts []string
	model := func(_ context.Context, prompt string) (string, error) {
		mu.Lock()
		prompts = append(prompts, prompt)
		n := len(prompts)
		mu.Unlock()
		time.Sleep(20 * time.Second)
		if n == 1 {
			return "", errors.New("away")
		}
		return fmt.Sprint("Summary ", n), nil
	}
	withDesk(t, notes, &Options{Model: model, Logger: slog.New(slog.DiscardHandler)}, func(t *testing.T, f *following) {
		f.begins(t, "a", "b")
		assert.Equal(t, []string{"[1] User visited a\n[2] User visited b"}, f.desk.texts("7"))
		time.Sleep(30 * time.Second) // fails
		f.visit(t, "s", "c")
		time.Sleep(10 * time.Second)
		f.views(t, "s", "d") // not covered
		assert.Len(t, f.desk.texts("7"), 3)
		time.Sleep(15 * time.Second)
		assert.Equal(t, []string{"[1] User visited a\n[2] User visited b", "[1] User visited c", "[1] User visited d",
			"Summary 2"}, f.desk.texts("7"))
		for i, n := range f.desk.notes["7"] {
			assert.Equal(t, i < 2, n.redacted, n.text)
		}
		f.visit(t, "s", "e")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, prompts, 3)
		assert.Contains(t, prompts[1], "visited a")
		assert.Contains(t, prompts[1], "visited c")
		assert.NotContains(t, prompts[1], "visited d")
		assert.Contains(t, prompts[2], "The summary so far:\n<data>\nSummary 2\n")
		assert.Contains(t, prompts[2], "visited d")
		assert.Contains(t, prompts[2], "visited e")
		assert.NotContains(t, prompts[2], "visited c")
	})
}

// Each action is written once although a model is still being asked when its conversation ends and
// begins again.
func TestFollow_writesOnceAfterAModelThatOutlivesItsConversation(t *testing.T) {
	notes := summaries(2)
	model := func(context.Context, string) (string, error) { time.Sleep(20 * time.Second); return "Summary", nil }
	withDesk(t, notes, &Options{Model: model, Logger: slog.New(slog.DiscardHandler)}, func(t *testing.T, f *following) {
		f.begins(t, "a", "b")
		f.desk.refuses(failing("", helpdesk.APIError{Status: 422, Gone: true}))
		f.views(t, "s", "c")
		require.Empty(t, f.sessions(t, "7"))
		f.desk.refuses(nil)
		f.linkAs(t, "7", "s", byWebhook)
		time.Sleep(time.Minute)
		f.desk.mu.Lock()
		f.desk.takes = func() time.Duration { return time.Second }
		f.desk.mu.Unlock()
		f.visit(t, "s", "d")
		time.Sleep(time.Minute)
		f.visit(t, "s", "e")
		time.Sleep(time.Minute)
		written := strings.Join(f.desk.texts("7"), "\n")
		for _, page := range []string{"d", "e"} {
			assert.Equal(t, 1, strings.Count(written, "User visited "+page), written)
		}
	})
}

// linksOf returns a session's link to a ticket as a person's.
func linksOf(sessionID, ticketID string) map[string][]Link {
	return map[string][]Link{sessionID: {{"zendesk", ticketID}}}
}

// erase erases the person of a session that is linked to conversation 7.
func (f *following) erase(t testing.TB, sessionID string, redact bool) (planned Erasure) {
	t.Helper()
	data := musttest.New(json.Marshal(feed.Erasure{Type: feed.Erase, ProductID: "acme", SessionIDs: []string{sessionID}}))
	require.NoError(t, f.store.unlink(t.Context(), "acme", Link{"zendesk", "7"}, sessionID))
	return f.erases(t, Person{SessionIDs: []string{sessionID}, Links: linksOf(sessionID, "7")}, redact,
		eventlog.Entry{Data: data})
}

func TestFollow_forgetsTheSummaryOfAnErasedSession(t *testing.T) {
	notes := summaries(2)
	model := func(_ context.Context, prompt string) (string, error) {
		time.Sleep(20 * time.Second)
		return fmt.Sprint("Summary with a secret: ", strings.Contains(prompt, "visited secret")), nil
	}
	for _, goesOn := range []string{"s", "other"} {
		t.Run(goesOn, func(t *testing.T) {
			withDesk(t, notes, &Options{Model: model, Logger: slog.New(slog.DiscardHandler)}, func(t *testing.T, f *following) {
				f.visit(t, "s", "secret", "b")
				f.visit(t, "other", "a")
				for _, session := range []string{"s", "other"} {
					f.links(t, "7", session)
				}
				f.erase(t, "s", false)
				time.Sleep(time.Minute)
				if goesOn == "s" {
					f.begins(t, "c")
					time.Sleep(time.Minute)
				}
				f.visit(t, goesOn, "d")
				time.Sleep(time.Minute)
				written := f.desk.texts("7")
				assert.NotContains(t, written, "Summary with a secret: true")
				assert.Equal(t, "Summary with a secret: false", written[len(written)-1])
			})
		})
	}
}

func TestFollow_endsTheLinksOfAConversationThatIsGone(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		f.desk.refuses(failing("7", helpdesk.APIError{Status: 422, Gone: true}))
		f.views(t, "s", "b")
		assert.Equal(t, "linked", f.linkAs(t, "8", "s", byWebhook))
		synctest.Wait()
		f.visit(t, "s", "c")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"[1] User visited a\n[2] User visited b", "[1] User visited c"}, f.desk.texts("8"))
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("7"))
		assert.Empty(t, f.sessions(t, "7"))
		assert.InDelta(t, 1, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "gone")), 0)
	})
}

func TestFollow_countsTheNoteInDoubtOfAConversationThatIsGone(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		f.desk.refuses(failing("", helpdesk.APIError{Status: 500, Ambiguous: true}))
		f.views(t, "s", "b", "c")
		f.desk.refuses(failing("7", helpdesk.APIError{Status: 404, Gone: true}))
		f.views(t, "s", "d")
		time.Sleep(time.Minute)
		assert.Empty(t, f.sessions(t, "7"))
		assert.InDelta(t, 3, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "gone")), 0)
	})
}

func TestFollow_endsTheLinksOfAConversationThatARedactionFindsGone(t *testing.T) {
	withDesk(t, summaries(1), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("redact", helpdesk.APIError{Status: 404, Gone: true}))
		f.begins(t, "a")
		require.Equal(t, 1, f.desk.count("redact"))
		assert.Empty(t, f.sessions(t, "7"))
		assert.Equal(t, "linked", f.linkAs(t, "8", "s", byWebhook))
	})
}

func TestFollow_leavesOutANoteThatTheDeskRefusesForGood(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("", helpdesk.APIError{Status: 400}))
		f.begins(t, "a", "b")
		f.desk.refuses(nil)
		f.views(t, "s", "c")
		assert.Equal(t, []string{"[1] User visited c"}, f.desk.texts("7"))
		assert.Equal(t, 2, f.desk.count("note"))
		assert.InDelta(t, 2, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "refused")), 0)
	})
}

// valueOf returns the value of a counter or gauge.
func valueOf(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var written dto.Metric
	require.NoError(t, m.Write(&written))
	return written.GetCounter().GetValue() + written.GetGauge().GetValue()
}

// many links sessions to conversations of their own, and lets one page be written.
func (f *following) many(t *testing.T, n int) {
	for i := range n {
		f.visit(t, fmt.Sprint("s", i), "first")
		f.linkAs(t, fmt.Sprint(i), fmt.Sprint("s", i), byWebhook)
	}
	time.Sleep(time.Minute)
	require.Equal(t, n, f.desk.count("note"))
}

func TestFollow_probesWithOneRequestAtATimeWhileADeskIsAway(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.many(t, 100)
		f.desk.refuses(failing("", helpdesk.APIError{Status: 503}))
		for i := range 100 {
			f.visit(t, fmt.Sprint("s", i), "x")
			f.visit(t, fmt.Sprint("s", i), "y")
		}
		time.Sleep(time.Minute)
		before := f.desk.count("note")
		f.desk.mostAtOnce()
		time.Sleep(time.Hour)
		assert.InDelta(t, 360, f.desk.count("note")-before, 5, "one in ten seconds")
		assert.Equal(t, 1, f.desk.mostAtOnce())
		assert.InDelta(t, 100, f.parkedNow(t), 0)
		synctest.Wait()
		f.desk.refuses(nil)
		time.Sleep(36 * time.Second)
		for i := range 100 {
			assert.Equal(t, []string{"[1] User visited first", "[1] User visited x\n[2] User visited y"},
				f.desk.texts(fmt.Sprint(i)))
		}
		assert.Zero(t, f.parkedNow(t))
		assert.Positive(t, valueOf(t, f.metrics.retries.WithLabelValues("acme", "zendesk", "503")))
	})
}

// The last conversation that waits need not wait longer than many for a desk that is back.
func TestFollow_probesADeskThatIsAwayForOneConversation(t *testing.T) {
	for _, e := range []helpdesk.APIError{{Status: 503}, {Status: 500, Ambiguous: true}, {}} {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			f.begins(t, "first")
			time.Sleep(time.Minute)
			f.desk.refuses(failing("", e))
			f.visit(t, "s", "x")
			time.Sleep(time.Hour)
			f.desk.refuses(nil)
			time.Sleep(lastProbe)
			assert.Contains(t, strings.Join(f.desk.texts("7"), " "), "visited x", e.Status)
		})
	}
}

// A desk that refuses a conversation that it used to accept is away for new conversations, too.
func TestFollow_probesADeskThatIsAwayNoMoreOftenForNewConversations(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "first")
		time.Sleep(time.Minute)
		f.desk.refuses(failing("", helpdesk.APIError{Status: 503}))
		f.visit(t, "s", "x")
		time.Sleep(time.Minute)
		before := f.desk.count("note")
		for i := range 300 {
			f.visit(t, fmt.Sprint("s", i), "x")
			f.linkAs(t, fmt.Sprint("new", i), fmt.Sprint("s", i), byWebhook)
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, f.desk.count("note")-before, 31+refusedProbes)
	})
}

// Conversations that the desk refuses hold up the others only until the refusal is seen. Their further
// attempts close the desk to nobody.
func TestFollow_writesBesideConversationsThatTheDeskRefuses(t *testing.T) {
	const all, healthy = 18, 6
	for _, status := range []int{403, 500} {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			f.many(t, all)
			f.desk.refuses(func(op, conversationID string) *helpdesk.APIError {
				if n, err := strconv.Atoi(conversationID); err == nil && n >= healthy && op == "note" {
					return &helpdesk.APIError{Status: status}
				}
				return nil
			})
			for n := range 20 {
				f.each(t, all, fmt.Sprintf("x%d.", n))
				time.Sleep(4 * time.Second)
				if n == 0 {
					time.Sleep(6 * time.Second)
				}
				synctest.Wait()
				for i := range healthy {
					assert.Contains(t, strings.Join(f.desk.texts(fmt.Sprint(i)), " "), fmt.Sprintf("visited x%d.", n),
						"%d: %d", status, n)
				}
			}
			assert.Less(t, f.desk.count("note"), all+20*healthy+12*12, "those refused keep their back-off")
			for n := range 500 { // each refusal is the conversation's own by now
				f.each(t, 1, fmt.Sprint("y", n))
				time.Sleep(100 * time.Millisecond)
				texts := f.desk.texts("0")
				require.Equal(t, fmt.Sprint("[1] User visited y", n), texts[len(texts)-1])
			}
		})
	}
}

// Conversations that the desk has never accepted anything of say little about the desk, however many
// they are.
func TestFollow_writesBesideManyConversationsThatTheDeskHasAlwaysRefused(t *testing.T) {
	const healthy = 20
	for refused, known := range map[int]bool{10 * healthy: true, 2 * healthy: false} {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			if known {
				f.many(t, healthy)
			}
			f.desk.refuses(func(_, conversationID string) *helpdesk.APIError {
				if n, err := strconv.Atoi(conversationID); err == nil && n >= healthy {
					return &helpdesk.APIError{Status: 503}
				}
				return nil
			})
			for i := healthy + refused - 1; i >= 0; i-- { // the refused ones first
				f.visit(t, fmt.Sprint("s", i), "x")
				f.linkAs(t, fmt.Sprint(i), fmt.Sprint("s", i), byWebhook)
			}
			time.Sleep(5 * time.Second)
			for i := range healthy {
				assert.Contains(t, strings.Join(f.desk.texts(fmt.Sprint(i)), " "), "visited x")
			}
		})
	}
}

// Conversations that the desk refuses for good leave at least half of its limit to others.
func TestFollow_triesRefusedConversationsWithHalfOfTheDesksRate(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.rate = 100
		f.desk.refuses(func(_, conversationID string) *helpdesk.APIError {
			if conversationID == "7" {
				return nil
			}
			return &helpdesk.APIError{Status: 500}
		})
		f.begins(t, "a")
		for i := range 200 {
			f.visit(t, fmt.Sprint("s", i), "x")
			f.linkAs(t, fmt.Sprint("r", i), fmt.Sprint("s", i), byWebhook)
		}
		for range 20 {
			f.visit(t, "s", "b")
			time.Sleep(15 * time.Second)
		}
		before := f.desk.count("note")
		for range 20 {
			f.visit(t, "s", "b")
			time.Sleep(15 * time.Second)
		}
		assert.InDelta(t, 20+250, f.desk.count("note")-before, 60, "in five minutes")
		assert.Equal(t, 40, strings.Count(strings.Join(f.desk.texts("7"), " "), "visited b"))
	})
}

// At a desk's limit, conversations are written one after the other, and one whose request is refused
// keeps its place. The desk takes more than there are requests at a time, so their order does not matter.
func TestFollow_isFairAtADesksLimit(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		const all, limit, window = 200, maxInside + 8, 10 * time.Second
		f.many(t, all)
		f.desk.takes = func() time.Duration { return time.Second / 10 }
		began, asked := time.Now(), map[int]int{}
		f.desk.refuses(func(string, string) *helpdesk.APIError {
			f.desk.mu.Lock()
			defer f.desk.mu.Unlock()
			now := time.Since(began)
			if asked[int(now/window)]++; asked[int(now/window)] <= limit {
				return nil
			}
			return &helpdesk.APIError{Status: http.StatusTooManyRequests, Wait: window - now%window}
		})
		for range 2*(all/maxInside+2) + 1 { // until the middle of a window
			f.each(t, all, "x")
			time.Sleep(window / 2)
		}
		for i := range all {
			assert.Greater(t, len(f.desk.texts(fmt.Sprint(i))), 1, i)
		}
	})
}

func TestBacklog_isHowFarTheNotesAreBehind(t *testing.T) {
	notes := promptNotes()
	notes.Debounce = 3 * time.Second
	registry := prometheus.NewRegistry()
	opts := &Options{Metrics: registry, Logger: slog.New(slog.DiscardHandler)}
	withDesk(t, notes, opts, func(t *testing.T, f *following) {
		backlog := func() string {
			synctest.Wait()
			b := f.Backlog("acme")
			since := metricstest.Sum(t, registry, "liveactivity_notes_parked_since_seconds")
			if since > 0 {
				since = activity.Seconds(time.Now()) - since
			}
			return fmt.Sprint(b.Lag, " ", b.Desks, " ", since)
		}
		f.many(t, 3)
		assert.Equal(t, "0s map[] 0", backlog(), "everything is written")
		f.desk.refuses(failing("", helpdesk.APIError{Status: 503}))
		f.visit(t, "s1", "x")
		time.Sleep(time.Second)
		assert.Equal(t, "0s map[] 0", backlog(), "nothing is due")
		f.visit(t, "s2", "y")
		time.Sleep(time.Minute)
		assert.Equal(t, "1m1s map[zendesk:{2 2}] 61", backlog(), "since the oldest action")
		assert.Equal(t, flow.Backlog{Desks: map[string]flow.Desk{}}, f.Backlog("other"))
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, "0s map[] 0", backlog())
		f.desk.refuses(failing("", helpdesk.APIError{Status: 429, Wait: time.Hour}))
		f.visit(t, "s1", "x")
		time.Sleep(time.Minute)
		f.visit(t, "s2", "y")
		time.Sleep(time.Minute)
		assert.Equal(t, "2m0s map[zendesk:{2 1}] 120", backlog(), "the desk is asked for one of them")
	})
}

// Summaries that wait for the desk's rate are no lag of notes.
func TestBacklog_isOfTheOldestActionInNoNote(t *testing.T) {
	withDesk(t, summaries(1), nil, func(t *testing.T, f *following) {
		var asked time.Time // one request in a second
		f.desk.pauses(func(string) time.Duration { return max(0, time.Until(asked.Add(time.Second))) })
		f.desk.refuses(func(string, string) *helpdesk.APIError { asked = time.Now(); return nil })
		f.begins(t, "home")
		for n := range 100 {
			f.visit(t, "s", fmt.Sprint("page", n))
			time.Sleep(time.Second / 4)
			synctest.Wait()
			assert.LessOrEqual(t, f.Backlog("acme").Lag, 2*time.Second)
		}
	})
}

func TestBacklog_hasAFirstNoteOfActionsFromBeforeItsLink(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.desk.refuses(failing("", helpdesk.APIError{Status: 503}))
		f.visit(t, "s", "x")
		time.Sleep(time.Minute)
		f.links(t, "1", "s")
		time.Sleep(time.Minute)
		assert.Equal(t, flow.Backlog{Lag: time.Minute, Desks: map[string]flow.Desk{"zendesk": {Parked: 1, Retrying: 1}}},
			f.Backlog("acme"), "since the first attempt")
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		assert.Zero(t, f.parkedNow(t))
	})
}

// Between two attempts for a single conversation the server lets the lease go.
func TestBacklog_hasAConversationThatWaitsAlone(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.many(t, 3)
		f.desk.refuses(failing("1", helpdesk.APIError{Status: 429, Wait: 5 * time.Minute, OneConversation: true}))
		f.visit(t, "s1", "x")
		time.Sleep(time.Minute)
		assert.Equal(t, flow.Backlog{Lag: time.Minute, Desks: map[string]flow.Desk{"zendesk": {Parked: 1, Retrying: 1}}},
			f.Backlog("acme"))
	})
}

// parkedNow returns the number of overdue conversations in the backlog.
func (f *following) parkedNow(t testing.TB) (n float64) {
	for _, desk := range f.Backlog("acme").Desks {
		n += float64(desk.Parked)
	}
	return n
}

func TestFollow_aLimitOfOneConversationDelaysNoOther(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.many(t, 3)
		f.desk.refuses(failing("1", helpdesk.APIError{Status: 429, Wait: 5 * time.Minute, OneConversation: true}))
		paused := 0
		f.desk.pauses(func(id string) time.Duration {
			if id == "2" && paused == 0 {
				paused++
				return time.Minute
			}
			return 0
		})
		f.each(t, 3, "a")
		synctest.Wait()
		assert.Len(t, f.desk.texts("0"), 2)
		time.Sleep(4 * time.Minute)
		assert.Equal(t, 6, f.desk.count("note"), "3 first, one each, and one that was refused")
		assert.Len(t, f.desk.texts("2"), 2)
		synctest.Wait()
		f.desk.refuses(nil)
		time.Sleep(2 * time.Minute)
		assert.Len(t, f.desk.texts("1"), 2)
	})
}

// An erasure takes away the note that a conversation has to wait with.
func TestFollow_writesOnAfterAFailedNoteIsErased(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		now := time.Now()
		f.visitAs(t, "s", "alice", "", now, "a")
		f.links(t, "7", "s")
		f.visitAs(t, "t", "bob", "", now, "b")
		f.links(t, "7", "t")
		f.desk.refuses(failing("7", helpdesk.APIError{Status: 429, Wait: time.Minute, OneConversation: true}))
		f.views(t, "s", "c")
		f.erases(t, Person{SessionIDs: []string{"s"}, Links: linksOf("s", "7")}, false)
		synctest.Wait()
		f.desk.refuses(nil)
		f.views(t, "t", "d")
		assert.NotContains(t, f.desk.texts("7"), "[1] User visited d")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b", "[1] User visited d"}, f.desk.texts("7"))
	})
}

func TestFollow_countsTrimmedActions(t *testing.T) {
	const inDoubt = "more comes, and its note is in doubt at first"
	for _, after := range []string{"nothing more comes", "more comes", inDoubt} {
		withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
			f.begins(t, "a")
			f.desk.refuses(failing("", helpdesk.APIError{Status: 500}))
			f.visit(t, "s", "b", "c")
			f.visit(t, "s", "d")
			time.Sleep(3 * time.Hour)
			f.visit(t, "other", "keeps nothing alive")
			f.records(t, activity.Event{ID: "known", Time: time.Now(), SessionID: "s", Email: "ada@acme.example"})
			if after != "nothing more comes" {
				f.visit(t, "s", "e")
			}
			time.Sleep(90 * time.Minute)
			synctest.Wait()
			if after == inDoubt {
				f.desk.refuses(failing("", helpdesk.APIError{Status: 500, Ambiguous: true}))
				time.Sleep(time.Minute)
			}
			f.desk.refuses(nil)
			time.Sleep(time.Minute)
			want := []string{"[1] User visited a"}
			if after != "nothing more comes" {
				want = append(want, "[1] User visited e")
			}
			assert.InDelta(t, 3, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "trimmed")), 0, after)
			assert.Equal(t, want, f.desk.texts("7"))
		})
	}
}

func TestFollow_losesNothingOfANoteInDoubtToTheTrimmingOfTheLog(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		fails := func(e helpdesk.APIError) {
			f.desk.refuses(func(string, string) *helpdesk.APIError { return &e })
		}
		f.begins(t, "a")
		fails(helpdesk.APIError{Status: 503})
		f.visit(t, "s", "b")
		time.Sleep(2 * time.Hour)
		fails(helpdesk.APIError{Status: 502, Ambiguous: true})
		f.visit(t, "s", "c")
		time.Sleep(150 * time.Minute)
		f.visit(t, "other", "keeps nothing alive")
		require.NoError(t, f.record(t.Context(), "s", "", "", time.Now()))
		f.desk.refuses(nil)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"[1] User visited a", "[1] User visited b\n\n[2] User visited c"}, f.desk.texts("7"))
		assert.InDelta(t, 0, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "trimmed")), 0)
	})
}

// No note has another user's actions in the session, and they do not count as lost.
func TestFollow_countsNothingOfOthersAsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		p := Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()}
		f := newService(t, musttest.New(memorylog.New(nil)), p, nil).follows(t, d)
		by := func(user string, standing activity.Standing, page string) {
			e := did(user, page, 0)
			e.Email, e.Standing, e.EmailStanding = user+"@acme.example", standing, standing
			f.records(t, e)
			time.Sleep(5 * time.Second)
		}
		by("ada", activity.Reported, "a")
		require.Equal(t, linked, f.contactOf(t, "7", "ada"))
		time.Sleep(5 * time.Second)
		by("bob", activity.Claimed, "x")
		by("bob", activity.Claimed, "y")
		by("ada", activity.Reported, "b")
		require.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, d.texts("7"))
		assert.InDelta(t, 0, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "trimmed")), 0)
	})
}

func TestFollow_countsNothingOfOthersBehindANoteAsTrimmed(t *testing.T) {
	withDesk(t, DefaultNotes(), nil, func(t *testing.T, f *following) {
		f.records(t, signsIn("", "alice", time.Second), did("alice", "a", 0))
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		time.Sleep(time.Minute)
		f.records(t, did("alice", "b", 2*time.Second), signsIn("", "bob", time.Second), did("bob", "c", 0))
		time.Sleep(3 * time.Hour)
		f.records(t, signsIn("", "alice", 0))
		time.Sleep(90 * time.Minute)
		require.Equal(t, linked, f.contactOf(t, "7", "alice"))
		assert.Equal(t, []string{"a", "b"}, f.noted("7"))
		assert.InDelta(t, 0, valueOf(t, f.metrics.lost.WithLabelValues("acme", "zendesk", "trimmed")), 0)
	})
}

func TestFollow_resolvesWaitingLinks(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		wait := func(conversationID string, c helpdesk.Contact) {
			result := musttest.New(f.linkContact(t.Context(), conversationID, c))
			require.Contains(t, []status{pending, linked}, result)
		}
		f.visit(t, "anonymous", "long before")
		f.visitAs(t, "known", "ada", "", time.Now(), "early")
		time.Sleep(3 * time.Minute) // which is longer than the window before a link
		f.visitAs(t, "known", "ada", "", time.Now().Add(-time.Hour), "old, reported late")
		f.visit(t, "anonymous", "before")
		f.visitAs(t, "known", "ada", "", time.Now(), "a")
		wait("7", helpdesk.Contact{Email: "bob@x.example"})
		wait("8", helpdesk.Contact{UserID: "ada"})
		wait("9", helpdesk.Contact{UserID: "eve"})
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []string{"[1] User visited a"}, f.desk.texts("8"), "found in the log")
		f.records(t, activity.Event{ID: "bob", Time: time.Now(), SessionID: "anonymous", UserID: "bob",
			Email: "Bob@x.example", Identified: true})
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"[1] User visited before"}, f.desk.texts("7"), "since the window before the webhook")
		f.visitAs(t, "late", "eve", "", time.Now(), "b")
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"[1] User visited b"}, f.desk.texts("9"))
		wait("10", helpdesk.Contact{Email: "kim@x.example", UserID: "kim"})
		wait("11", helpdesk.Contact{Email: "max@x.example", UserID: "max"})
		f.visitAs(t, "without address", "kim", "", time.Now(), "c")
		f.visitAs(t, "another's", "max", "moritz@x.example", time.Now(), "d")
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"[1] User visited c"}, f.desk.texts("10"), "no address is known")
		assert.Empty(t, f.desk.texts("11"), "another address is known")
		f.visitAs(t, "max's", "max", "Max@x.example", time.Now(), "e")
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"[1] User visited e"}, f.desk.texts("11"))
		assert.Empty(t, f.waiting(t), "each wait ends with its link")
		wait("12", helpdesk.Contact{UserID: "zoe"})
		time.Sleep(MaxWait + time.Minute)
		f.visitAs(t, "too late", "zoe", "", time.Now(), "f")
		time.Sleep(2 * time.Second)
		assert.Empty(t, f.desk.texts("12"), "the wait is over")
		assert.Empty(t, f.waiting(t))
	})
}

// A burst of links costs a look for each of them once a second, and slow storage has one at a time.
func TestFollow_looksForManySessionsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const links, look = 200, 100 * time.Millisecond
		var looks atomic.Int64
		var slow atomic.Bool
		log := before(musttest.New(memorylog.New(nil)), func(op watchtest.Op) error {
			if op.Name == "get" && strings.HasPrefix(op.Documents[0], "email/") {
				if looks.Add(1); slow.Load() {
					time.Sleep(look)
				}
			}
			return nil
		})
		f := newService(t, log, Product{Notes: promptNotes()}, nil).follows(t, nil)
		for i := range links {
			_, err := f.linkContact(t.Context(), fmt.Sprint(i), helpdesk.Contact{Email: fmt.Sprint(i, "@x.example")})
			require.NoError(t, err)
			time.Sleep(time.Second / links)
		}
		synctest.Wait()
		assert.LessOrEqual(t, looks.Load(), int64(3*links))
		slow.Store(true)
		looks.Store(0)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, looks.Load(), int64(time.Minute/look))
	})
}

// The server that a desk has asked to wait keeps the lease, so that no other asks the desk.
func TestFollow_waitsForADeskAtAllServers(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		newService(t, f.store.log, Product{Desks: []Desk{{"zendesk", f.desk}}, Notes: promptNotes()}, nil).follows(t, f.desk)
		f.begins(t, "a")
		f.desk.refuses(failing("", helpdesk.APIError{Status: 429, Wait: 10 * time.Minute}))
		f.views(t, "s", "b")
		time.Sleep(10*time.Minute - time.Second)
		assert.Equal(t, 2, f.desk.count("note"))
		f.desk.refuses(nil)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, f.desk.texts("7"))
	})
}

// Another server takes over from a dead one within seconds, and finds the note that was being
// written.
func TestFollow_succeedsADeadServerWithinSeconds(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.stop()
		f.begins(t, "a")
		f.desk.takes = func() time.Duration { return 2 * time.Second }
		first, dead := mortal(f.store.log)
		c := musttest.New(New(first, f.products, nil))
		ctx, kill := context.WithCancel(t.Context())
		go func() { _ = c.Follow(ctx, "acme", musttest.New(eventlog.NewSource(first, "acme"))) }()
		time.Sleep(time.Second / 2)
		f.follow(t)
		dead.Store(true) // while its request is on its way
		kill()
		f.visit(t, "s", "b")
		time.Sleep(document.DefaultLeaseTTL*4/3 + settleTime + 8*time.Second)
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, f.desk.texts("7"))
		assert.Equal(t, 2, f.desk.count("note"))
	})
}

// A request that is cut off would be in doubt.
func TestFollow_finishesTheRequestInFlightWhenTheLogIsClosed(t *testing.T) {
	withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
		f.begins(t, "a")
		f.desk.takes = func() time.Duration { return 2 * time.Second }
		f.visit(t, "s", "b")
		time.Sleep(time.Second) // its note is in flight
		assert.Equal(t, time.Second, f.closes(t).Round(time.Second))
		assert.Equal(t, []string{"[1] User visited a", "[1] User visited b"}, f.desk.texts("7"))
		assert.Nil(t, f.stored(t, "zendesk/7").Writing, "its outcome is stored")
	})
}

// closes closes the log, and returns the time that Follow took to end.
func (f *following) closes(t *testing.T) time.Duration {
	began := time.Now()
	require.NoError(t, f.store.log.Close())
	require.ErrorIs(t, <-f.done, eventlog.ErrClosed)
	f.stop = func() {}
	return time.Since(began)
}

func TestFollow_waitsForNoDeskThatIsAwayWhenTheLogIsClosed(t *testing.T) {
	for why, away := range map[string]func(d *desk){
		"away": func(d *desk) {
			d.refuses(failing("", helpdesk.APIError{Status: 503}))
		},
		"limited": func(d *desk) { d.pauses(func(string) time.Duration { return time.Hour }) },
	} {
		t.Run(why, func(t *testing.T) {
			withDesk(t, promptNotes(), nil, func(t *testing.T, f *following) {
				f.many(t, 10)
				away(f.desk)
				f.each(t, 10, "x")
				time.Sleep(time.Minute)
				assert.Less(t, f.closes(t), 2*time.Second)
				assert.Len(t, f.desk.texts("1"), 1)
			})
		})
	}
}

func TestFollow_endsWhenTheLogIsClosedBeforeItHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := before(musttest.New(memorylog.New(nil)), func(watchtest.Op) error { return eventlog.ErrClosed })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := newService(t, log, Product{}, nil).Follow(ctx, "acme", musttest.New(eventlog.NewSource(log, "acme")))
		assert.ErrorIs(t, err, eventlog.ErrClosed)
	})
}

func TestFollow_waitsForADeskThatIsNotConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		var configured atomic.Pointer[Product]
		configured.Store(&Product{Desks: []Desk{{"other", newDesk()}}, Notes: promptNotes()})
		s := newService(t, musttest.New(memorylog.New(nil)), Product{}, nil)
		s.products = productsFunc(func(string) (Product, bool, error) { return *configured.Load(), true, nil })
		s.follows(t, d).begins(t, "a")
		time.Sleep(time.Minute)
		configured.Store(&Product{Desks: []Desk{{"zendesk", d}}, Notes: promptNotes()})
		time.Sleep(deskRetry)
		synctest.Wait()
		assert.Equal(t, []string{"[1] User visited a"}, d.texts("7"))
	})
}
