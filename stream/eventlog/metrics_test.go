package eventlog_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func TestConstructors_reportEveryMistake(t *testing.T) {
	taken := prometheus.NewRegistry()
	for _, name := range []string{"liveactivity_actions_total", "liveactivity_stream_sent_total"} {
		require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: name})))
	}
	log := newMemoryLog()
	for name, c := range map[string]struct {
		make func() error
		want []string
	}{
		"a handler": {func() error {
			_, err := eventlog.NewHandler(nil, &eventlog.HandlerOptions{Heartbeat: -1, WriteTimeout: -1, Coalesce: -1, SendBuffer: -1, Metrics: taken})
			return err
		}, []string{"log", "Heartbeat", "WriteTimeout", "Coalesce", "SendBuffer", "Metrics"}},
		"a recorder": {func() error {
			_, err := eventlog.NewRecorder(nil, &eventlog.RecorderOptions{TTL: -1, Metrics: taken})
			return err
		}, []string{"log", "TTL", "Metrics"}},
		"a source of nothing": {func() error {
			_, err := eventlog.NewSource(nil, "")
			return err
		}, []string{"log", "productID"}},
		"a source of no product": {func() error {
			_, err := eventlog.NewSource(log, "")
			return err
		}, []string{"productID"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.want {
				c.want[i] = "eventlog." + c.want[i]
			}
			assert.Equal(t, c.want, musttest.Mistakes(t, c.make()))
		})
	}
}

func TestMetrics_ofTwoOfAKindShareARegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 {
		log := musttest.New(memorylog.New(nil))
		require.NotNil(t, musttest.New(eventlog.NewHandler(log, &eventlog.HandlerOptions{Metrics: reg})))
		require.NotNil(t, musttest.New(eventlog.NewRecorder(log, &eventlog.RecorderOptions{Metrics: reg})))
	}
}
