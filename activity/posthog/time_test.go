package posthog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/intake"
)

// An offset counts from the time of sending, or else of arrival. An event without a time happened when it arrived.
func TestTime_ofAnEvent(t *testing.T) {
	const stamp, hour = "2026-11-20T11:00:00Z", time.Hour
	for name, c := range map[string]struct {
		changes object
		before  time.Duration // noon
		sent    bool          // at two o'clock
		arrival bool          // is known alone
	}{
		"a timestamp":                {object{"timestamp": stamp}, hour, false, false},
		"a number":                   {object{"timestamp": noon.Add(-hour).UnixMilli()}, hour, false, false},
		"none":                       {nil, 0, false, true},
		"empty":                      {object{"timestamp": ""}, 0, false, true},
		"offset":                     {object{"offset": 2050}, 2050 * time.Millisecond, false, true},
		"offset with a fraction":     {object{"offset": 2050.5}, 2050500 * time.Microsecond, false, true},
		"offset into the future":     {object{"offset": -5000}, 0, false, true},
		"offset that is a text":      {object{"offset": "2050"}, 0, false, true},
		"offset before sending":      {object{"offset": 7200_000, "sent_at": "2026-11-20T14:00:00Z"}, 0, true, false},
		"timestamp before an offset": {object{"timestamp": stamp, "offset": 2050}, hour, false, false},
		"with sent_at":               {object{"timestamp": stamp, "sent_at": noon.Add(2 * hour).Unix()}, hour, true, false},
		"sent_at that is no time":    {object{"timestamp": stamp, "sent_at": "soon"}, hour, false, false},
		"sent_at of a wrong type":    {object{"timestamp": stamp, "sent_at": object{}}, hour, false, false},
	} {
		e := eventOf(t, captureDoor, click(c.changes))
		if c.arrival {
			assert.Equal(t, []any{time.Time{}, c.before}, []any{e.Time, e.Age}, name)
		} else {
			assert.WithinDuration(t, noon.Add(-c.before), e.Time, time.Microsecond, name)
		}
		assert.Equal(t, [2]bool{c.sent, false}, [2]bool{e.Sent.Equal(noon.Add(2 * hour)), e.ServerTime}, name)
	}
	const year = 365 * 24 * hour
	assert.Greater(t, eventOf(t, captureDoor, click(object{"offset": 1e300})).Age, year, "which no log retains")
	early := eventOf(t, captureDoor, click(object{"offset": 1e300, "sent_at": "2026-11-20T14:00:00Z"}))
	assert.WithinDuration(t, noon.Add(-100*year), early.Time, year)
	for _, wrong := range []any{"yesterday", "NaN", 1e200, true} {
		assert.Equal(t, intake.ReasonMalformed, meaningOf(t, captureDoor, click(object{"timestamp": wrong})).Reason)
	}
}

func TestID_ofAnEvent(t *testing.T) {
	for _, c := range []struct {
		uuid any
		want string // empty: a digest
	}{
		{"01a1f851-2c65-7a00-ad66-57cc46b02182", "01a1f851-2c65-7a00-ad66-57cc46b02182"}, {" order-7\n", "order-7"},
		{12345678901234567, "12345678901234567"}, {" \t", ""}, {nil, ""}, {object{"id": "x"}, ""}, {[]any{"x"}, ""},
	} {
		event := click(nil)
		event["uuid"] = c.uuid
		m := meaningOf(t, captureDoor, event)
		assert.Equal(t, c.want, m.Key)
		if c.want == "" {
			assert.NoError(t, uuid.Validate(m.ID))
			assert.Equal(t, m.ID, meaningOf(t, captureDoor, object{"batch": []object{event}}).ID, "the same in any form")
			continue
		}
		assert.Equal(t, c.want, m.ID)
	}
}

func TestID_ofUserAndSession(t *testing.T) {
	for name, c := range map[string]struct {
		changes       object
		session, user string
	}{
		"in the properties, as browsers send": {nil, "session-1", "user_42"},
		"on top, as servers send":             {object{"properties.distinct_id": nil, "distinct_id": "7"}, "session-1", "7"},
		"on top and in the properties":        {object{"distinct_id": "7"}, "session-1", "7"},
		"null on top":                         {object{"distinct_id": (*string)(nil)}, "session-1", "user_42"},
		"a long number": {object{"properties.distinct_id": 9007199254740993}, "session-1",
			"9007199254740993"},
		"none":                  {object{"properties.distinct_id": nil}, "session-1", ""},
		"an object":             {object{"properties.distinct_id": object{"id": 1}}, "session-1", ""},
		"a number of a session": {object{"properties.$session_id": 42}, "42", "user_42"},
		"no session":            {object{"properties.$session_id": nil}, "", "user_42"},
	} {
		e := eventOf(t, captureDoor, click(c.changes))
		assert.Equal(t, [2]string{c.session, c.user}, [2]string{e.SessionID, e.UserID}, name)
	}
	long := strings.Repeat("x", intake.MaxID+1)
	for _, field := range []string{"properties.distinct_id", "distinct_id", "properties.$session_id", "uuid"} {
		assert.Equal(t, intake.ReasonMalformed, meaningOf(t, captureDoor, click(object{field: long})).Reason, field)
	}
}

// sent_at in any place corrects every event of its request, and an event's own sent_at wins.
func TestTime_sentAt(t *testing.T) {
	event := string(marshal(click(object{"timestamp": "2026-11-20T13:59:57Z"})))
	own := string(marshal(click(object{"timestamp": "2026-11-20T13:59:57Z", "sent_at": "2026-11-20T14:00:00Z"})))
	batch := `"batch":[` + event + `]`
	const at2, at1 = `"sent_at":"2026-11-20T14:00:00Z"`, `"sent_at":"2026-11-20T13:59:57Z"`
	asked := func(at any) door { return door{path: fmt.Sprint("/e/?ip=0&_=", at)} }
	now, at := time.Now().Truncate(time.Millisecond), noon.Add(2*time.Hour)
	for name, c := range map[string]struct {
		door door
		body string
		want time.Time
	}{
		"before the events":       {captureDoor, `{` + at2 + `,` + batch + `}`, at},
		"after the events":        {captureDoor, `{` + batch + `,` + at2 + `}`, at},
		"of an event in an array": {captureDoor, `[` + own + `]`, at},
		"of an event in a batch":  {captureDoor, `{"batch":[` + own + `],` + at1 + `}`, at},
		"after that of a query":   {asked(now.UnixMilli()), `{` + at2 + `,` + batch + `}`, at},
		"of a query":              {asked(now.Add(-time.Hour).UnixMilli()), event, now.Add(-time.Hour)},
		"of a query long ago":     {asked(now.Add(-25 * time.Hour).UnixMilli()), event, time.Time{}},
		"of a query in words":     {asked("now"), event, time.Time{}},
		"beside a webhook's":      {webhookDoor, `{"event":` + event + `,` + at2 + `}`, at},
	} {
		s := newService()
		requireCounts(t, s.post(c.door, []byte(c.body)), 1, 0)
		assert.True(t, c.want.Equal(s.sink.take(shop)[0].Sent), name)
	}
}
