package posthog_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/internal/element"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
)

// seedBodies returns bodies of every form in every encoding, captured ones among them.
func seedBodies(f *testing.F) [][]byte {
	var bodies [][]byte
	for _, scenario := range []string{"main", "base64", "no_compression", "old_1.297.2", "posthog_node"} {
		for _, c := range capturedRequests(f, scenario) {
			bodies = append(bodies, c.body)
		}
	}
	bodies = append(bodies, testdata("webhook_default_body.json"))
	for _, form := range forms {
		bodies = append(bodies, marshal(form))
	}
	event := marshal(click(nil))
	packed := base64.StdEncoding.EncodeToString(gzipped(event))
	bodies = append(bodies, gzipped(event), []byte(packed), []byte("data="+url.QueryEscape(packed)))
	for _, value := range junk {
		bodies = append(bodies, fmt.Appendf(nil, `{"batch":[%[1]s,{"event":"$autocapture","distinct_id":%[1]s,
			"timestamp":%[1]s,"properties":{"$elements":%[1]s}}]}`, value))
	}
	return bodies
}

// requireSound asserts the promises that every event keeps, from any input.
func requireSound(t *testing.T, e activity.Event) {
	t.Helper()
	require.NotEmpty(t, e.ID)
	require.True(t, e.SessionID != "" || e.UserID != "")
	for _, s := range []string{e.ID, e.SessionID, e.UserID, e.Email} {
		require.LessOrEqual(t, len(s), 1024)
	}
	if e.Action == nil {
		return
	}
	a := *e.Action
	require.Contains(t, []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange},
		a.Type)
	require.NotEmpty(t, a.Title)
	require.True(t, strings.HasPrefix(a.Description, "User "), a.Description)
	require.LessOrEqual(t, utf8.RuneCountInString(a.Title), 120)
	require.LessOrEqual(t, utf8.RuneCountInString(a.Description), 240)
	require.LessOrEqual(t, len(a.RawURL), 2048)
	for _, s := range []string{a.Title, a.Description, a.RawURL, a.CanonicalURL} {
		require.True(t, utf8.ValidString(s), "%q", s)
		require.False(t, strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), "%q", s)
	}
}

// FuzzParseChain reads chains whose sender chooses every byte.
func FuzzParseChain(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "events", "autocapture*.json"))
	require.NoError(f, err)
	for _, file := range files {
		var e struct {
			Properties struct {
				Chain string `json:"$elements_chain"`
			}
		}
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		require.NoError(f, json.Unmarshal(b, &e))
		f.Add(e.Properties.Chain)
	}
	for _, chain := range []string{`a.b:c:text="\""attr__id="x\";b`, `;;:text=";`, `a:attr__`, `b:text="C:\";i:text="y"`,
		`b:text="a\";b:attr__x="y"`} {
		f.Add(chain)
	}
	f.Fuzz(func(t *testing.T, chain string) {
		elements := posthog.ParseChain(chain)
		if n := len(elements); n > 0 && elements[n-1] == element.Unread {
			elements = elements[:n-1]
		}
		require.LessOrEqual(t, len(elements), posthog.MaxElements)
		require.LessOrEqual(t, len(elements), strings.Count(chain, ";")+1, "only a semicolon starts another element")
		size := 0
		for _, e := range elements {
			require.NotEmpty(t, e.Tag)
			size += len(e.Text) + len(e.AriaLabel) + len(e.Title) + len(e.Alt) + len(e.Name) + len(e.Placeholder) +
				len(e.ID) + len(e.Type) + len(e.Role) + len(e.ContentEditable)
		}
		require.LessOrEqual(t, size, len(chain), "every byte belongs to one value at most")
	})
}

// FuzzServe sends arbitrary requests to both doors. Each gets an answer in a form that a client can rely on.
func FuzzServe(f *testing.F) {
	for i, body := range seedBodies(f) {
		for _, path := range []string{"/e/", "/webhook/" + shop, "/flags/", "/array/phc_x/config.js"} {
			method := []string{http.MethodPost, http.MethodGet, http.MethodOptions}[i%3]
			f.Add(method, path, "", "https://app.example.com", shopSecret, body)
			f.Add(http.MethodPost, path, "gzip", "", fmt.Sprintf("sha256=%x", intake.Sign(shopSecret, body)), body)
		}
	}
	s := newService()
	statuses := []int{200, 204, 301, 307, 400, 401, 404, 405, 413, 415}
	f.Fuzz(func(t *testing.T, method, path, contentEncoding, origin, secret string, body []byte) {
		r := &http.Request{Method: method, URL: &url.URL{Path: "/" + strings.TrimPrefix(path, "/")}, Host: "x",
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Encoding": {contentEncoding}, "Origin": {origin}, "X-Posthog-Secret": {secret}},
			Body:   http.NoBody, ContentLength: int64(len(body))}
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		require.Contains(t, statuses, w.Code)
		if w.Code == http.StatusOK && path == captureDoor.path && bytes.HasPrefix(body, []byte("{")) {
			require.True(t, json.Valid(body), "only JSON is taken")
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
		}
		if w.Code >= http.StatusBadRequest {
			httpxtest.Detail(t, w.Code, w.Result())
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/javascript") {
			requireAssignment(t, w.Body.String())
		}
		for _, e := range append(s.sink.take(shop), s.sink.take(bank)...) {
			requireSound(t, e)
		}
	})
}

// junk is one value of each kind in JSON, and a few extreme ones.
var junk = []string{`null`, `true`, `0`, `-1.5e300`, `1e999`, `123456789012345678901234567890`, `""`, `"x"`, `"\u0000"`,
	`"\ud800"`, `"` + strings.Repeat("x", 5000) + `"`,
	`[]`, `[[]]`, `[null]`, `{}`, `{"email":{}}`, `{"":null}`, `[{"tag_name":[]}]`}

// A field of a wrong type costs at most its own event. The good event beside it is kept, whatever the envelope says.
func TestBadInput_costsOnlyItsOwnEvent(t *testing.T) {
	good := string(marshal(click(object{"uuid": "good"})))
	var fields []string
	for _, name := range []string{"uuid", "event", "distinct_id", "properties", "timestamp", "offset", "sent_at", "$set",
		"$set_once", "elements_chain", "api_key", "token", "person", "email", "element_id", "event_type", "session_id",
		"current_url", "input_field_name", "link_destination", "button_or_link_text"} {
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
		for _, value := range junk {
			bad := strings.Replace(field, "%s", value, 1)
			for _, body := range []string{bad, // by itself
				`{"sent_at":` + value + `,"":` + value + `,"batch":[` + bad + `,` + good + `]}`} {
				n, last := 0, intake.Meaning{}
				_, err := posthog.Source.Decode([]byte(body), intake.Request{}, func(m *intake.Meaning) { n, last = n+1, *m })
				if body == bad {
					continue
				}
				require.NoError(t, err, body)
				require.Equal(t, 2, n, body)
				require.Equal(t, "good", last.ID+last.Reason, body)
			}
		}
	}
}

// A body of any shape costs no more than reading it a few times.
func TestBadInput_takesTimeInProportion(t *testing.T) {
	const size = 512 << 10
	padding := `"p":"` + strings.Repeat("x", 100) + `",`
	level := len(padding) + len(`{"event":`)
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	for name, body := range map[string]string{
		"events in events":             nested(`{`+padding+`"event":`, `}`, min(size/level, 9000)),
		"events in events, in a batch": `{"batch":[` + nested(`{`+padding+`"event":`, `}`, min(size/level, 9000)) + `]}`,
		"persons in persons":           nested(`{`+padding+`"person":`, `}`, min(size/level, 9000)),
		"batches in batches":           nested(`{`+padding+`"batch":[`, `]}`, min(size/level, 4000)),
		"arrays in arrays":             nested(`[`, `]`, 9000),
		"the same key again and again": `{` + fill(`"event":{},`) + `"event":1}`,
		"tokens":                       `{` + fill(`"token":"x",`) + `"token":"y"}`,
		"properties":                   `{"event":"$autocapture","properties":{` + fill(`"k":1,`) + `"k":1}}`,
		"elements": `{"event":"$autocapture","distinct_id":"u","properties":{"$elements":[` +
			fill(`{},`) + `{}]}}`,
		"a long label": `{"event":"$autocapture","distinct_id":"u","properties":{"$el_text":"` + fill(`x `) + `"}}`,
		"a long URL": `{"event":"$pageview","distinct_id":"u","properties":{"$current_url":"https://x/` +
			fill(`a@/`) + `"}}`,
		"a long address": `{"event":"$identify","distinct_id":"u","properties":{"$session_id":"s"},` +
			`"$set":{"email":"` + fill(`a@`) + `"}}`,
		"a long time": `{"event":"$autocapture","distinct_id":"u","timestamp":"` + fill(`1`) + `"}`,
		"escapes":     `{"event":"$autocapture","distinct_id":"u","elements_chain":"` + fill(`\u003b`) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			requireQuick(t, 3*time.Second, func() {
				_, _ = posthog.Source.Decode([]byte(body), intake.Request{Webhook: true}, func(*intake.Meaning) {})
			})
		})
	}
}
