package intake_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// forms are the forms of a body that bring an event.
var forms = map[string]func(event string) string{
	"single event":         func(event string) string { return event },
	"array":                func(event string) string { return "[" + event + "]" },
	"batch":                func(event string) string { return batch(shopToken, event) },
	"batch before token":   func(event string) string { return `{"events":[` + event + `],"token":"` + shopToken + `"}` },
	"batch behind a field": func(event string) string { return `{"name":"identify","x":[{}],"events":[` + event + `]}` },
	"byte order mark":      func(event string) string { return "\xef\xbb\xbf" + event },
	"white space around":   func(event string) string { return "\r\n\t " + event + "\n\n" },
}

// encoding is a way of wrapping a body, and the headers that come with it.
type encoding struct {
	name   string
	encode func(body string) string
	header []string
}

func same(body string) string { return body }

func formOf(encode func(body string) string) func(string) string {
	return func(body string) string { return "data=" + encode(body) }
}

func in64(body string) string { return base64.StdEncoding.EncodeToString([]byte(body)) }

func escaped(body string) string { return url.QueryEscape(in64(body)) }

var encodings = []encoding{
	{"plain", same, []string{"Content-Type", "application/json"}},
	{"plain with a misleading type", same, []string{"Content-Type", "application/x-www-form-urlencoded"}},
	{"identity", same, []string{"Content-Encoding", "identity"}},
	{"not what the header says", same, []string{"Content-Encoding", "gzip"}},
	{"gzip by its magic", gzipped, []string{"Content-Type", "text/plain"}},
	{"gzip by its header", gzipped, []string{"Content-Encoding", "x-gzip"}},
	{"gzip by its header in capitals", gzipped, []string{"Content-Encoding", " GZIP "}},
	{"gzip in two members", func(b string) string { return gzipped(b[:len(b)/2]) + gzipped(b[len(b)/2:]) }, nil},
	{"form", formOf(escaped), []string{"Content-Type", "application/x-www-form-urlencoded"}},
	{"form with further fields", func(b string) string { return "ip=1&data=" + escaped(b) + "&v=1" }, nil},
	{"form with bare plus signs", formOf(in64), nil},
	{"form with spaces for plus signs", formOf(func(b string) string {
		return strings.ReplaceAll(in64(b), "+", " ")
	}), nil},
	{"form without padding", formOf(func(b string) string { return strings.TrimRight(in64(b), "=") }), nil},
	{"form in the alphabet for URLs", formOf(func(b string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(b))
	}), nil},
	{"form of gzip", func(b string) string { return formOf(escaped)(gzipped(b)) }, nil},
	{"form of JSON", formOf(url.QueryEscape), nil},
	{"gzip of form", func(b string) string { return gzipped(formOf(escaped)(b)) }, nil},
	{"base64", in64, nil},
	{"base64 of gzip", func(b string) string { return in64(gzipped(b)) }, nil},
	{"base64 with a line break", func(b string) string { return in64(b) + "\r\n" }, nil},
}

func TestBody_everyFormInEveryEncodingBringsTheSameEvent(t *testing.T) {
	event := view(fieldsOf{"note": "Größe >>> ??? ~~~", "time": "2026-11-20T11:59:50Z", "email": "ada@x.example"})
	for _, differs := range []string{"+", "/", "="} {
		require.Contains(t, in64(event), differs, "so that the forms of base64 differ")
	}
	want := decode(event, intake.Request{Events: newCatalogue().products[shop].Events}).Event
	require.Equal(t, "User did view on the billing page", want.Action.Description)
	for name, form := range forms {
		for _, enc := range encodings {
			for door := range doors {
				t.Run(name+"/"+enc.name+"/"+door, func(t *testing.T) {
					s := newService(intake.Options{})
					requireCounts(t, doors[door](s, enc.encode(form(event)), enc.header...), 1, nil)
					got := s.sink.take(shop)
					require.Len(t, got, 1)
					got[0].Received, got[0].ServerTime = want.Received, false // which depend on the door
					got[0].Standing, got[0].EmailStanding = 0, 0
					assert.Equal(t, want, got[0])
				})
			}
		}
	}
}

// Both doors answer bad input with a status and a sentence about it. Nothing reaches the sink; the next request does.
func TestBody_isRefusedWithASentence(t *testing.T) {
	event := view(nil)
	packed := gzipped(event)
	bomb := gzipped(strings.Repeat(" ", intake.DefaultMaxDecoded+1))
	require.Less(t, len(bomb), intake.DefaultMaxBody)
	for _, c := range []struct {
		name   string
		body   string
		status int
		detail string // a pattern
		header []string
	}{
		{"empty", "", 400, `is empty`, nil},
		{"gzip of nothing", gzipped(""), 400, `is empty`, nil},
		{"a number", "42", 400, `neither a JSON`, nil},
		{"a string", `"event"`, 400, `neither a JSON`, nil},
		{"a number in a form", "data=" + escaped("42"), 400, `must be a JSON object or array`, nil},
		{"damaged text in a form", "data=" + escaped("\x00"), 400, `not valid JSON`, nil},
		{"a sentence", "hello there, world!", 400, `neither a JSON`, nil},
		{"HTML", "<html></html>", 400, `neither a JSON`, nil},
		{"XML with form data", `<a b="&data=x"/>`, 400, `neither a JSON`, nil},
		{"cut in the middle", event[:len(event)/2], 400, `breaks off`, nil},
		{"cut in the middle of a batch", `{"events":[` + event[:len(event)/2], 400, `breaks off`, nil},
		{"cut before a batch", `{"events":`, 400, `breaks off`, nil},
		{"trailing comma", `[` + event + `,]`, 400, `near byte \d+`, nil},
		{"a mistake in a second event", gzipped(`{"events":[{},{"event":?"rest":1}]}`), 400, `byte 2[234]\b`, nil},
		{"a second object", event + event, 400, `follows the end of the JSON in the request body, at byte \d+`, nil},
		{"a word after a batch", `{"events":[]} x`, 400, `follows the end of .*, at byte 14`, nil},
		{"null as batch", `{"events":null}`, 400, `field events must be an array`, nil},
		{"an object as batch", `{"events":{"a":` + event + `}}`, 400, `field events must be an array`, nil},
		{"deep arrays", strings.Repeat("[", 100_000), 400, `not valid JSON`, nil},

		{"one byte of gzip's magic", "x\x8b", 400, `neither a JSON`, nil},
		{"the other one", "\x1fx", 400, `neither a JSON`, nil},
		{"gzip, only its magic", "\x1f\x8b", 400, `gzip header`, nil},
		{"gzip cut short", packed[:60], 400, `gzip data .* breaks off`, nil},
		{"gzip with a wrong checksum", packed[:len(packed)-8] + strings.Repeat("\x00", 8), 400, `gzip data .* damaged`, nil},
		{"gzip with garbage behind it", packed + "more than enough garbage", 400, `gzip data .* damaged`, nil},
		{"gzip of gzip", gzipped(packed), 400, `neither a JSON`, nil},
		{"gzip bomb", bomb, 413, `limit of 8388608 bytes`, nil},
		{"gzip bomb in a form", "data=" + escaped(bomb), 413, `limit of 8388608 bytes`, nil},
		{"Content-Encoding br", event, 415, `Content-Encoding`, []string{"Content-Encoding", "br"}},

		{"form without data", "a=b&c=d", 400, `neither a JSON`, nil},
		{"form with empty data", "data=", 400, `neither a JSON`, nil},
		{"form with a bad escape", "data=%zz", 400, `damaged escape`, nil},
		{"form of other bytes", "data=%00%01***", 400, `neither a JSON`, nil},
		{"form of white space", "data=" + escaped("   "), 400, `is empty`, nil},
		{"form of half an event", "data=" + escaped(event[:40]), 400, `breaks off`, nil},
		{"form of damaged base64", "data=bm9vb2***", 400, `base64 data .* damaged`, nil},
		{"form of damaged gzip", "data=" + escaped("\x1f\x8b\x08"), 400, `gzip`, nil},
		{"form of damaged lz-string", "compression=lz64&data=N4IghiBcIOYE4DeD", 400, `lz-string`, nil},
		{"form of long lz-string", "data=N4" + strings.Repeat("A", 1<<19), 400, `lz-string`, nil},
		{"base64 cut off", in64(event)[:61] + "*", 400, `base64 data .* damaged`, nil},
		{"base64 of gzip cut off", in64(packed)[:61] + "*", 400, `base64 data .* damaged`, nil},
		{"base64 of white space", in64("   "), 400, `is empty`, nil},
		{"base64 of a word", in64("word"), 400, `neither a JSON`, nil},

		{"one byte larger", padded(event, intake.DefaultMaxBody+1), 413, `limit of 1048576 bytes`, nil},
		{"one event too many", batch("", strings.Repeat(`{},`, intake.MaxEvents)+`{}`), 413, `limit of 10000 events`, nil},
		{"one value too many", `[` + strings.Repeat(`0,`, intake.MaxEvents) + `0]`, 413, `limit of 10000 events`, nil},
	} {
		for door, post := range doors {
			t.Run(c.name+"/"+door, func(t *testing.T) {
				s := newService(intake.Options{})
				assert.Regexp(t, c.detail, requireError(t, post(s, c.body, c.header...), c.status))
				assert.Empty(t, s.sink.events)
				requireCounts(t, post(s, event), 1, nil)
			})
		}
	}
}

// padded is an object with one more field, which brings it to that length.
func padded(object string, n int) string {
	object = strings.TrimSuffix(object, "}") + `,"x":"`
	return object + strings.Repeat("x", n-len(object)-2) + `"}`
}

func TestBody_limitsAreTheLargestSizesTaken(t *testing.T) {
	for _, decoded := range []int{2000, 70_000} {
		for door, post := range doors {
			t.Run(fmt.Sprint(door, decoded), func(t *testing.T) {
				s := newService(intake.Options{MaxBody: 1000, MaxDecoded: int64(decoded)})
				requireCounts(t, post(s, padded(view(nil), 1000)), 1, nil)
				assert.Contains(t, requireError(t, post(s, padded(view(nil), 1001)), 413), "1000 bytes")
				requireCounts(t, post(s, gzipped(padded(view(nil), decoded))), 1, nil)
				detail := requireError(t, post(s, gzipped(padded(view(nil), decoded+1))), 413)
				assert.Contains(t, detail, strconv.Itoa(decoded)+" bytes")
			})
		}
	}
	s := newService(intake.Options{})
	requireCounts(t, s.capture(batch(shopToken, view(nil)+strings.Repeat(`,{}`, intake.MaxEvents-1))), 1,
		intake.Ignored{"other_event": intake.MaxEvents - 1})
}

func TestBody_passesIfOnlyOdd(t *testing.T) {
	const key = `"key":"` + shopToken + `"`
	event := view(nil)
	with := func(field string) string { return strings.Replace(event, "{", "{"+field+",", 1) }
	none, other := intake.Ignored(nil), func(n int) intake.Ignored { return intake.Ignored{"other_event": n} }
	for name, c := range map[string]struct {
		body     string
		accepted int
		ignored  intake.Ignored
	}{
		"an empty batch":               {batch(shopToken), 0, none},
		"a batch of junk":              {batch(shopToken, `null,true,0,"x",[],{},[[[]]],{"event":null}`), 0, other(8)},
		"an object that is no event":   {`{` + key + `}`, 0, other(1)},
		"lz-string":                    {"data=" + url.QueryEscape("N4XyA==="), 0, other(1)},
		"duplicate keys in an event":   {with(`"name":"x","id":"y"`), 1, none},
		"tokens in other letter case":  {with(`"Token":"a","TOKEN":"b"`), 1, none},
		"duplicate tokens":             {`{"key":"x",` + key + `,"events":[` + event + `]}`, 1, none},
		"two batches":                  {`{` + key + `,"events":[` + event + `],"events":[]}`, 1, none},
		"an event and a batch":         {`{` + key + `,"name":"x","events":[` + event + `]}`, 1, none},
		"an envelope's odd fields":     {`{` + key + `,"sent":{},"token":5,"":[],"events":[` + event + `]}`, 1, none},
		"invalid UTF-8 in a value":     {with("\"x\":\"\xff\xfe\""), 1, none},
		"invalid UTF-8 in a key":       {with("\"\xff\":1"), 1, none},
		"half a surrogate in a value":  {with(`"x":"\ud800"`), 1, none},
		"a large number":               {with(`"x":123456789012345678901234567890e999`), 1, none},
		"deep, but bearable":           {with(`"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), 1, none},
		"values of the wrong type":     {with(`"email":{},"user_hash":5,"url":[]`), 1, none},
		"a good event behind a broken": {batch(shopToken, `{"name":{},"id":[]}`, event), 1, other(1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			post := s.capture
			if strings.HasPrefix(c.body, "data=") { // whose event has no token
				post = s.webhook
			}
			requireCounts(t, post(c.body), c.accepted, c.ignored)
			assert.Len(t, s.sink.take(shop), c.accepted)
		})
	}
}

// Good and broken requests at the same time do not affect each other.
func TestIntake_isSafeForConcurrentUse(t *testing.T) {
	s := newService(intake.Options{})
	const requests = 100
	broken := gzipped(`{"broken":`)
	waittest.Together(requests, func(i int) {
		enc, post := encodings[i%len(encodings)], doors[[]string{"capture", "webhook"}[i%2]]
		id := fmt.Sprint("event-", i)
		w := post(s, enc.encode(view(fieldsOf{"id": id, "session": id})), enc.header...)
		assert.Equal(t, http.StatusOK, w.Code, w.Body.String())
		assert.Equal(t, http.StatusBadRequest, post(s, broken[:i%20]).Code)
	})
	ids := map[string]bool{}
	for _, e := range s.sink.take(shop) {
		ids[e.ID] = true
		assert.Equal(t, e.ID, e.SessionID)
	}
	assert.Len(t, ids, requests)
}

// The client may repeat the request, and nothing counts as accepted.
func TestSinkError_isTemporary(t *testing.T) {
	for door, post := range doors {
		t.Run(door, func(t *testing.T) {
			s := newService(intake.Options{})
			body := batch(shopToken, view(nil), "7")
			s.sink.err = errors.New("sink: dial tcp 10.0.0.7:6379: " + shopSecret)
			w := post(s, body)
			requireError(t, w, http.StatusServiceUnavailable)
			assert.Regexp(t, `^[1-9]\d*$`, w.Header().Get("Retry-After"))
			assert.Empty(t, s.counted(t), "the repetition is counted, and only that")

			s.sink.err = nil
			requireCounts(t, post(s, body), 1, intake.Ignored{"other_event": 1})
			assert.Equal(t, map[string]float64{"accepted": 1, "duplicate": 0, "ignored other_event": 1}, s.counted(t))
		})
	}
}

// Events that were recorded before the sink's error are duplicates in the repetition.
func TestSinkError_countsTheEventsBeforeIt(t *testing.T) {
	s := newService(intake.Options{})
	s.sink.err, s.sink.before = errors.New("dial"), activity.Result{Accepted: 2, Expired: 1}
	requireError(t, s.webhook(batch("", view(nil), "7")), http.StatusServiceUnavailable)
	assert.Equal(t, map[string]float64{"accepted": 2, "duplicate": 0, "ignored expired": 1}, s.counted(t))
}

// The sink's outcomes are in the answer, and in the metrics once each.
func TestIntake_countsTheSinksOutcomes(t *testing.T) {
	s := newService(intake.Options{})
	s.sink.lost = activity.Result{Duplicate: 1, Expired: 2, Repeated: 3, Unmarked: 4}
	requireCounts(t, s.webhook(batch("", strings.Repeat(view(nil)+",", 15)+"{}")), 5, intake.Ignored{"duplicate": 1,
		"expired": 2, "repeated": 3, "no_click": 4, "other_event": 1})
	assert.Equal(t, map[string]float64{"accepted": 5, "duplicate": 1, "ignored expired": 2, "ignored repeated": 3,
		"ignored no_click": 4, "ignored other_event": 1}, s.counted(t))
}
