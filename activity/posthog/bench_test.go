package posthog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// The benchmark ingests this captured request. Fourteen of its events make actions and two carry
// identity.
const (
	batchScenario, batchNumber = "main", "009"
	batchEvents                = 18
	batchAnswer                = `{"status":1,"accepted":16,"ignored":2,"reasons":{"other_event":2}}`
	batchesPerRound            = 8
)

// wireEvent has the fields that any server of these events would read with encoding/json.
type wireEvent struct {
	Event, UUID, Timestamp string
	DistinctID             string `json:"distinct_id"`
	Offset                 *float64
	Set                    struct{ Email string } `json:"$set"`
	Properties             struct {
		Token         string
		DistinctID    string                 `json:"distinct_id"`
		UserID        string                 `json:"$user_id"`
		IsIdentified  bool                   `json:"$is_identified"`
		SessionID     string                 `json:"$session_id"`
		CurrentURL    string                 `json:"$current_url"`
		EventType     string                 `json:"$event_type"`
		ElText        string                 `json:"$el_text"`
		ElementsChain string                 `json:"$elements_chain"`
		Elements      []map[string]any       `json:"$elements"`
		Set           struct{ Email string } `json:"$set"`
	}
}

var uuidField = regexp.MustCompile(`"uuid":"[^"]*"`)

// ingestRound is the batch many times over. Each copy has its own uuids, because a log takes no
// event twice.
type ingestRound struct {
	bodies   [][]byte
	requests []*http.Request
	answers  []*httptest.ResponseRecorder
}

func newIngestRound(b *testing.B) *ingestRound {
	b.Helper()
	var c captured
	for _, request := range capturedRequests(b, batchScenario) {
		if request.number == batchNumber {
			c = request
		}
	}
	plain, err := posthog.Plain(c.body, "", intake.DefaultMaxDecoded)
	require.NoError(b, err)
	require.Len(b, uuidField.FindAll(plain, -1), batchEvents)
	r := &ingestRound{}
	for range batchesPerRound {
		c.body = gzipped(uuidField.ReplaceAllFunc(plain, func([]byte) []byte {
			return []byte(`"uuid":"` + uuid.NewString() + `"`)
		}))
		r.bodies = append(r.bodies, c.body)
		r.requests = append(r.requests, c.request())
		r.answers = append(r.answers, httptest.NewRecorder())
	}
	return r
}

// ingest takes the round's batches through the handler.
func (r *ingestRound) ingest(h *posthog.Handler) time.Duration {
	start := time.Now()
	for i, request := range r.requests {
		h.ServeSDK(r.answers[i], request)
	}
	return time.Since(start)
}

// unmarshal decodes the round's batches with encoding/json, as any server for the same events
// would, and reuses its reader and buffer.
func (r *ingestRound) unmarshal(b *testing.B, zr *gzip.Reader, buf *bytes.Buffer) time.Duration {
	start := time.Now()
	for _, body := range r.bodies {
		var payload struct {
			APIKey string      `json:"api_key"`
			SentAt string      `json:"sent_at"`
			Batch  []wireEvent `json:"batch"`
		}
		buf.Reset()
		err := zr.Reset(bytes.NewReader(body))
		if err == nil {
			_, err = buf.ReadFrom(zr)
		}
		if err == nil {
			err = json.Unmarshal(buf.Bytes(), &payload)
		}
		if err != nil || len(payload.Batch) != batchEvents {
			b.Fatal(len(payload.Batch), err)
		}
	}
	return time.Since(start)
}

// BenchmarkIngestBatch takes a captured batch through the whole path, into log and store, and
// compares the time with unpacking and unmarshalling the same bytes. An operation is a round of
// batches through the path, without making them and without the comparison. The ratio is the median
// over the rounds, which a busy machine disturbs little. It must not be above 2.
func BenchmarkIngestBatch(b *testing.B) {
	recorder := musttest.New(eventlog.NewRecorder(musttest.New(memorylog.New(nil)), nil))
	handler := posthog.New(musttest.New(intake.New(recorder, products, nil)))
	var zr gzip.Reader
	var buf bytes.Buffer
	var path, bound time.Duration
	var ratios []float64
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r := newIngestRound(b)
		unmarshal := r.unmarshal(b, &zr, &buf)
		b.StartTimer()
		ingest := r.ingest(handler)
		b.StopTimer()
		for _, answer := range r.answers {
			require.Equal(b, batchAnswer, answer.Body.String())
		}
		path, bound, ratios = path+ingest, bound+unmarshal, append(ratios, float64(ingest)/float64(unmarshal))
		b.StartTimer()
	}
	slices.Sort(ratios)
	events := float64(len(ratios) * batchesPerRound * batchEvents)
	b.ReportMetric(float64(path)/events, "ns/event")
	b.ReportMetric(float64(bound)/events, "bound-ns/event")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
