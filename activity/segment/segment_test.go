package segment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/segment"
)

// decode returns the meanings of a request's events, each as one line.
func decode(t testing.TB, body string, from intake.Request) (lines []string) {
	t.Helper()
	each(t, body, from, func(m *intake.Meaning) { lines = append(lines, line(m)) })
	return lines
}

// each calls f with the meaning of each of a request's events, and returns their number.
func each(t testing.TB, body string, from intake.Request, f func(m *intake.Meaning)) int {
	t.Helper()
	n, err := segment.Source.Decode([]byte(body), from, f)
	require.NoError(t, err)
	return n
}

// line is the reason for ignoring an event, or its action, user, session and address.
func line(m *intake.Meaning) string {
	if m.Erases && m.Reason == "" {
		return "erases " + m.UserID
	}
	if m.Reason != "" {
		return "ignored: " + m.Reason
	}
	parts := []string{"identity"}
	if m.Action != nil {
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
	return strings.Join(parts, " | ")
}

// recorded are the names of the recordings.
var recorded = []string{"segment", "segment-batch", "rudderstack", "jitsu", "server-sdks"}

// capture is a recorded request.
type capture struct{ Method, URL, Body string }

func captures(t testing.TB, file string) (all []capture) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var browser struct{ Requests []capture }
	if json.Unmarshal(data, &browser) == nil {
		return browser.Requests
	}
	var servers []struct{ M, U, B string }
	require.NoError(t, json.Unmarshal(data, &servers))
	for _, s := range servers {
		all = append(all, capture{s.M, s.U, s.B})
	}
	return all
}

// Recorded traffic of the SDKs is decoded to the meanings listed beside it. The file names the recorded packages.
func TestDecode_recordedTraffic(t *testing.T) {
	for _, name := range recorded {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, c := range captures(t, name+".json") {
				if c.Method == "POST" && c.URL != "/2/httpapi" {
					lines = append(lines, decode(t, c.Body, intake.Request{Arrived: time.Now()})...)
				}
			}
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			require.NoError(t, err)
			assert.Equal(t, string(want), strings.ReplaceAll(strings.Join(lines, "\n")+"\n", " \n", "\n"))
		})
	}
}

func TestDecode_meanings(t *testing.T) {
	const page, url = `{"type":"page","anonymousId":"d",`, `"properties":{"url":"https://x.example/a"}}`
	const user, onA = `{"type":"page","userId":"u",`, "Page Load: A | https://x.example/a | "
	const malformed = "ignored: malformed"
	for name, tt := range map[string]struct{ body, want string }{
		"no type":                   {`{"anonymousId":"d",` + url, malformed},
		"another type":              {`{"type":"group","userId":"d","traits":{"email":"a@b.co"}}`, "ignored: other_event"},
		"an erasure":                {`{"type":"delete","userId":"u"}`, "erases u"},
		"an erasure of nobody":      {`{"type":"delete","userId":"null"}`, malformed},
		"a page's name":             {user + `"name":"Cart"}`, "Page Load: Cart | app://screen/cart | u | "},
		"a page without an address": {`{"type":"page","anonymousId":"d"}`, malformed},
		"where it came from":        {page + `"context":{"page":{"url":"https://x.example/a"}}}`, onA + "d | d"},
		"the tab's address": {page + `"properties":{"url":"https://x.example/c","tab_url":"https://x.example/a"}}`,
			onA + "d | d"},
		"a screen": {`{"type":"screen","anonymousId":"d","name":"Order Details"}`,
			"Page Load: Order details | app://screen/order-details | d | d"},
		"a screen's property": {`{"type":"screen","anonymousId":"d","properties":{"name":"Cart"}}`,
			"Page Load: Cart | app://screen/cart | d | d"},
		"a screen without name":  {`{"type":"screen","anonymousId":"d"}`, malformed},
		"a session's number":     {page + `"context":{"sessionId":17},` + url, onA + "d | d:17"},
		"a number of nobody":     {user + `"context":{"sessionId":17},` + url, onA + "u | "},
		"the site's session":     {page + `"context":{"sessionId":17,"session_id":"s"},` + url, onA + "d | s"},
		"the property's session": {user + `"properties":{"url":"https://x.example/a","session_id":"s"}}`, onA + "u | s"},
		"a session of many":      {page + `"context":{"session_id":"null"},` + url, onA + "d | d"},
		"a numeric user":         {page + `"userId":42,` + url, onA + "42 | d | at d"},
		"a user of many": {`{"type":"page","userId":"undefined","anonymousId":"null",` + url,
			"ignored: no_session_and_user"},
		"a shared device":  {user + `"anonymousId":"undefined",` + url, onA + "u | "},
		"an id too long":   {`{"type":"page","anonymousId":"` + strings.Repeat("d", 1025) + `",` + url, malformed},
		"an alias":         {`{"type":"alias","userId":"u","anonymousId":"d","previousId":"x"}`, "identity | u | d | was d"},
		"a server's alias": {`{"type":"alias","userId":"u","previousId":"d"}`, "identity | u | d | was d"},
		"an address": {`{"type":"identify","anonymousId":"d","context":{"traits":{"email":"a@b.co"}}}`,
			"identity | d | d | a@b.co"},
		"an identify of nobody": {`{"type":"identify","userId":"u"}`, "ignored: no_identity"},
		"a time that is none":   {page + `"timestamp":"soon",` + url, malformed},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, []string{tt.want}, decode(t, tt.body, intake.Request{})) })
	}
	ofPath := func(body, kind string) string { return decode(t, body, intake.Request{Kind: kind})[0] }
	assert.Equal(t, onA+"d | d", ofPath(`{"anonymousId":"d",`+url, "page"))
	assert.Equal(t, "identity | d | d | a@b.co",
		ofPath(`{"type":"identify","anonymousId":"d","traits":{"email":"a@b.co"}}`, "page"), "its own type before the path's")
	assert.Equal(t, malformed, ofPath(`[7]`, "identify"), "no object")
}

func TestDecode_times(t *testing.T) {
	const at, corrected, never = "2026-11-23T03:56:00Z", "2026-11-23T03:58:00Z", "0001-01-01T00:00:00Z"
	arrived := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		fields     string
		webhook    bool
		time, sent string
		server     bool
	}{
		"original first": {`"timestamp":"` + corrected + `","originalTimestamp":"` + at + `"`, false, at, never, false},
		"timestamp": {`"timestamp":"` + at + `","sentAt":"2026-11-23T03:56:01Z"`, false, at,
			"2026-11-23T03:56:01Z", false},
		"none": {`"sentAt":"2026-11-23T03:56:01Z"`, false, never, never, false},
		"webhook": {`"timestamp":"` + corrected + `","originalTimestamp":"` + at + `","sentAt":"` + at + `"`,
			true, corrected, at, true},
		"webhook, as recorded": {`"originalTimestamp":"` + at + `","sentAt":"2026-11-23T03:56:01Z"`, true, at,
			"2026-11-23T03:56:01Z", false},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"type":"page","anonymousId":"d","properties":{"url":"https://x.example/"},` + tt.fields + `}`
			each(t, body, intake.Request{Arrived: arrived, Webhook: tt.webhook}, func(m *intake.Meaning) {
				assert.Equal(t, []any{tt.time, tt.sent, tt.server},
					[]any{m.Time.Format(time.RFC3339), m.Sent.Format(time.RFC3339), m.ServerTime})
			})
		})
	}
}

// A batch states one time of sending for all of its events, and may come as an array.
func TestDecode_batches(t *testing.T) {
	const page = `{"type":"page","userId":"u","timestamp":"2026-11-23T03:56:00Z","properties":{"url":"https://x.se/"}}`
	for _, body := range []string{`{"batch":[` + page + `,null],"sentAt":"2026-11-23T03:57:00Z"}`, `[` + page + `,{}]`} {
		sent := []bool{}
		n := each(t, body, intake.Request{}, func(m *intake.Meaning) { sent = append(sent, !m.Sent.IsZero()) })
		assert.Equal(t, 2, n)
		assert.Equal(t, []bool{strings.Contains(body, "sentAt"), false}, sent)
	}
}

// Proofs are found in every place where a site can put them.
func TestDecode_proofs(t *testing.T) {
	for _, field := range []string{"properties", "traits", "context", "context.traits"} {
		outer, inner, nested := strings.Cut(field, ".")
		proof := `{"user_hash":"aa","email_hash":"bb","$identity_token":"cc"}`
		if nested {
			proof = `{"` + inner + `":` + proof + `}`
		}
		body := `{"type":"identify","userId":"u","` + outer + `":` + proof + `}`
		each(t, body, intake.Request{}, func(m *intake.Meaning) {
			assert.Equal(t, intake.Proof{UserHash: "aa", EmailHash: "bb", Token: "cc"}, m.Proof, field)
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range recorded {
		for _, c := range captures(f, name+".json") {
			f.Add([]byte(c.Body), "page")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		events := 0
		n, err := segment.Source.Decode(body, intake.Request{Kind: kind, Arrived: time.Now()}, func(m *intake.Meaning) {
			if events++; m.Reason != "" {
				return
			}
			require.NotEmpty(t, m.ID)
			require.LessOrEqual(t, max(len(m.SessionID), len(m.UserID), len(m.ID)), intake.MaxID)
			require.False(t, m.Action == nil && m.UserID == "" && m.Email == "")
			if m.Action != nil {
				require.Equal(t, activity.TypePageview, m.Action.Type)
				require.NotEmpty(t, m.Action.CanonicalURL)
			}
		})
		if err == nil {
			require.Equal(t, n, events)
		}
	})
}

func TestDecode_tracksListedEvents(t *testing.T) {
	const body = `{"type":"track","anonymousId":"d","event":"Invoice ` +
		`Sent","properties":{"plan":"pro","card":"4111"},"context":{"page":{"url":"https://x.example/billing"}}}`
	assert.Equal(t, []string{"ignored: other_event"}, decode(t, body, intake.Request{}))
	events := intake.NewEvents(intake.Rules{"Invoice *": {Properties: []string{"plan"}, Sentence: "sent an invoice"}})
	each(t, body, intake.Request{Events: events}, func(m *intake.Meaning) {
		require.Empty(t, m.Reason)
		assert.Equal(t, "User sent an invoice (plan: pro) on the billing page", m.Action.Description)
	})
}
