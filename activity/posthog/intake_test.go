package posthog_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// asked counts the questions for a token.
type asked struct {
	catalogue
	mu     sync.Mutex
	tokens map[string]int
}

func (a *asked) ProductOfToken(token string) (string, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[token]++
	return a.catalogue.ProductOfToken(token)
}

func TestTokens_areLookedUpOnceEachAndNotWithoutEnd(t *testing.T) {
	a := &asked{catalogue: products, tokens: map[string]int{}}
	s := newService(intake.Options{})
	s.mount(musttest.New(intake.New(s.sink, a, nil)))
	var batch []any
	for i := range 500 {
		for range 3 {
			batch = append(batch, click(object{"uuid": "", "token": fmt.Sprint("phc_unknown_", i), "n": len(batch)}))
		}
		batch = append(batch, click(object{"uuid": "", "n": len(batch)}),
			click(object{"uuid": "", "n": -len(batch), "token": "phc_shop_second_token"}))
	}
	// The token follows the batch.
	w := s.post(captureDoor, append(append([]byte(`{"batch":`), marshal(t, batch)...), `,"api_key":"`+shopToken+`"}`...))
	requireCounts(t, w, 1000, 1500)
	assert.Equal(t, 1, a.tokens[shopToken])
	assert.Equal(t, 1, a.tokens["phc_shop_second_token"])
	assert.LessOrEqual(t, len(a.tokens), 20)
	for token, times := range a.tokens {
		assert.Equal(t, 1, times, token)
	}
}

// A stored event holds no memory of its request.
func TestEvents_keepNothingOfTheRequest(t *testing.T) {
	s := newService(intake.Options{})
	const events = 50
	pad := strings.Repeat(" ", 2000)
	grown := heaptest.After(func() {
		for i := range events {
			body := marshal(t, click(object{"uuid": fmt.Sprint(i), "padding": strings.Repeat("x", 1<<16),
				"properties.$session_id": pad + "s", "$set": object{"email": pad + "a@b.de"}}))
			requireCounts(t, s.post(captureDoor, gzipped(body)), 1, 0)
		}
	})
	assert.Less(t, grown, int64(events*2000))
	for _, e := range s.sink.take(shop) {
		assert.Equal(t, "s", e.SessionID)
		assert.Equal(t, "a@b.de", e.Email)
	}
}

func TestIgnored_isExplainedAtDebugLevel(t *testing.T) {
	var log logtest.Buffer
	s := newService(intake.Options{Logger: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	requireCounts(t, s.post(webhookDoor, marshal(t, []any{click(object{"event": "$pageleave"}), 7})), 0, 2)
	assert.Contains(t, log.String(), "reason=other_event")
	assert.Contains(t, log.String(), "reason=malformed")
	assert.NotContains(t, log.String(), "Export CSV")
}

func TestIntake_reportsEveryMistake(t *testing.T) {
	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "liveactivity_events_total"})))
	h, err := intake.New(nil, nil, &intake.Options{MaxBody: -1, MaxDecoded: -1, Metrics: taken})
	assert.Nil(t, h)
	assert.Equal(t, []string{"intake.sink", "intake.products", "intake.MaxBody", "intake.MaxDecoded", "intake.Metrics"},
		musttest.Mistakes(t, err))
}
