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
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// collected is all that a collector passes on, as JSON.
type collected struct {
	mu   sync.Mutex
	text string
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(body) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += string(body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// String returns all so far.
func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

// collect runs a collector and returns its address for OTLP.
func collect(t *testing.T) (endpoint string, got *collected) {
	t.Helper()
	got = &collected{}
	backend := httptest.NewServer(got)
	t.Cleanup(backend.Close)
	free := musttest.New(net.Listen("tcp", "127.0.0.1:0"))
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

// A collector gets the spans of a click up to its note, the span of an answer by MCP, and the metrics of /metrics.
func TestTelemetry_reachesACollector(t *testing.T) {
	t.Parallel()
	endpoint, got := collect(t)
	desk := helpdesktest.NewIntercom(nil)
	t.Cleanup(desk.Close)
	server := launch(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=100",
		"OTEL_METRIC_EXPORT_INTERVAL=200"}, anyPort, "--config="+withDesk(t, "intercom", string(desk.Config())))
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

	for _, name := range []string{"ingest", "append", "note", "lookup", "liveactivity_actions_total", "go_goroutines"} {
		waittest.Until(t, name+" was exported", func() bool { return strings.Contains(got.String(), `"name":"`+name+`"`) })
	}
	status, metrics := proctest.Request(t, http.MethodGet, url+"/metrics", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, metrics, "liveactivity_actions_total{")
	assert.NotContains(t, got.String()+server.Stderr.String(), "ada@example.com")
}

// A missing collector harms only telemetry.
func TestTelemetry_canBeAway(t *testing.T) {
	t.Parallel()
	server := launch(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_EXPORTER_OTLP_TIMEOUT=100"}, anyPort, "--config="+acme(t))
	post(t, server.URL(), pageview("u1", "https://app.example.com/pricing"))
	waittest.Until(t, "the log says so", func() bool {
		return strings.Contains(server.Stderr.String(), "telemetry is not exported")
	})
	server.Stop()
	wrong := launch(t, []string{"OTEL_TRACES_EXPORTER=zipkin"}, anyPort, "--config="+acme(t))
	assert.Equal(t, 1, wrong.Wait(ends))
	assert.Contains(t, wrong.Stderr.String(), "OTEL_TRACES_EXPORTER: must be otlp or none")
}
