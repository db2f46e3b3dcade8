package posthog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// Each case posts one event at noon and asserts its time.
func TestTime_ofAnEvent(t *testing.T) {
	const ignored, second = -1, time.Second
	cases := []struct {
		name    string
		changes object
		before  time.Duration // noon
	}{
		{"RFC 3339", object{"timestamp": "2026-11-20T11:59:50Z"}, 10 * second},
		{"nanoseconds, as Go writes", object{"timestamp": "2026-11-20T11:59:50.123456789Z"}, 9876543211},
		{"with a zone ahead", object{"timestamp": "2026-11-20T13:59:50+02:00"}, 10 * second},
		{"zone without a colon", object{"timestamp": "2026-11-20T13:59:50.5+0200"}, 9500 * time.Millisecond},
		{"without a zone", object{"timestamp": "2026-11-20T11:59:50.5"}, 9500 * time.Millisecond},
		{"with a space", object{"timestamp": "2026-11-20 11:59:50"}, 10 * second},
		{"with a space and a zone", object{"timestamp": "2026-11-20 11:59:50+00:00"}, 10 * second},
		{"epoch seconds", object{"timestamp": noon.Unix() - 10}, 10 * second},
		{"epoch seconds with a fraction", object{"timestamp": float64(noon.Unix()) - 9.5}, 9500 * time.Millisecond},
		{"epoch milliseconds", object{"timestamp": noon.UnixMilli() - 10_000}, 10 * second},
		{"epoch seconds as text", object{"timestamp": fmt.Sprint(noon.Unix() - 10)}, 10 * second},

		{"none", nil, 0},
		{"empty", object{"timestamp": ""}, 0},
		{"offset", object{"offset": 2050}, 2050 * time.Millisecond},
		{"offset with a fraction", object{"offset": 2050.5}, 2050500 * time.Microsecond},
		{"offset into the future", object{"offset": -5000}, 0},
		{"timestamp wins over offset", object{"timestamp": "2026-11-20T11:59:50Z", "offset": 2050}, 10 * second},
		{"offset needs no sent_at", object{"offset": 2050, "sent_at": "2026-11-20T13:00:00Z"}, 2050 * time.Millisecond},

		{"a clock ahead", object{"timestamp": "2026-11-20T13:59:57Z", "sent_at": "2026-11-20T14:00:00Z"}, 3 * second},
		{"a clock behind", object{"timestamp": "2026-11-20T05:59:57Z", "sent_at": "2026-11-20T06:00:00Z"}, 3 * second},
		{"sent before it happened", object{"timestamp": "2026-11-20T11:59:57Z", "sent_at": "2026-11-20T11:59:50Z"}, 0},
		{"sent_at in another form", object{"timestamp": noon.Unix() - 10, "sent_at": noon.UnixMilli() - 5000}, 5 * second},
		{"sent_at that is no time", object{"timestamp": "2026-11-20T11:59:50Z", "sent_at": "soon"}, 10 * second},
		{"sent_at of a wrong type", object{"timestamp": "2026-11-20T11:59:50Z", "sent_at": object{}}, 10 * second},

		{"in the future", object{"timestamp": "2026-11-20T12:00:05Z"}, 0},
		{"the last moment there is", object{"timestamp": "9999-12-31T23:59:59.999999999Z"}, 0},
		{"as old as the retention", object{"timestamp": "2026-11-20T08:00:00Z"}, 4 * time.Hour},
		{"older than the retention", object{"timestamp": "2026-11-20T07:59:59.999Z"}, ignored},
		{"the year 1", object{"timestamp": "0001-01-01T00:00:00Z"}, ignored},
		{"offset longer than the retention", object{"offset": 4*3600*1000 + 1}, ignored},
		{"offset longer than time", object{"offset": 1e300}, ignored},
		{"sent in the far future", object{"timestamp": "2026-11-20T12:00:00Z", "sent_at": "9999-12-31T00:00:00Z"}, ignored},

		{"a word", object{"timestamp": "yesterday"}, ignored},
		{"no number", object{"timestamp": "NaN"}, ignored},
		{"beyond all numbers", object{"timestamp": "1e400"}, ignored},
		{"a number beyond time", object{"timestamp": 1e200}, ignored},
		{"a boolean", object{"timestamp": true}, ignored},
	}
	for _, c := range cases {
		atNoon(t, c.name, func(t *testing.T) {
			if c.before == ignored {
				requireIgnored(t, captureDoor, click(c.changes))
				return
			}
			got := eventOf(t, captureDoor, click(c.changes)).Time
			assert.WithinDuration(t, noon.Add(-c.before), got, time.Microsecond)
		})
	}
}

func TestID_ofAnEvent(t *testing.T) {
	for _, c := range []struct {
		uuid any
		want string // empty: a digest
	}{
		{"01a1f851-2c65-7a00-ad66-57cc46b02182", "01a1f851-2c65-7a00-ad66-57cc46b02182"}, {"order-7", "order-7"},
		{12345678901234567, "12345678901234567"}, {" order-7\n", "order-7"},
		{"", ""}, {" \t", ""}, {nil, ""}, {object{"id": "x"}, ""}, {[]any{"x"}, ""},
	} {
		event := click(nil)
		event["uuid"] = c.uuid
		id := eventOf(t, captureDoor, event).ID
		if c.want == "" {
			assert.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, id, c.uuid)
			continue
		}
		assert.Equal(t, c.want, id)
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
	escaped := "x" + strings.Repeat("\"", 257) + "y" // a byte of JSON more for each
	for _, c := range []struct {
		name          string
		changes       object
		session, user string
	}{
		{"in the properties, as browsers send", nil, "session-1", "user_42"},
		{"on top, as servers send", object{"properties.distinct_id": nil, "distinct_id": "user_42"}, "session-1", "user_42"},
		{"on top and in the properties", object{"distinct_id": "user_42"}, "session-1", "user_42"},
		{"null on top", object{"distinct_id": (*string)(nil)}, "session-1", "user_42"},
		{"a number", object{"properties.distinct_id": 42}, "session-1", "42"},
		{"a long number", object{"properties.distinct_id": int64(9007199254740993)}, "session-1", "9007199254740993"},
		{"any characters", object{"properties.distinct_id": "a/b?c d%20é🛒\ufffd"}, "session-1", "a/b?c d%20é🛒\ufffd"},
		{"none", object{"properties.distinct_id": nil}, "session-1", ""},
		{"an object", object{"properties.distinct_id": object{"id": 1}}, "session-1", ""},
		{"a number of a session", object{"properties.$session_id": 42}, "42", "user_42"},
		{"no session", object{"properties.$session_id": nil}, "", "user_42"},
		{"as long as an ID gets", object{"properties.distinct_id": long[1:]}, "session-1", long[1:]},
		{"as many escapes as an ID gets", object{"properties.distinct_id": escaped[2:]}, "session-1", escaped[2:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := eventOf(t, captureDoor, click(c.changes))
			assert.Equal(t, [2]string{c.session, c.user}, [2]string{e.SessionID, e.UserID})
		})
	}
	for _, none := range []object{{"properties.distinct_id": nil, "properties.$session_id": nil},
		{"properties.distinct_id": escaped}, {"properties.$session_id": escaped}} {
		requireIgnored(t, captureDoor, click(none))
	}
	spaced := strings.Repeat(" ", 1500) + long[:1000] // reading stops before the ID ends
	for name, unusable := range map[string]any{
		"too long": long, "too long with the space around it": spaced,
		"of which no part of a character was read": json.RawMessage(`"` + spaced[:2046] + `\ud83d\ude00"`),
		"in Latin-1":            json.RawMessage("\"M\xfcller\""), // Möller would read the same
		"with half a character": json.RawMessage(`"M\ud83dller"`), // and so would half of any other pair
	} {
		for _, field := range []string{"properties.distinct_id", "properties.$session_id", "uuid"} {
			t.Run(field+" "+name, func(t *testing.T) { requireIgnored(t, captureDoor, click(object{field: unusable})) })
		}
	}
}

// sent_at in any place corrects every event of its request, and an event's own sent_at wins.
func TestTime_sentAt(t *testing.T) {
	event := string(marshal(t, click(object{"timestamp": "2026-11-20T13:59:57Z"})))
	own := string(marshal(t, click(object{"timestamp": "2026-11-20T13:59:57Z", "sent_at": "2026-11-20T14:00:00Z"})))
	batch := `"batch":[` + event + `,` + string(marshal(t, click(object{"offset": 2000}))) + `]`
	const at2 = `"sent_at":"2026-11-20T14:00:00Z"`
	asked := func(at any) door { return door{path: fmt.Sprint("/e/?ip=0&_=", at)} }
	for name, c := range map[string]struct {
		door   door
		body   string
		events int
	}{
		"before the events":       {captureDoor, `{` + at2 + `,` + batch + `}`, 2},
		"after the events":        {captureDoor, `{` + batch + `,` + at2 + `}`, 2},
		"of an event in an array": {captureDoor, `[` + own + `]`, 1},
		"of an event in a batch":  {captureDoor, `{"batch":[` + own + `],"sent_at":"2026-11-20T13:59:57Z"}`, 1},
		"after that of a query":   {asked(noon.Add(time.Hour).UnixMilli()), `{` + at2 + `,` + batch + `}`, 2},
		"of a query":              {asked(noon.Add(2 * time.Hour).UnixMilli()), event, 1},
		"of a query long ago": {asked(noon.Add(-25 * time.Hour).UnixMilli()),
			string(marshal(t, click(object{"timestamp": "2026-11-20T11:59:57Z"}))), 1},
		"of a query in words": {asked("now"), string(marshal(t, click(object{"offset": 3000}))), 1},
		"beside a webhook's":  {webhookDoor, `{"event":` + event + `,` + at2 + `}`, 1},
	} {
		atNoon(t, name, func(t *testing.T) {
			s := newService(intake.Options{})
			requireCounts(t, s.post(c.door, []byte(c.body)), c.events, 0)
			for i, e := range s.sink.take(shop) {
				assert.WithinDuration(t, noon.Add(time.Duration(i-3)*time.Second), e.Time, 0)
			}
		})
	}
}

func signedBy(secret, text string) string {
	return hex.EncodeToString(intake.Sign(secret, []byte(text)))
}

// A hash counts wherever an email does, under each of the product's secrets and no other product's.
// The endpoint sets the lowest standing of an identity.
func TestStanding_comesFromTheEndpointUnlessSigned(t *testing.T) {
	hash, email := signedBy(shopSigns, "ada"), signedBy(shopSignsToo, "ada@x.example")
	identify := func(changes object) object {
		e := click(changes)
		e["event"], e["distinct_id"] = "$identify", "ada"
		delete(e["properties"].(object), "distinct_id")
		return e
	}
	for name, c := range map[string]struct {
		event       object
		user, email activity.Standing
	}{
		"nothing":          {identify(object{"$set": object{"email": "ada@x.example"}}), 0, 0},
		"in properties":    {identify(object{"properties.$user_hash": hash}), activity.Signed, 0},
		"without a dollar": {identify(object{"properties.user_hash": hash}), activity.Signed, 0},
		"in $set": {identify(object{"$set": object{"email": "ada@x.example", "$user_hash": hash,
			"email_hash": email}}), activity.Signed, activity.Signed},
		"in properties.$set": {identify(object{"properties.$set": object{"email": "ADA@x.example", "$email_hash": email}}),
			0, activity.Signed},
		"in the person": {object{"event": identify(nil),
			"person": object{"properties": object{"email": "ada@x.example", "user_hash": hash}}},
			activity.Signed, 0},
		"another user's": {identify(object{"properties.$user_hash": signedBy(shopSigns, "eve")}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []struct {
				door
				least activity.Standing
			}{{captureDoor, activity.Claimed}, {webhookDoor, activity.Reported}} {
				s := newService(intake.Options{})
				requireCounts(t, s.post(at.door, marshal(t, c.event)), 1, 0)
				require.Len(t, s.sink.stand, 1)
				assert.Equal(t, max(c.user, at.least), s.sink.stand[0].Standing, at.name)
				assert.Equal(t, max(c.email, at.least), s.sink.stand[0].EmailStanding, at.name)
			}
		})
	}
}

// Visitors that share an ID must not see each other. Their actions belong to their sessions and to
// no user.
func TestNobody_hasNoUserID(t *testing.T) {
	for _, id := range []any{"$posthog_cookieless", "anonymous", "Guest", "DISTINCTID", "distinct_id", "id",
		"Not_Authenticated",
		"email", "undefined", "uNdEfInEd", "true", "False", true, false, "[object Object]", "NaN", "None", "none",
		"null", "0", 0,
		"", " ", "\t\n", "\u00a0", `" "`, `"anonymous"`, "'guest'", `"null"`, "'0'", `"$posthog_cookieless"`,
		" anonymous ", "\tundefined\n", `" anonymous "`, ` "null" `, " $posthog_cookieless",
		"00000000-0000-0000-0000-000000000000",
		`"00000000-0000-0000-0000-000000000000"`} {
		for _, changes := range []object{
			{"properties.distinct_id": id},
			{"properties.distinct_id": nil, "distinct_id": id},
			{"properties.distinct_id": id, "properties.$user_id": id, "properties.$is_identified": true},
			{"event": "$identify", "properties.distinct_id": id, "$set": object{"email": "ada@example.com"}},
		} {
			e := eventOf(t, captureDoor, click(changes))
			assert.Empty(t, e.UserID, "%q", id)
			assert.False(t, e.Identified)
			assert.Equal(t, "session-1", e.SessionID)
		}
	}
}

// An event without a user and a session is ignored, and the answer says so. Actions of cookieless
// visitors are the exception and go to the stream.
func TestNobody_isIgnoredWithoutASession(t *testing.T) {
	s := newService(intake.Options{})
	for _, session := range []any{nil, "undefined"} {
		w := s.post(captureDoor, marshal(t, click(object{"properties.distinct_id": "anonymous",
			"properties.$session_id": session})))
		assert.JSONEq(t, `{"status":1,"accepted":0,"ignored":1,"reasons":{"no_session_and_user":1}}`, w.Body.String())
	}
	for _, id := range []string{"$posthog_cookieless", "anonymous"} {
		requireIgnored(t, captureDoor, click(object{"event": "$set", "properties.distinct_id": id,
			"properties.$session_id": nil, "$set": object{"email": "ada@example.com"}}))
	}
	e := eventOf(t, captureDoor,
		click(object{"properties.distinct_id": "$posthog_cookieless", "properties.$session_id": nil}))
	assert.Equal(t, "Click Export CSV", e.Action.Title)
	assert.Empty(t, e.SessionID+e.UserID)
}

func TestNobody_isNoOneElse(t *testing.T) {
	for _, id := range []string{"Null", "nan", "NONE", "00", "1", " a", "ada", "anonymous2", "guest_7", "my id", `"ada"`,
		`"`, "''", "$posthog",
		"00000000-0000-0000-0000-000000000001", " ada "} {
		assert.Equal(t, id, eventOf(t, captureDoor, click(object{"properties.distinct_id": id})).UserID)
	}
}
