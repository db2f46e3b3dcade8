package streammetrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streammetrics"
)

// script is a source with these entries and no later ones.
type script []string

func (s script) Follow(ctx context.Context, _ string, _ time.Time, deliver func(feed.Event) error) error {
	for i, data := range s {
		if err := deliver(feed.Event{Message: feed.NewMessage(fmt.Sprint(i+1), []byte(data))}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func actions(t *testing.T, sessionID string) string {
	t.Helper()
	data := musttest.New(jsontext.Marshal(activitytest.NewBatch("acme", sessionID, "u",
		activitytest.Click(time.Unix(1, 0), "a", "https://a.example"))))
	return string(data)
}

// consumed returns a consumer that has read the entries, and one more that is still in flight.
func consumed(t *testing.T, entries ...string) *stream.Consumer {
	t.Helper()
	held := make(chan struct{})
	c := musttest.New(stream.NewSourceConsumer(append(script(entries), `{"type":"hold"}`), stream.Handlers{
		Deliver: func(_ context.Context, d *stream.Delivery) error {
			switch d.Type {
			case "hold":
				close(held)
			case "":
				d.Done(stream.Permanent(assert.AnError))
			default:
				d.Done(nil)
			}
			return nil
		}}, nil))
	waittest.Run(t, c.Run)
	<-held
	waittest.Until(t, "one batch is pending", func() bool { return c.Stats().Pending == 1 })
	return c
}

// scrape returns the metrics of a collector as text, after an empty line.
func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return "\n" + w.Body.String()
}

func TestConsumer_countsByTypeAndReason(t *testing.T) {
	text := scrape(t, streammetrics.Consumer(consumed(t, actions(t, "s1"), actions(t, "s2"), "no JSON",
		`{"type":"summary","session_id":"s"}`, `{"type":"else"}`)))
	assert.Contains(t, text, `
# HELP liveactivity_consumer_acknowledged_total Entries acknowledged.
# TYPE liveactivity_consumer_acknowledged_total counter
liveactivity_consumer_acknowledged_total{type="actions"} 2
liveactivity_consumer_acknowledged_total{type="other"} 1
liveactivity_consumer_acknowledged_total{type="summary"} 1
`)
	assert.Contains(t, text, `
# HELP liveactivity_consumer_pending Entries in flight.
# TYPE liveactivity_consumer_pending gauge
liveactivity_consumer_pending 1
# HELP liveactivity_consumer_skipped_total `+
		`Entries skipped: malformed, too_large, refused by a permanent error, or held_too_long.
# TYPE liveactivity_consumer_skipped_total counter
liveactivity_consumer_skipped_total{reason="held_too_long"} 0
liveactivity_consumer_skipped_total{reason="malformed"} 0
liveactivity_consumer_skipped_total{reason="refused"} 1
liveactivity_consumer_skipped_total{reason="too_large"} 0
`)
}

func TestCollectors_shareARegistryByALabel(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	w, s := newWriter(), newSummarizer()
	for _, product := range []string{"acme", "globex"} {
		labelled := prometheus.WrapRegistererWith(prometheus.Labels{"product": product}, reg)
		labelled.MustRegister(streammetrics.Consumer(consumed(t)), streammetrics.Writer(w), streammetrics.Summarizer(s))
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	assert.Equal(t, strings.Fields(`liveactivity_consumer_acknowledged_total liveactivity_consumer_behind
		liveactivity_consumer_connects_total liveactivity_consumer_gaps_total
		liveactivity_consumer_handler_failures_total liveactivity_consumer_interruptions_total
		liveactivity_consumer_parked_total liveactivity_consumer_pending liveactivity_consumer_skipped_total
		liveactivity_summaries_total liveactivity_writer_failures_total liveactivity_writer_pending
		liveactivity_writer_refused_total liveactivity_writer_written_total`), names)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func newWriter() *stream.Writer {
	return musttest.New(stream.NewWriter(func(context.Context, activity.Batch) error { return nil }, nil))
}

func newSummarizer() *stream.Summarizer {
	overwrite := func(context.Context, stream.Summary) error { return nil }
	return musttest.New(stream.NewSummarizer(overwrite, &stream.SummarizerOptions{Threshold: 1}))
}

func TestWriter_andSummarizer_countTheirWork(t *testing.T) {
	w, s := newWriter(), newSummarizer()
	c, err := stream.NewSourceConsumer(script{actions(t, "s")}, stream.Handlers{Deliver: w.Deliver}, nil)
	require.NoError(t, err)
	waittest.Run(t, c.Run)
	waittest.Until(t, "the writer has it", func() bool { return w.Stats().Pending == 1 })
	b := activitytest.NewBatch("acme", "s", "u", activitytest.Click(time.Unix(1, 0), "a", "https://a.example"))
	require.NoError(t, s.Add(t.Context(), b))
	assert.Contains(t, scrape(t, streammetrics.Summarizer(s)), `
# HELP liveactivity_summaries_total Summaries tried, by result: ok, model_failed, overwrite_failed.
# TYPE liveactivity_summaries_total counter
liveactivity_summaries_total{result="model_failed"} 0
liveactivity_summaries_total{result="ok"} 1
liveactivity_summaries_total{result="overwrite_failed"} 0
`)
	assert.Contains(t, scrape(t, streammetrics.Writer(w)), `
# HELP liveactivity_writer_pending Batches added and not written.
# TYPE liveactivity_writer_pending gauge
liveactivity_writer_pending 1
`)
}

func Example() {
	consumer, err := stream.NewConsumer("https://live.example.com/stream/acme", "key",
		stream.Handlers{Actions: func(context.Context, activity.Batch) error { return nil }}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(streammetrics.Consumer(consumer))
	http.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}
