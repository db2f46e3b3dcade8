package amplitude_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/amplitude"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// decode returns each event of a request as a line: the reason to ignore it, or its action, user, session and address.
func decode(t testing.TB, body string) (lines []string) {
	t.Helper()
	_, err := amplitude.Source.Decode([]byte(body), intake.Request{Arrived: time.Now()}, func(m *intake.Meaning) {
		parts := []string{"identity"}
		switch {
		case m.Reason != "":
			lines = append(lines, "ignored: "+m.Reason)
			return
		case m.Action != nil:
			parts = []string{m.Action.Title, m.Action.RawURL}
		}
		parts = append(parts, m.UserID, m.SessionID)
		if m.Anonymous != "" {
			parts = append(parts, "was "+m.Anonymous)
		}
		if m.Visitor != m.UserID && m.Visitor != m.Anonymous {
			parts = append(parts, "at "+m.Visitor)
		}
		if m.Email != "" {
			parts = append(parts, m.Email)
		}
		lines = append(lines, strings.Join(parts, " | "))
	})
	require.NoError(t, err)
	return lines
}

func recorded(t testing.TB) (bodies []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/amplitude.json")
	require.NoError(t, err)
	var capture struct{ Requests []struct{ Body string } }
	require.NoError(t, json.Unmarshal(data, &capture))
	for _, r := range capture.Requests {
		bodies = append(bodies, r.Body)
	}
	return bodies
}

// Recorded traffic of the SDK is decoded to the meanings listed beside it. A click that leads to another
// page is on its own page, although the event's location is already the next one.
func TestDecode_recordedTraffic(t *testing.T) {
	var lines []string
	for _, body := range recorded(t) {
		lines = append(lines, decode(t, body)...)
	}
	want, err := os.ReadFile("testdata/amplitude.txt")
	require.NoError(t, err)
	assert.Equal(t, string(want), strings.Join(lines, "\n")+"\n")
}

func TestDecode_meanings(t *testing.T) {
	properties := strings.NewReplacer(`"Element`, `"[Amplitude] Element`, `"Form`, `"[Amplitude] Form`)
	of := func(typ, more string) string {
		return `{"device_id":"d","session_id":7,"event_type":"[Amplitude] ` + typ +
			`","event_properties":{"[Amplitude] Page URL":"https://x.example/a",` + properties.Replace(more) + `}}`
	}
	clicked := func(more string) string { return of("Element Clicked", more) }
	typed := func(hierarchy string) string {
		return clicked(`"Element Text":"s3cr3t","Element Hierarchy":[` + hierarchy + `]`)
	}
	const onA, malformed = " | https://x.example/a | d | d:7", "ignored: malformed"
	for name, tt := range map[string]struct{ body, want string }{
		"a click by its tag": {clicked(`"Element Tag":"BUTTON"`), "Click button" + onA},
		"a click by its id":  {clicked(`"Element Tag":"a","Element ID":"go"`), "Click #go" + onA},
		"a click by its text": {clicked(`"Element Tag":"a","Element Aria Label":"x","Element Text":"Go"`),
			"Click Go" + onA},
		"a click into an input": {clicked(`"Element Tag":"input","Element Text":"s3cr3t"`), "Click field" + onA},
		"a click on an option":  {typed(`{"tag":"span"},{"tag":"li","attrs":{"role":"option"}}`), "Click option" + onA},
		"a click into a text":   {typed(`{"tag":"p"},{"tag":"div","attrs":{"contenteditable":true}}`), "Click p" + onA},
		"a click on a link in an editor": {
			typed(`{"tag":"a","attrs":{"href":"/"}},{"tag":"div","classes":["tiptap","ProseMirror"]}`), "Click link" + onA},
		"a click into an editor": {clicked(`"Element Text":"s3cr3t","Element Tag":"div",` +
			`"Element Hierarchy":[{"tag":"div","attrs":{"type":"x"}}]`), "Click div" + onA},
		"a click on a div": {clicked(`"Element Text":"Go","Element Hierarchy":[{"tag":"div","attrs":{"data-x":"1"}}]`),
			"Click Go" + onA},
		"a change by its name": {of("Element Changed",
			`"Element Text":"Free Pro","Element Hierarchy":[{"tag":"select","attrs":{"name":"plan"}}]`),
			"Change plan field" + onA},
		"a change of nothing": {of("Element Changed", `"Element Text":"s3cr3t","Element Tag":"textarea"`),
			"Change field" + onA},
		"a submit by its id": {of("Form Submitted", `"Form ID":"signup"`), "Submit #signup form" + onA},
		"a page by its URL":  {of("Page Viewed", `"x":1`), "Page Load: A" + onA},
		"a dead click":       {of("Dead Click", `"x":1`), "ignored: other_event"},
		"a custom event":     {`{"device_id":"d","event_type":"Invoice Sent"}`, "ignored: other_event"},
		"a page of nobody": {`{"event_type":"[Amplitude] Page Viewed",` +
			`"event_properties":{"[Amplitude] Page Location":"https://x.example/a"}}`, "ignored: no_session_and_user"},
		"a page without address": {`{"device_id":"d","event_type":"[Amplitude] Page Viewed"}`, malformed},
		"no type":                {`{"device_id":"d"}`, malformed},
		"no object":              {`["x"]`, malformed},
		"a time that is none":    {`{"device_id":"d","time":"soon","user_id":"u","event_type":"$identify"}`, malformed},
		"a user only": {`{"user_id":"u","session_id":7,"event_type":"$identify",` +
			`"user_properties":{"email":"a@b.co"}}`, "identity | u |  | a@b.co"},
		"out of any session": {`{"user_id":"u","device_id":"d","session_id":-1,"event_type":"$identify"}`,
			"identity | u | d | was d"},
		"an address alone": {`{"device_id":"d","event_type":"$identify","user_properties":{"$set":{"email":"a@b.co"}}}`,
			"identity | d | d | a@b.co"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, []string{tt.want}, decode(t, tt.body)) })
	}
}

func TestDecode_listedEvents(t *testing.T) {
	events := intake.NewEvents(intake.Rules{"*": {}, "Invoice Sent": {Properties: []string{"plan"}}, "$rageclick": {},
		"$dead_click": {}, "$offer": {}, "$exception": {}})
	const page = `,"event_properties":{"plan":"pro","[Amplitude] Element Text":"Pay",
		"[Amplitude] Page URL":"https://x.example/a"}}`
	for typ, want := range map[string]string{
		"Invoice Sent":                "User did Invoice Sent (plan: pro) on the a page",
		"Another":                     "User did Another on the a page",
		"[Amplitude] Element Clicked": "User clicked Pay on the a page; marks may follow",
		"[Amplitude] Rage Click":      "User clicked Pay on the a page; rage",
		"[Amplitude] Dead Click":      "User clicked Pay on the a page; dead",
		"[Amplitude] Form Started":    "other_event",
		"session_start":               "other_event",
		"$exposure":                   "other_event",
		"$offer":                      "User did $offer on the a page",
		"$exception":                  "other_event",
	} {
		_, err := amplitude.Source.Decode([]byte(`{"device_id":"d","event_type":"`+typ+`"`+page),
			intake.Request{Arrived: time.Now(), Events: events},
			func(m *intake.Meaning) {
				got := m.Reason
				if got == "" {
					got = m.Action.Description
				}
				if m.Markable {
					got += "; marks may follow"
				} else if m.Reason == "" && m.IsMark() {
					got += "; " + m.Action.Marks[0]
				}
				assert.Equal(t, want, got, typ)
			})
		require.NoError(t, err)
	}
}

func TestDecode_timesAndProofs(t *testing.T) {
	body := `{"client_upload_time":"2026-11-23T03:57:00Z","events":[{"device_id":"d","user_id":"u","time":1795406195728,
		"insert_id":"i","event_type":"$identify","user_properties":{"$set":{"user_hash":"aa","email_hash":"bb"}},
		"event_properties":{"$identity_token":"cc"}}]}`
	for _, webhook := range []bool{false, true} { // Amplitude has corrected a webhook's times
		_, err := amplitude.Source.Decode([]byte(body), intake.Request{Webhook: webhook}, func(m *intake.Meaning) {
			assert.Equal(t, []any{"i", int64(1795406195728), "2026-11-23T03:57:00Z", webhook},
				[]any{m.ID, m.Time.UnixMilli(), m.Sent.Format(time.RFC3339), m.ServerTime})
			assert.Equal(t, intake.Proof{UserHash: "aa", EmailHash: "bb", Token: "cc"}, m.Proof)
		})
		require.NoError(t, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range recorded(f) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events := 0
		n, err := amplitude.Source.Decode(body, intake.Request{Arrived: time.Now()}, func(m *intake.Meaning) {
			if events++; m.Reason != "" {
				return
			}
			require.NotEmpty(t, m.ID)
			require.LessOrEqual(t, max(len(m.SessionID), len(m.UserID), len(m.ID)), intake.MaxID)
			require.False(t, m.Action == nil && m.UserID == "" && m.Email == "")
		})
		if err == nil {
			require.Equal(t, n, events)
		}
	})
}
