package posthog_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
)

// Each case posts one event at noon and asserts its time. A case without a time is ignored.
func TestTime_ofAnEvent(t *testing.T) {
	before := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	const second = time.Second
	cases := []struct {
		name    string
		changes object
		want    *time.Time
	}{
		{"RFC 3339", object{"timestamp": "2026-11-20T11:59:50Z"}, before(10 * second)},
		{"nanoseconds, as Go writes", object{"timestamp": "2026-11-20T11:59:50.123456789Z"}, before(9876543211)},
		{"with a zone ahead", object{"timestamp": "2026-11-20T13:59:50+02:00"}, before(10 * second)},
		{"zone without a colon", object{"timestamp": "2026-11-20T13:59:50.5+0200"}, before(9500 * time.Millisecond)},
		{"without a zone", object{"timestamp": "2026-11-20T11:59:50.5"}, before(9500 * time.Millisecond)},
		{"with a space", object{"timestamp": "2026-11-20 11:59:50"}, before(10 * second)},
		{"with a space and a zone", object{"timestamp": "2026-11-20 11:59:50+00:00"}, before(10 * second)},
		{"epoch seconds", object{"timestamp": noon.Unix() - 10}, before(10 * second)},
		{"epoch seconds with a fraction", object{"timestamp": float64(noon.Unix()) - 9.5}, before(9500 * time.Millisecond)},
		{"epoch milliseconds", object{"timestamp": noon.UnixMilli() - 10_000}, before(10 * second)},
		{"epoch seconds as text", object{"timestamp": fmt.Sprint(noon.Unix() - 10)}, before(10 * second)},

		{"none", nil, before(0)},
		{"empty", object{"timestamp": ""}, before(0)},
		{"offset", object{"offset": 2050}, before(2050 * time.Millisecond)},
		{"offset with a fraction", object{"offset": 2050.5}, before(2050500 * time.Microsecond)},
		{"offset into the future", object{"offset": -5000}, before(0)},
		{"timestamp wins over offset", object{"timestamp": "2026-11-20T11:59:50Z", "offset": 2050}, before(10 * second)},
		{"offset needs no sent_at", object{"offset": 2050, "sent_at": "2026-11-20T13:00:00Z"},
			before(2050 * time.Millisecond)},

		{"a client's clock ahead", object{"timestamp": "2026-11-20T13:59:57Z", "sent_at": "2026-11-20T14:00:00Z"},
			before(3 * second)},
		{"a client's clock behind", object{"timestamp": "2026-11-20T05:59:57Z", "sent_at": "2026-11-20T06:00:00Z"},
			before(3 * second)},
		{"sent before it happened", object{"timestamp": "2026-11-20T11:59:57Z", "sent_at": "2026-11-20T11:59:50Z"},
			before(0)},
		{"sent_at in another form", object{"timestamp": noon.Unix() - 10, "sent_at": noon.UnixMilli() - 5000},
			before(5 * second)},
		{"sent_at that is no time", object{"timestamp": "2026-11-20T11:59:50Z", "sent_at": "soon"}, before(10 * second)},
		{"sent_at of a wrong type", object{"timestamp": "2026-11-20T11:59:50Z", "sent_at": object{}}, before(10 * second)},

		{"in the future", object{"timestamp": "2026-11-20T12:00:05Z"}, before(0)},
		{"the last moment there is", object{"timestamp": "9999-12-31T23:59:59.999999999Z"}, before(0)},
		{"as old as the retention", object{"timestamp": "2026-11-20T08:00:00Z"}, before(4 * time.Hour)},
		{"older than the retention", object{"timestamp": "2026-11-20T07:59:59.999Z"}, nil},
		{"the year 1", object{"timestamp": "0001-01-01T00:00:00Z"}, nil},
		{"offset longer than the retention", object{"offset": 4*3600*1000 + 1}, nil},
		{"offset longer than time", object{"offset": 1e300}, nil},
		{"sent in the far future", object{"timestamp": "2026-11-20T12:00:00Z", "sent_at": "9999-12-31T00:00:00Z"}, nil},

		{"a word", object{"timestamp": "yesterday"}, nil},
		{"no number", object{"timestamp": "NaN"}, nil},
		{"beyond all numbers", object{"timestamp": "1e400"}, nil},
		{"a number beyond time", object{"timestamp": 1e200}, nil},
		{"a boolean", object{"timestamp": true}, nil},
	}
	for _, c := range cases {
		atNoon(t, c.name, func(t *testing.T) {
			if c.want == nil {
				requireIgnored(t, captureDoor, click(c.changes))
				return
			}
			assert.WithinDuration(t, *c.want, eventOf(t, captureDoor, click(c.changes)).Time, time.Microsecond)
		})
	}
}

func TestID_ofAnEvent(t *testing.T) {
	cases := []struct {
		name string
		uuid any
		want string // empty: a digest
	}{
		{"a UUID", "01a1f851-2c65-7a00-ad66-57cc46b02182", "01a1f851-2c65-7a00-ad66-57cc46b02182"},
		{"any other text", "order-7", "order-7"},
		{"a number", 12345678901234567, "12345678901234567"},
		{"white space around", " order-7\n", "order-7"},
		{"empty, as posthog-go sends", "", ""},
		{"white space", " \t", ""},
		{"null", nil, ""},
		{"an object", object{"id": "x"}, ""},
		{"an array", []any{"x"}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			event := click(nil)
			event["uuid"] = c.uuid
			id := eventOf(t, captureDoor, event).ID
			if c.want != "" {
				assert.Equal(t, c.want, id)
				return
			}
			assert.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, id)
		})
	}
}

// Without a uuid, the same event has the same ID at any time and in any form, a digest of its JSON.
func TestID_isADigestWithoutUUID(t *testing.T) {
	s := newService(intake.Options{})
	event := string(marshal(t, click(object{"uuid": ""})))
	sum := sha256.Sum256([]byte(event))
	for name, body := range map[string]string{
		"alone":                    event,
		"in an array":              "[" + event + "]",
		"in a batch":               `{"batch":[` + event + `],"sent_at":"2026-11-20T12:00:00Z"}`,
		"second, behind a bad one": "[7 ,\n " + event + "]",
	} {
		t.Run(name, func(t *testing.T) {
			w := s.post(captureDoor, []byte(body))
			require.Equal(t, 1, requireOK(t, w).Accepted)
			assert.Equal(t, uuid.UUID(sum[:16]).String(), s.requireOneEvent(t).ID)
		})
	}
}

func TestID_ofUserAndSession(t *testing.T) {
	long := strings.Repeat("x", 1025)
	escaped := "x" + strings.Repeat("\"", 257) + "y"  // a byte of JSON more for each
	spaced := strings.Repeat(" ", 1500) + long[:1000] // reading stops before the ID ends
	latin1 := json.RawMessage("\"M\xfcller\"")        // Möller would read the same
	half := json.RawMessage(`"M\ud83dller"`)          // and so would half of any other pair
	cases := []struct {
		name    string
		changes object
		want    *[2]string // session and user; nil: ignored
	}{
		{"in the properties, as browsers send", nil, &[2]string{"session-1", "user_42"}},
		{"on top, as servers send", object{"properties.distinct_id": nil, "distinct_id": "user_42"},
			&[2]string{"session-1", "user_42"}},
		{"on top and in the properties", object{"distinct_id": "user_42"}, &[2]string{"session-1", "user_42"}},
		{"null on top", object{"distinct_id": (*string)(nil)}, &[2]string{"session-1", "user_42"}},
		{"a number", object{"properties.distinct_id": 42}, &[2]string{"session-1", "42"}},
		{"a long number", object{"properties.distinct_id": int64(9007199254740993)},
			&[2]string{"session-1", "9007199254740993"}},
		{"any characters", object{"properties.distinct_id": "a/b?c d%20é🛒"}, &[2]string{"session-1", "a/b?c d%20é🛒"}},
		{"a character that replaces another", object{"properties.distinct_id": "M\ufffdller"},
			&[2]string{"session-1", "M\ufffdller"}},
		{"none", object{"properties.distinct_id": nil}, &[2]string{"session-1", ""}},
		{"an object", object{"properties.distinct_id": object{"id": 1}}, &[2]string{"session-1", ""}},
		{"a number of a session", object{"properties.$session_id": 42}, &[2]string{"42", "user_42"}},
		{"no session", object{"properties.$session_id": nil}, &[2]string{"", "user_42"}},
		{"as long as an id gets", object{"properties.distinct_id": long[1:]}, &[2]string{"session-1", long[1:]}},
		{"as many escapes as an id gets", object{"properties.distinct_id": escaped[2:]},
			&[2]string{"session-1", escaped[2:]}},

		{"neither user nor session", object{"properties.distinct_id": nil, "properties.$session_id": nil}, nil},
		{"a user id that is too long", object{"properties.distinct_id": long}, nil},
		{"a session id that is too long", object{"properties.$session_id": long}, nil},
		{"a user id of too many escapes", object{"properties.distinct_id": escaped}, nil},
		{"a session id of too many escapes", object{"properties.$session_id": escaped}, nil},
		{"a user id in Latin-1", object{"properties.distinct_id": latin1}, nil},
		{"a session id in Latin-1", object{"properties.$session_id": latin1}, nil},
		{"an event id in Latin-1", object{"uuid": latin1}, nil},
		{"a user id with half a character", object{"properties.distinct_id": half}, nil},
		{"a session id with half a character", object{"properties.$session_id": half}, nil},
		{"an event id with half a character", object{"uuid": half}, nil},
		{"an event id that is too long", object{"uuid": long}, nil},
		{"a session id that is too long with the space around it", object{"properties.$session_id": spaced}, nil},
		{"a session id of which no part of a character was read",
			object{"properties.$session_id": json.RawMessage(`"` + spaced[:2046] + `\ud83d\ude00"`)}, nil},
		{"an event id that is too long with the space around it", object{"uuid": spaced}, nil},
	}
	for _, c := range cases {
		atNoon(t, c.name, func(t *testing.T) {
			if c.want == nil {
				requireIgnored(t, captureDoor, click(c.changes))
				return
			}
			e := eventOf(t, captureDoor, click(c.changes))
			assert.Equal(t, *c.want, [2]string{e.SessionID, e.UserID})
		})
	}
}

// sent_at in any place corrects every event of its request, and an event's own sent_at wins.
func TestTime_sentAt(t *testing.T) {
	event := string(marshal(t, click(object{"timestamp": "2026-11-20T13:59:57Z"})))
	own := string(marshal(t, click(object{"timestamp": "2026-11-20T13:59:57Z", "sent_at": "2026-11-20T14:00:00Z"})))
	batch := `"batch":[` + event + `,` + string(marshal(t, click(object{"offset": 2000}))) + `]`
	const at2 = `"sent_at":"2026-11-20T14:00:00Z"`
	for name, c := range map[string]struct {
		door door
		body string
		want []time.Duration // before noon
	}{
		"before the events": {captureDoor, `{` + at2 + `,` + batch + `}`, []time.Duration{3 * time.Second, 2 * time.Second}},
		"after the events": {captureDoor, `{` + batch + `,` + at2 + `}`,
			[]time.Duration{3 * time.Second, 2 * time.Second}},
		"of an event in an array": {captureDoor, `[` + own + `]`, []time.Duration{3 * time.Second}},
		"of an event in a batch": {captureDoor, `{"batch":[` + own + `],"sent_at":"2026-11-20T13:59:57Z"}`,
			[]time.Duration{3 * time.Second}},
		"after that of a query": {door{path: fmt.Sprintf("/e/?_=%d", noon.Add(time.Hour).UnixMilli())},
			`{` + at2 + `,` + batch + `}`, []time.Duration{3 * time.Second, 2 * time.Second}},
		"of a query": {door{path: fmt.Sprintf("/e/?ip=0&_=%d", noon.Add(2*time.Hour).UnixMilli())}, event,
			[]time.Duration{3 * time.Second}},
		"of a query long ago": {door{path: fmt.Sprintf("/e/?_=%d", noon.Add(-25*time.Hour).UnixMilli())},
			string(marshal(t, click(object{"timestamp": "2026-11-20T11:59:57Z"}))), []time.Duration{3 * time.Second}},
		"of a query in words": {door{path: "/e/?_=now"}, string(marshal(t, click(object{"offset": 3000}))),
			[]time.Duration{3 * time.Second}},
		"beside a webhook's": {webhookDoor, `{"event":` + event + `,` + at2 + `}`, []time.Duration{3 * time.Second}},
	} {
		atNoon(t, name, func(t *testing.T) {
			s := newService(intake.Options{})
			requireCounts(t, s.post(c.door, []byte(c.body)), len(c.want), 0)
			for i, e := range s.sink.take(shop) {
				assert.WithinDuration(t, noon.Add(-c.want[i]), e.Time, 0)
			}
		})
	}
}
