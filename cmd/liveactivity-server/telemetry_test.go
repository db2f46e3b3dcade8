package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// span is a span in OTLP's JSON.
type span struct {
	Name, TraceID, SpanID, ParentSpanID string
	Links                               []struct{ TraceID, SpanID string }
}

// collected is the data that a collector passes on.
type collected struct {
	mu      sync.Mutex
	spans   map[string][]span // by name
	metrics string            // the last requests' bodies
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var traces struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	if err != nil || json.Unmarshal(body, &traces) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/v1/metrics" {
		c.metrics += string(body)
	}
	for _, resource := range traces.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[s.Name] = append(c.spans[s.Name], s)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// has reports whether there are spans of each of the names, and all of the metrics.
func (c *collected) has(names, metrics []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if len(c.spans[name]) == 0 {
			return false
		}
	}
	for _, name := range metrics {
		if !strings.Contains(c.metrics, `"`+name+`"`) {
			return false
		}
	}
	return true
}

// collect runs a collector and returns its address for OTLP.
func collect(t *testing.T) (endpoint string, got *collected) {
	t.Helper()
	got = &collected{spans: map[string][]span{}}
	backend := httptest.NewServer(got)
	t.Cleanup(backend.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	collector := proctest.Build(t, "../..", "internal/otelcol").Launch(t, nil, fmt.Sprintf(`yaml:
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {otlp_http: {endpoint: %q, encoding: json, compression: none}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    metrics: {receivers: [otlp], exporters: [otlp_http]}
`, address, backend.URL))
	waittest.Until(t, "the collector listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil || collector.HasExited()
	})
	require.False(t, collector.HasExited(), collector.Stderr.String())
	return "http://" + address, got
}

// A collector gets one trace from a click to its note, a link from an answer by MCP to the click,
// and the metrics of /metrics.
func TestTelemetry_reachesACollector(t *testing.T) {
	t.Parallel()
	endpoint, got := collect(t)
	desk := helpdesktest.NewIntercom(nil)
	t.Cleanup(desk.Close)
	server := launch(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=100",
		"OTEL_METRIC_EXPORT_INTERVAL=200"},
		anyPort, "--config="+withDesk(t, "intercom", string(desk.Config())))
	url := server.URL()
	desk.Subscribe(url + "/chatbot-webhook/acme")
	post(t, url, pageview("u1", "https://app.example.com/pricing"))
	_, hook := desk.Created(url+"/chatbot-webhook/acme", helpdesktest.IntercomContact{Email: "ada@example.com"}, "Help!")
	response, err := http.DefaultClient.Do(hook)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	status, answer := proctest.Request(t, http.MethodPost, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call",
		"params":{"name":"get_live_user_activity","arguments":{"product_id":"acme","user_id":"ada"}}}`,
		"Authorization: Bearer "+key, "Content-Type: application/json")
	require.Equal(t, http.StatusOK, status, answer)
	assert.Contains(t, answer, "pricing")

	waittest.Until(t, "everything was exported", func() bool {
		return got.has([]string{"ingest", "append", "note", "lookup"},
			[]string{"liveactivity_actions_total", "go_goroutines"})
	})
	got.mu.Lock()
	defer got.mu.Unlock()
	click := got.spans["ingest"][0]
	for _, name := range []string{"append", "note"} {
		assert.Equal(t, [2]string{click.TraceID, click.SpanID},
			[2]string{got.spans[name][0].TraceID, got.spans[name][0].ParentSpanID}, name)
	}
	require.Len(t, got.spans["lookup"][0].Links, 1)
	assert.Equal(t, [2]string{click.TraceID, click.SpanID},
		[2]string{got.spans["lookup"][0].Links[0].TraceID, got.spans["lookup"][0].Links[0].SpanID})
	status, metrics := proctest.Request(t, http.MethodGet, url+"/metrics", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, metrics, "liveactivity_actions_total{")
	assert.NotContains(t, got.metrics+fmt.Sprint(got.spans)+server.Stderr.String(), "ada@example.com")
}

// A missing collector harms only telemetry.
func TestTelemetry_canBeAway(t *testing.T) {
	t.Parallel()
	server := launch(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_EXPORTER_OTLP_TIMEOUT=100"},
		anyPort, "--config="+acme(t))
	post(t, server.URL(), pageview("u1", "https://app.example.com/pricing"))
	waittest.Until(t, "the log says so", func() bool {
		return strings.Contains(server.Stderr.String(), "telemetry is not exported")
	})
	server.Stop()
	wrong := launch(t, []string{"OTEL_TRACES_EXPORTER=zipkin"}, anyPort, "--config="+acme(t))
	assert.Equal(t, 1, wrong.Wait(ends))
	assert.Contains(t, wrong.Stderr.String(), "OTEL_TRACES_EXPORTER: must be otlp or none")
}
