package posthog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// captured is a request as it was recorded.
type captured struct {
	number  string // as in the name of its files
	body    []byte
	arrival time.Time
	Method  string
	URL     string
	Headers map[string]string
	T       int64 // milliseconds since the epoch
}

func (c captured) request() *http.Request {
	r := httptest.NewRequest(c.Method, c.URL, bytes.NewReader(c.body))
	for key, value := range c.Headers {
		r.Header.Set(key, value)
	}
	return r
}

// capturedRequests returns a scenario's requests in the order of their arrival.
func capturedRequests(t testing.TB, scenario string) []captured {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join("testdata", "raw", scenario, "*.meta.json"))
	require.NoError(t, err)
	require.NotEmpty(t, metas)
	requests := make([]captured, len(metas))
	for i, meta := range metas {
		c := &requests[i]
		b := musttest.New(os.ReadFile(meta))
		require.NoError(t, json.Unmarshal(b, c))
		c.number, _, _ = strings.Cut(filepath.Base(meta), "_")
		c.arrival = time.UnixMilli(c.T)
		c.body, err = os.ReadFile(strings.TrimSuffix(meta, ".meta.json") + ".body")
		if c.Method == http.MethodPost {
			require.NoError(t, err)
		}
	}
	return requests
}

// line is an event as its readers see it: its action with the page, or "identity"; its session, user and any email.
func line(e activity.Event) string {
	parts := []string{"identity"}
	if a := e.Action; a != nil {
		parts = []string{a.Type, a.Title, a.Description, a.RawURL, a.CanonicalURL}
	}
	parts = append(parts, e.SessionID, e.UserID)
	if e.Email != "" {
		parts = append(parts, e.Email)
	}
	return strings.Join(parts, " | ")
}

// Every captured request is sent byte for byte, at its original time, and brings the events listed beside it.
func TestReplay_capturedTraffic(t *testing.T) {
	scenarios := musttest.New(os.ReadDir(filepath.Join("testdata", "raw")))
	for _, scenario := range scenarios {
		t.Run(scenario.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService()
				var lines []string
				for _, c := range capturedRequests(t, scenario.Name()) {
					time.Sleep(time.Until(c.arrival))
					lines = append(lines, s.replay(t, c)...)
				}
				assert.Equal(t, string(testdata("raw", scenario.Name(), "events.txt")), strings.Join(lines, "\n")+"\n")
			})
		})
	}
}

// replay sends a captured request and returns a line for each event that it brings, and one for those that are ignored.
func (s *service) replay(t *testing.T, c captured) (lines []string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, c.request())
	if origin := c.Headers["origin"]; origin != "" {
		assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"), c.number)
		assert.Equal(t, "true", w.Header().Get("Access-Control-Allow-Credentials"), c.number)
	}
	events := s.sink.take(shop)
	switch {
	case c.Method == http.MethodOptions:
		assert.Equal(t, http.StatusNoContent, w.Code, c.number)
		assert.Equal(t, c.Headers["access-control-request-headers"], w.Header().Get("Access-Control-Allow-Headers"))
		return nil
	case strings.HasPrefix(c.URL, "/flags/"):
		requireFlags(t, w)
		assert.Empty(t, events, c.number)
		return nil
	}
	counts := requireOK(t, w)
	assert.EqualValues(t, 1, counts.Status, c.number)
	assert.Len(t, events, counts.Accepted, c.number)
	for _, e := range events {
		lines = append(lines, c.number+": "+line(e))
		assert.NoError(t, uuid.Validate(e.ID), c.number)
		assert.WithinRange(t, e.Time, c.arrival.Add(-4*time.Second), c.arrival, c.number) // batches leave every 3 s
	}
	return append(lines, fmt.Sprintf("%s: %d ignored", c.number, counts.Ignored))
}

func requireFlags(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code)
	var flags object
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &flags))
	for _, field := range []string{"flags", "featureFlags", "featureFlagPayloads"} {
		assert.Equal(t, object{}, flags[field], field)
	}
	assert.Equal(t, false, flags["errorsWhileComputingFlags"])
	assert.Equal(t, false, flags["autocapture_opt_out"], "autocapture stays off without it")
	assert.Equal(t, []any{"gzip-js"}, flags["supportedCompression"])
	assert.Equal(t, object{"enable_collect_everything": true}, flags["config"], "nor does it start in old versions")
	assert.NotContains(t, flags, "surveys")
	assert.NotContains(t, flags, "quota_limited")
}
