package eventlog_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestMetrics_ofTwoOfAKindShareARegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		log := eventlog.NewMemoryLog(eventlog.Retention{})
		require.NotNil(t, eventlog.NewHandler(log, &eventlog.HandlerOptions{Metrics: reg}))
		require.NotNil(t, eventlog.NewRecorder(log, nil, &eventlog.RecorderOptions{Metrics: reg}))
	}
}
