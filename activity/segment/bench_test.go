package segment_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/activity/segment"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// anyToken is products of which one has every token.
type anyToken struct{}

func (anyToken) ProductOfToken(string) (string, bool, error)      { return "acme", true, nil }
func (anyToken) Refresh(string) error                             { return nil }
func (anyToken) ProductOfID(string) (intake.Product, bool, error) { return intake.Product{}, true, nil }

// BenchmarkPageView takes a recorded page view of Segment and one of PostHog through the
// whole path, in turn. The ratio is the median of their times; it must not be above 1.
func BenchmarkPageView(b *testing.B) {
	recorder := musttest.New(eventlog.NewRecorder(musttest.New(memorylog.New(nil)), nil))
	in := musttest.New(intake.New(recorder, anyToken{}, nil))
	segments, posthogs := segment.New(in), posthog.New(in)
	page := captures(b, "segment.json")[0].Body
	recorded, err := os.ReadFile("../posthog/testdata/events/pageview.json")
	require.NoError(b, err)
	stamp := regexp.MustCompile(`"timestamp": ?("[^"]*")`).FindSubmatch(recorded)[1]
	event := fmt.Sprintf(`{"api_key":"phc","sent_at":%s,"batch":[%s]}`, stamp, recorded)
	id := regexp.MustCompile(`("(?:messageId|uuid)": ?)"[^"]*"`)
	n := 0
	take := func(serve http.HandlerFunc, path, body string) time.Duration {
		n++
		body = id.ReplaceAllString(body, fmt.Sprintf(`$1"id-%d"`, n))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		start := time.Now()
		serve(w, r)
		took := time.Since(start)
		require.Contains(b, w.Body.String(), `"accepted":1`)
		return took
	}
	var ratios []float64
	for b.Loop() {
		ours := take(segments.ServeHTTP, "/segment/v1/p", page)
		ratios = append(ratios, float64(ours)/float64(take(posthogs.ServeSDK, "/e/", event)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
