package posthog_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpxtest"
)

var v1Door = door{"capture v1", "/i/v1/analytics/events", http.Header{"Authorization": {"Bearer " + shopToken}}}

// v1Event is an event as capture v1 sends it.
func v1Event(uuid string, changes object) object {
	e := object{"event": "$pageview", "uuid": uuid, "distinct_id": "user_42", "timestamp": "2026-11-20T11:00:00.000Z",
		"session_id": "session-1",
		"options":    object{}, "properties": object{"$current_url": "https://app.example.com/reports"}}
	maps.Copy(e, changes)
	return e
}

func v1Results(t *testing.T, w *httptest.ResponseRecorder) map[string]string {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var answer struct {
		Results map[string]struct{ Result, Details string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	results := map[string]string{}
	for uuid, r := range answer.Results {
		results[uuid] = r.Result
		assert.Equal(t, r.Result == "drop", r.Details != "", "what is dropped has a reason")
	}
	return results
}

func TestCaptureV1_answersForEveryEvent(t *testing.T) {
	s := newService()
	w := s.post(v1Door, gzipped(marshal(object{"created_at": "2026-11-20T12:00:00.000Z", "batch": []any{
		v1Event("u1", nil),
		v1Event("u2", object{"event": "order paid"}),
		v1Event("u4", object{"timestamp": "soon"}),
		v1Event("u5", object{"properties": object{}}),
		v1Event("u6", object{"properties": object{"token": bankToken, "$current_url": "https://a.example/"}}),
		v1Event("", object{"event": "$identify", "properties": object{"$set": object{"email": "ada@example.com"}}}),
		nil,
	}})), "Content-Encoding", "gzip", "PostHog-Request-Id", "r1", "PostHog-Attempt", "1")
	want := map[string]string{"u1": "ok", "u2": "ok", "u4": "drop", "u5": "drop", "u6": "drop"}
	assert.Equal(t, want, v1Results(t, w), "an event that means nothing here is no mistake of the sender")
	requireCounts(t, w, 2, 5)
	events := s.sink.take(shop)
	assert.Equal(t, []string{"session-1", "user_42", "Page Load: Reports", "ada@example.com"},
		[]string{events[0].SessionID, events[0].UserID, events[0].Action.Title, events[1].Email})
}

// The header tells the sender's clock, since a repeated request has a new one. A sender can vouch for its times.
func TestCaptureV1_leavesTimesAloneThatTheSenderVouchesFor(t *testing.T) {
	for _, c := range []struct {
		options any
		vouches bool
	}{
		{object{"disable_skew_correction": true}, true},
		{object{"disable_skew_correction": false}, false},
		{object{"disable_skew_correction": "true", "process_person_profile": true}, false},
		{[]any{true}, false},
	} {
		s := newService()
		w := s.post(v1Door, marshal(object{"sent_at": "2026-11-20T11:00:10.000Z",
			"batch": []any{v1Event("u1", object{"options": c.options})}}),
			"PostHog-Request-Timestamp", "2026-11-20T11:00:30.000Z")
		assert.Equal(t, map[string]string{"u1": "ok"}, v1Results(t, w))
		e := s.sink.take(shop)[0]
		assert.Equal(t, []any{c.vouches, noon.Add(-time.Hour), 30 * time.Second},
			[]any{e.ServerTime, e.Time, e.Sent.Sub(e.Time)}, "%v", c.options)
	}
}

func TestCaptureV1_takesTheTokenFromItsHeaderOnly(t *testing.T) {
	s := newService()
	body := marshal(object{"api_key": shopToken, "token": shopToken, "batch": []any{v1Event("u1", nil)}})
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer phc_unknown", "Basic " + shopToken,
		shopToken} {
		w := s.post(door{path: v1Door.path}, body, "Authorization", authorization)
		httpxtest.Detail(t, http.StatusUnauthorized, w.Result())
	}
	assert.Empty(t, s.sink.events)
	requireCounts(t, s.post(v1Door, body), 1, 0)
	requireCounts(t, s.post(door{path: "/ingest/i/v1/analytics/events/"}, body, "Authorization", "bearer "+shopToken),
		1, 0)
}
