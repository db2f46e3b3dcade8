package posthog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// Both doors answer bad input with a status and one sentence about the mistake. Nothing reaches the
// sink, and the next request is served.
func TestBadInput_isRefused(t *testing.T) {
	event := string(marshal(t, click(nil)))
	packed := string(gzipped([]byte(event)))
	bomb := gzipped(bytes.Repeat([]byte(" "), 8<<20+1))
	require.Less(t, len(bomb), 1<<20)
	cases := []struct {
		name   string
		body   string
		status int
		detail string // a pattern
		header []string
	}{
		{"empty", "", 400, `empty`, nil},
		{"gzip of nothing", string(gzipped(nil)), 400, `empty`, nil},
		{"a number", "42", 400, `JSON`, nil},
		{"a string", `"event"`, 400, `JSON object or array`, nil},
		{"a number in base64", "data=NDI=", 400, `must be a JSON object or array`, nil},
		{"a sentence", "hello there, world!", 400, `JSON object or array`, nil},
		{"HTML", "<html></html>", 400, `JSON object or array`, nil},
		{"XML with form data", `<a b="&data=x"/>`, 400, `JSON`, nil},
		{"cut in the middle", event[:len(event)/2], 400, `breaks off`, nil},
		{"cut in the middle of a batch", `{"batch":[` + event[:len(event)/2], 400, `breaks off`, nil},
		{"trailing comma", `[` + event + `,]`, 400, `byte \d+`, nil},
		{"a mistake in the second event of a batch", string(gzipped([]byte(`{"batch":[{},{"event":?"rest":1}]}`))), 400,
			`byte 2[123]\b`, nil},
		{"a second object", event + event, 400, `follows the end of the JSON in the request body, at byte \d+`, nil},
		{"a word after a batch", `{"batch":[]} x`, 400, `follows the end of the JSON in the request body, at byte 13`, nil},
		{"null as batch", `{"batch":null}`, 400, `batch must be an array`, nil},
		{"an object as batch", `{"batch":{"a":` + event + `}}`, 400, `batch must be an array`, nil},
		{"deep arrays", strings.Repeat("[", 100_000), 400, `JSON`, nil},
		{"deep below a property", `{"event":"$pageview","properties":{"x":` + strings.Repeat("[", 100_000) +
			strings.Repeat("]", 100_000) + `}}`, 400, `JSON`, nil},

		{"gzip, only its magic", "\x1f\x8b", 400, `gzip`, nil},
		{"gzip cut short", packed[:100], 400, `gzip data .* breaks off`, nil},
		{"gzip with a wrong checksum", packed[:len(packed)-8] + "\x00\x00\x00\x00\x00\x00\x00\x00", 400, `damaged`, nil},
		{"gzip with garbage behind it", packed + "more than enough garbage", 400, `damaged`, nil},
		{"gzip of gzip", string(gzipped(gzipped([]byte(event)))), 400, `JSON`, nil},
		{"gzip bomb", string(bomb), 413, `limit of 8388608 bytes`, nil},
		{"Content-Encoding br", event, 415, `Content-Encoding`, []string{"Content-Encoding", "br"}},

		{"form without data", "a=b&c=d", 400, `base64`, nil},
		{"form with empty data", "data=", 400, `base64`, nil},
		{"form with a bad escape", "data=%zz", 400, `damaged escape`, nil},
		{"form of what is no base64", "data=%00%01***", 400, `base64`, nil},
		{"form of white space", "data=ICAg", 400, `empty|breaks off`, nil},
		{"form of half an event", "data=" + escaped([]byte(event[:40])), 400, `breaks off`, nil},
		{"form of lz-string cut short", "compression=lz64&data=N4IghiBcIOYE4DeD", 400, `lz-string`, nil},
		{"form of damaged gzip", "data=" + escaped([]byte("\x1f\x8b\x08")), 400, `gzip`, nil},

		{"one byte larger", event + strings.Repeat(" ", 1<<20+1-len(event)), 413, `limit of 1048576 bytes`, nil},
		{"one event too many", `{"batch":[` + strings.Repeat(`{},`, posthog.MaxEvents) + `{}]}`, 413,
			`limit of 10000 events`, nil},
		{"one event too many, in an array", `[` + strings.Repeat(`0,`, posthog.MaxEvents) + `0]`, 413,
			`limit of 10000 events`, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range doors {
				s := newService(intake.Options{})
				detail := requireError(t, s.post(d, []byte(c.body), c.header...), c.status)
				assert.Regexp(t, c.detail, detail, d.name)
				assert.NotContains(t, detail, "$pageview", "no error quotes what was sent")
				assert.Empty(t, s.sink.events)
				requireCounts(t, s.post(d, []byte(event)), 1, 0)
			}
		})
	}
}

// padded is an object with one more field, which brings it to that length.
func padded(object string, n int) []byte {
	const field = `,"x":""}`
	return []byte(strings.TrimSuffix(object, "}") + field[:len(field)-2] +
		strings.Repeat("x", n-len(object)-len(field)+1) + field[len(field)-2:])
}

func TestBadInput_tenThousandEventsAreTaken(t *testing.T) {
	s := newService(intake.Options{})
	body := `{"api_key":"` + shopToken + `","batch":[` + string(marshal(t, click(nil))) +
		strings.Repeat(`,{}`, posthog.MaxEvents-1) + `]}`
	requireCounts(t, s.post(captureDoor, []byte(body)), 1, posthog.MaxEvents-1)
}

// Nothing is kept of these bodies.
func TestBadInput_isRefusedWhereItIsDiscarded(t *testing.T) {
	for _, path := range []string{"/s/", "/flags/"} {
		s := newService(intake.Options{MaxBody: 1000, MaxDecoded: 1000})
		body := io.MultiReader(strings.NewReader(`{"event":`), iotest.ErrReader(io.ErrUnexpectedEOF))
		w := s.send(http.MethodPost, door{path: path}, body)
		assert.Contains(t, requireError(t, w, http.StatusBadRequest), "broke off")
		w = s.send(http.MethodPost, door{path: path}, iotest.HalfReader(strings.NewReader(strings.Repeat(" ", 1001))))
		assert.Contains(t, requireError(t, w, http.StatusRequestEntityTooLarge), "1000 bytes")
	}
}

func TestBadInput_limitsAreOptions(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			s := newService(intake.Options{MaxBody: 1000, MaxDecoded: 2000})
			event := string(marshal(t, click(nil)))
			requireCounts(t, s.post(d, padded(event, 1000)), 1, 0)
			w := s.post(d, padded(event, 1001))
			assert.Contains(t, requireError(t, w, http.StatusRequestEntityTooLarge), "1000 bytes")
			requireCounts(t, s.post(d, gzipped(padded(event, 2000))), 1, 0)
			w = s.post(d, gzipped(padded(event, 2001)))
			assert.Contains(t, requireError(t, w, http.StatusRequestEntityTooLarge), "2000 bytes")
		})
	}
}

// junk is one value of each kind in JSON, and a few extreme ones.
var junk = []string{`null`, `true`, `0`, `-1.5e300`, `1e999`, `123456789012345678901234567890`, `""`, `"x"`, `"\u0000"`,
	`"\ud800"`, `"` + strings.Repeat("x", 5000) + `"`,
	`[]`, `[[]]`, `[null]`, `{}`, `{"email":{}}`, `{"":null}`, `[{"tag_name":[]}]`}

// A field of a wrong type costs at most its own event. The good event beside it is kept, whatever the envelope says
// beside the token.
func TestBadInput_costsOnlyItsOwnEvent(t *testing.T) {
	good := string(marshal(t, click(object{"uuid": "good"})))
	var fields []string
	for _, name := range []string{"uuid", "event", "distinct_id", "properties", "timestamp", "offset", "sent_at", "$set",
		"$set_once", "elements_chain",
		"api_key", "token", "person", "email", "element_id", "event_type", "session_id", "current_url", "input_field_name",
		"link_destination", "button_or_link_text"} {
		fields = append(fields, `{"event":"$autocapture","properties":{"distinct_id":"u","$session_id":"s"},"`+name+`":%s}`)
	}
	for _, name := range []string{"distinct_id", "token", "$session_id", "$current_url", "$event_type", "$el_text",
		"$elements_chain", "$elements", "$set", "$set_once"} {
		fields = append(fields, `{"event":"$autocapture","properties":{"distinct_id":"u","$session_id":"s","`+name+`":%s}}`)
	}
	for _, name := range []string{"tag_name", "$el_text", "attr__aria-label", "attr__id", "attr__type",
		"attr__contenteditable"} {
		fields = append(fields, `{"event":"$autocapture","properties":{"distinct_id":"u","$elements":[{"`+name+`":%s}]}}`)
	}
	fields = append(fields, `%s`, `{"event":{"event":%s,"properties":{}}}`,
		`{"event":{"event":"$pageview","properties":%s},"person":{}}`,
		`{"event":{"event":"$autocapture","distinct_id":"u"},"person":%s}`,
		`{"event":{"event":"$autocapture","distinct_id":"u"},"person":{"properties":%s}}`)
	for _, field := range fields {
		t.Run(field, func(t *testing.T) {
			for _, value := range junk {
				bad := strings.Replace(field, "%s", value, 1)
				s := newService(intake.Options{})
				w := s.post(captureDoor, []byte(`{"api_key":"`+shopToken+`","sent_at":`+value+`,"":`+value+`,"batch":[`+
					bad+`,`+good+`]}`))
				counts := requireOK(t, w)
				require.Equal(t, 2, counts.Accepted+counts.Ignored, bad)
				ids := s.ids(shop)
				require.Len(t, ids, counts.Accepted, bad)
				require.Equal(t, "good", ids[len(ids)-1], bad)

				w = s.post(webhookDoor, []byte(bad)) // by itself
				require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, w.Code, bad)
			}
		})
	}
}

func TestBadInput_passesIfOnlyOdd(t *testing.T) {
	event := string(marshal(t, click(nil)))
	token, own := `"api_key":"`+shopToken+`"`, `"token":"`+shopToken+`"`
	cases := []struct {
		name, body        string
		accepted, ignored int
	}{
		{"an empty batch", `{` + token + `,"batch":[]}`, 0, 0},
		{"a batch of junk", `{` + token + `,"batch":[null,true,0,"x",[],{},[[[]]],{"event":null}]}`, 0, 8},
		{"an object that is no event", `{` + token + `}`, 0, 1},
		{"duplicate keys in an event", strings.Replace(event, `"event":`, `"event":"$pageleave","uuid":"x","event":`, 1),
			1, 0},
		{"tokens in other letter case", strings.Replace(event, own, `"Token":"a",`+own+`,"TOKEN":"b"`, 1), 1, 0},
		{"duplicate tokens", `{"api_key":"phc_unknown",` + token + `,"batch":[` + event + `]}`, 1, 0},
		{"two batches", `{` + token + `,"batch":[` + event + `],"batch":[]}`, 1, 0},
		{"an event and a batch", `{` + token + `,"event":"$pageview","batch":[` + event + `]}`, 1, 0},
		{"invalid UTF-8 in a value", strings.Replace(event, "Export CSV", "Export \xff\xfe CSV", 2), 1, 0},
		{"invalid UTF-8 in a key", strings.Replace(event, `"uuid"`, "\"\xff\":1,\"uuid\"", 1), 1, 0},
		{"NUL in a value", strings.Replace(event, "user_42", `user\u0000_42`, 1), 1, 0},
		{"half a surrogate in a value", strings.Replace(event, "Export CSV", `\ud800`, 2), 1, 0},
		{"a large number", strings.Replace(event, `"uuid"`, `"n":123456789012345678901234567890e999,"uuid"`, 1), 1, 0},
		{"deep, but bearable", strings.Replace(event, `"uuid"`,
			`"n":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`,"uuid"`, 1), 1, 0},
		{"an event in an event in an event", `{"event":{"event":` + event + `},` + token + `}`, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newService(intake.Options{})
			requireCounts(t, s.post(captureDoor, []byte(c.body)), c.accepted, c.ignored)
			for _, e := range s.sink.take(shop) {
				assert.Equal(t, strings.ToValidUTF8(e.Action.Title, ""), e.Action.Title)
				assert.NotContains(t, e.Action.Description, "\x00")
			}
		})
	}
}

// The client may repeat the request, and nothing counts as accepted.
func TestSinkError_isTemporary(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			s := newService(intake.Options{})
			body := marshal(t, []any{click(nil), 7})
			s.sink.fail(errors.New("sink: dial tcp 10.0.0.7:6379: " + shopSecret))
			w := s.post(d, body)
			assert.NotContains(t, requireError(t, w, http.StatusServiceUnavailable), "dial")
			seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
			require.NoError(t, err)
			assert.Positive(t, seconds)
			assert.Empty(t, s.counted(t), "the repetition is counted, and only that")

			s.sink.fail(nil)
			requireCounts(t, s.post(d, body), 1, 1)
			assert.Equal(t, map[string]float64{"accepted": 1, "duplicate": 0, "ignored malformed": 1}, s.counted(t))
		})
	}
}

// A stored event holds no memory of its request.
func TestEvents_keepNothingOfTheRequest(t *testing.T) {
	s := newService(intake.Options{})
	const events = 50
	pad := strings.Repeat(" ", 2000)
	take := func(i int) {
		body := marshal(t, click(object{"uuid": fmt.Sprint(i), "padding": strings.Repeat("x", 1<<16),
			"properties.$session_id": pad + "s", "$set": object{"email": pad + "a@b.de"}}))
		requireCounts(t, s.post(captureDoor, gzipped(body)), 1, 0)
	}
	take(events) // buffers for any request
	grown := heaptest.After(func() {
		for i := range events {
			take(i)
		}
	})
	assert.Less(t, grown, int64(events*2000))
	for _, e := range s.sink.take(shop) {
		assert.Equal(t, "s", e.SessionID)
		assert.Equal(t, "a@b.de", e.Email)
	}
}

func TestIntake_reportsEveryMistake(t *testing.T) {
	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "liveactivity_events_total"})))
	h, err := intake.New(nil, nil, &intake.Options{MaxBody: -1, MaxDecoded: -1, Metrics: taken})
	assert.Nil(t, h)
	assert.Equal(t, []string{"intake.sink", "intake.products", "intake.MaxBody", "intake.MaxDecoded", "intake.Metrics"},
		musttest.Mistakes(t, err))
}
