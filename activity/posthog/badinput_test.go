package posthog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/posthog"
)

// junk is one value of each kind in JSON, and a few extreme ones.
var junk = []string{`null`, `true`, `0`, `-1.5e300`, `1e999`, `123456789012345678901234567890`, `""`, `"x"`, `"\u0000"`,
	`"\ud800"`, `"` + strings.Repeat("x", 5000) + `"`,
	`[]`, `[[]]`, `[null]`, `{}`, `{"email":{}}`, `{"":null}`, `[{"tag_name":[]}]`}

// A field of a wrong type costs at most its own event. The good event beside it is kept, whatever the envelope says.
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
	bodies := map[string]string{
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
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			requireQuick(t, 3*time.Second, func() {
				_, _ = posthog.Source.Decode([]byte(body), intake.Request{Webhook: true}, func(*intake.Meaning) {})
			})
		})
	}
}
