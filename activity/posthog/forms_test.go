package posthog_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// form is one of the forms of a body that brings the event of formEvent.
type form struct {
	name string
	body func(t testing.TB) []byte
	// hasID is false where the form has no place for the event's ID.
	hasID bool
}

const exportChain = `button:nth-child="1"nth-of-type="1"text="Export CSV";body:nth-child="2"nth-of-type="1"`

func sdkEvent() object {
	return click(object{"timestamp": "2026-11-20T11:59:50Z", "$set": object{"email": "ada@example.com"},
		"properties.note": "Größe >>> ??? ~~~"})
}

// webhookBody is the event as PostHog's default destination sends it: the chain and the person's ID
// have moved out of the properties.
func webhookBody() object {
	return object{
		"event": click(object{"timestamp": "2026-11-20T11:59:50Z", "elements_chain": exportChain, "distinct_id": "user_42",
			"properties.$elements_chain": nil,
			"url":                        "https://us.posthog.com/project/1/events/x", "captured_at": nil}),
		"person": object{"id": "018f", "properties": object{"email": "ada@example.com"}, "name": "ada@example.com"},
	}
}

// flat is an event of a custom destination, with these fields.
func flat(fields object) object {
	e := object{"event": "$autocapture", "session_id": "session-1", "distinct_id": "user_42",
		"current_url": "https://app.example.com/dashboard", "token": shopToken} // which is for the capture endpoints only
	maps.Copy(e, fields)
	return e
}

// flatBody is every field of a custom destination.
func flatBody() object {
	return flat(object{"referrer": "https://example.com/", "email": "ada@example.com",
		"timestamp": "2026-11-20T11:59:50Z", "element_id": "export", "event_type": "click", "elements_chain": exportChain,
		"input_field_name": "", "link_destination": "", "button_or_link_text": "Export CSV"})
}

func jsonOf(v any) func(testing.TB) []byte {
	return func(t testing.TB) []byte { return marshal(t, v) }
}

var forms = []form{
	{"single event", jsonOf(sdkEvent()), true},
	{"array", jsonOf([]any{sdkEvent()}), true},
	{"batch", jsonOf(object{"api_key": shopToken, "batch": []any{sdkEvent()}}), true},
	{"batch before its token", func(t testing.TB) []byte {
		return []byte(`{"batch":[` + string(marshal(t, sdkEvent())) + `],"token":"` + shopToken + `"}`)
	}, true},
	{"batch behind an event", func(t testing.TB) []byte {
		return []byte(`{"event":{"event":"$pageview"},"batch":[` + string(marshal(t, sdkEvent())) + `],"token":"` +
			shopToken + `"}`)
	}, true},
	{"webhook", jsonOf(webhookBody()), true},
	{"batch of webhook bodies", jsonOf(object{"batch": []any{webhookBody()}}), true},
	{"flat", jsonOf(flatBody()), false},
	{"byte order mark", func(t testing.TB) []byte { return append([]byte("\xef\xbb\xbf"), marshal(t, sdkEvent())...) },
		true},
	{"white space around", func(t testing.TB) []byte {
		return []byte("\r\n\t " + string(marshal(t, sdkEvent())) + "\n\n")
	}, true},
}

// encoding is a way of wrapping a body, and the headers that come with it.
type encoding struct {
	name   string
	encode func([]byte) []byte
	header []string
}

func formData(encode func([]byte) string) func([]byte) []byte {
	return func(b []byte) []byte { return []byte("data=" + encode(b)) }
}

func escaped(b []byte) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString(b))
}

var encodings = []encoding{
	{"plain", func(b []byte) []byte { return b }, []string{"Content-Type", "application/json"}},
	{"plain with a misleading type", func(b []byte) []byte { return b },
		[]string{"Content-Type", "application/x-www-form-urlencoded"}},
	{"identity", func(b []byte) []byte { return b }, []string{"Content-Encoding", "identity"}},
	{"not what the header says", func(b []byte) []byte { return b }, []string{"Content-Encoding", "gzip"}},
	{"gzip by its magic", gzipped, []string{"Content-Type", "text/plain"}},
	{"gzip by its header", gzipped, []string{"Content-Encoding", "gzip"}},
	{"gzip by its header in capitals", gzipped, []string{"Content-Encoding", " GZIP "}},
	{"gzip in two members", func(b []byte) []byte {
		return append(gzipped(b[:len(b)/2]), gzipped(b[len(b)/2:])...)
	}, nil},
	{"form", formData(escaped), []string{"Content-Type", "application/x-www-form-urlencoded"}},
	{"form with further fields", func(b []byte) []byte {
		return []byte("ip=1&compression=base64&data=" + escaped(b) + "&ver=1.200.0")
	}, nil},
	{"form with bare plus signs", formData(base64.StdEncoding.EncodeToString), nil},
	{"form with spaces for plus signs", formData(func(b []byte) string {
		return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "+", " ")
	}), nil},
	{"form without padding", formData(base64.RawStdEncoding.EncodeToString), nil},
	{"form in the alphabet for URLs without padding", formData(base64.RawURLEncoding.EncodeToString), nil},
	{"form of gzip", func(b []byte) []byte { return formData(escaped)(gzipped(b)) }, nil},
	{"form of JSON", formData(func(b []byte) string { return url.QueryEscape(string(b)) }), nil},
	{"gzip of form", func(b []byte) []byte { return gzipped(formData(escaped)(b)) }, nil},
	{"base64", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }, nil},
	{"base64 of gzip", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(gzipped(b))) }, nil},
	{"base64 with a line break", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b) + "\r\n") },
		nil},
}

// formEvent is the event that every form brings in every encoding.
func formEvent() activity.Event {
	return activity.Event{
		ID: "01a1f851-2c65-7a00-ad66-57cc46b02182", Time: noon.Add(-10 * time.Second),
		SessionID: "session-1", UserID: "user_42", Email: "ada@example.com",
		Action: &activity.Action{
			Type: "click", Title: "Click Export CSV", Description: "User clicked Export CSV on the dashboard page",
			RawURL: "https://app.example.com/dashboard", CanonicalURL: "https://app.example.com/dashboard",
		},
	}
}

func TestForms_everyFormInEveryEncodingBringsTheSameEvent(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(marshal(t, sdkEvent()))
	for _, differs := range []string{"+", "/", "="} {
		require.Contains(t, text, differs, "so that the forms of base64 differ")
	}
	for _, form := range forms {
		for _, enc := range encodings {
			atNoon(t, form.name+"/"+enc.name, func(t *testing.T) {
				body := enc.encode(form.body(t))
				for _, d := range doors {
					s := newService(intake.Options{})
					requireCounts(t, s.post(d, body, enc.header...), 1, 0)
					got, want := s.requireOneEvent(t), formEvent()
					assert.WithinDuration(t, want.Time, got.Time, 0)
					got.Time = want.Time
					if !form.hasID {
						assert.NotEmpty(t, got.ID)
						got.ID = want.ID
					}
					assert.Equal(t, want, got, d.name)
				}
			})
		}
	}
}

func TestForms_takeTheWebhooksDefaultBody(t *testing.T) {
	at(t, time.Date(2026, 11, 20, 9, 38, 0, 0, time.UTC), func(t *testing.T) {
		s := newService(intake.Options{})
		w := s.post(webhookDoor, testdata(t, "webhook_default_body.json"))
		requireCounts(t, w, 1, 0)
		assert.Equal(t, "ok", requireOK(t, w).Status)
		e := s.requireOneEvent(t)
		assert.Equal(t, "01a1f851-4da1-785b-b013-a6d60ed12104", e.ID)
		assert.WithinDuration(t, time.Date(2026, 11, 20, 9, 37, 20, 289e6, time.UTC), e.Time, 0)
		assert.Equal(t, "click | Click See plans | User clicked See plans on the settings page | "+
			"http://shop.localhost:33649/account/settings?tab=billing#card | http://shop.localhost:33649/account/settings | "+
			"01a1f851-28a4-7a18-a7a3-677ced3213df | user_42 | ada@example.com", line(e))
	})
}

// Each path works with and without a trailing slash, and below a prefix of the SDK's host.
func TestForms_everyCapturePathTakesEvents(t *testing.T) {
	for _, path := range []string{"/e", "/capture", "/batch", "/track", "/engage", "/i/v0/e"} {
		for _, target := range []string{path, path + "/", "/ingest" + path, "/a/b" + path + "/",
			path + "/?ip=0&_=1&ver=1.297.2"} {
			t.Run(target, func(t *testing.T) {
				s := newService(intake.Options{})
				w := s.post(door{path: target}, marshal(t, click(nil)))
				requireCounts(t, w, 1, 0)
				assert.EqualValues(t, 1, requireOK(t, w).Status, "posthog-js expects it")
				s.requireOneEvent(t)
			})
		}
	}
}

// Good and broken requests at the same time do not affect each other.
func TestHandler_isSafeForConcurrentUse(t *testing.T) {
	s := newService(intake.Options{})
	const requests = 100
	broken := gzipped([]byte(`{"broken":`))
	waittest.Together(requests, func(i int) {
		id, now := fmt.Sprintf("event-%d", i), time.Now()
		event := click(object{"uuid": id, "timestamp": now, "sent_at": now, "properties.$el_text": id,
			"properties.$elements_chain": nil})
		enc := encodings[i%len(encodings)]
		w := s.post(doors[i%2], enc.encode(marshal(t, event)), enc.header...)
		assert.Equal(t, http.StatusOK, w.Code, w.Body.String())
		w = s.post(doors[i%2], broken[:i%20])
		assert.Equal(t, http.StatusBadRequest, w.Code)
	})
	ids := map[string]bool{}
	for _, e := range s.sink.take(shop) {
		ids[e.ID] = true
		assert.Equal(t, "Click "+e.ID, e.Action.Title)
	}
	assert.Len(t, ids, requests)
}

// The person's email comes with every kind of event. The event's own $set wins, and an invalid
// address is dropped.
func TestForms_personOfAWebhookCarriesTheEmail(t *testing.T) {
	person := func(email any) object { return object{"properties": object{"email": email}} }
	longest := strings.Repeat("a", 242) + "@example.com" // 254 bytes
	const ada, other = "ada@example.com", "new@example.com"
	for name, c := range map[string]struct {
		event  object
		person any
		email  string
	}{
		"a page view":                       {click(object{"event": "$pageview"}), person(ada), ada},
		"a custom event":                    {click(object{"event": "order paid"}), person(ada), ada},
		"a click, no person":                {click(nil), nil, ""},
		"a person without properties":       {click(nil), object{}, ""},
		"an address that is none":           {click(nil), person("ada"), ""},
		"an address that is a number":       {click(nil), person(5), ""},
		"as long as an address gets":        {click(nil), person(longest), longest},
		"too long":                          {click(nil), person("a" + longest), ""},
		"too long with the space around it": {click(nil), person(strings.Repeat(" ", 2033) + "ada@example.com.au"), ""},
		"an address on two lines":           {click(nil), person("ada\u2028b@example.com"), ""},
		"the event's $set wins":             {click(object{"$set": object{"email": other}}), person(ada), other},
		"$set in the properties":            {click(object{"properties.$set": object{"email": other}}), nil, other},
	} {
		t.Run(name, func(t *testing.T) {
			body := object{"event": c.event, "person": c.person}
			assert.Equal(t, c.email, eventOf(t, webhookDoor, body).Email)
		})
	}
}

// These events make no action. They only tell the session's user.
func TestForms_eventsThatCarryIdentity(t *testing.T) {
	address := object{"email": "ada@example.com"}
	for _, c := range []struct {
		name  string
		event object
		want  string // "": ignored
	}{
		{"$identify", click(object{"event": "$identify", "$set": address}), "session-1 | user_42 | ada@example.com"},
		{"$identify without an address", click(object{"event": "$identify"}), "session-1 | user_42"},
		{"$set", click(object{"event": "$set", "properties.$set": address}), "session-1 | user_42 | ada@example.com"},
		{"$create_alias", click(object{"event": "$create_alias"}), "session-1 | user_42"},
		{"another event with an address", click(object{"event": "$pageleave", "$set": address}),
			"session-1 | user_42 | ada@example.com"},
		{"another event without", click(object{"event": "$pageleave"}), ""},
		{"$identify outside any session", click(object{"event": "$identify", "$set": address, "properties.$session_id": nil}),
			" | user_42 | ada@example.com"},
		{"$identify outside any session, without an address",
			click(object{"event": "$identify", "properties.$session_id": nil}), ""},
		{"$identify of nobody", click(object{"event": "$identify", "properties.distinct_id": nil}), ""},
	} {
		atNoon(t, c.name, func(t *testing.T) {
			if c.want == "" {
				requireIgnored(t, captureDoor, c.event)
				return
			}
			assert.Equal(t, "identity | "+c.want, line(eventOf(t, captureDoor, c.event)))
		})
	}
}

func TestForms_onlyPageviewsAndAutocaptureMakeActions(t *testing.T) {
	for _, name := range []string{"$rageclick", "$dead_click", "$pageleave", "$screen", "$snapshot", "$$heatmap",
		"$web_vitals",
		"$exception", "$groupidentify", "$feature_flag_called", "order paid", "pageview", "$PAGEVIEW", "$autocapture ", ""} {
		t.Run(name, func(t *testing.T) { requireIgnored(t, captureDoor, click(object{"event": name})) })
	}
}

// An SDK's request may carry a webhook's body. Fields beside the event fill in those that the event
// lacks.
func TestForms_takeWhatStandsBesideAnEvent(t *testing.T) {
	person := func(email string) object { return object{"properties": object{"email": email}} }
	body := object{"event": click(object{"properties.token": nil, "person": person("inside@example.com")}),
		"token": shopToken}
	require.Equal(t, "inside@example.com", eventOf(t, captureDoor, []any{body}).Email)
	body["person"] = person("beside@example.com")
	require.Equal(t, "beside@example.com", eventOf(t, captureDoor, []any{body}).Email)
}

func TestForms_nameTheIdentifiedUser(t *testing.T) {
	for name, tt := range map[string]struct {
		changes object
		want    bool
	}{
		"nothing said":          {nil, false},
		"said not to be":        {object{"properties.$is_identified": false}, false},
		"said to be":            {object{"properties.$is_identified": true}, true},
		"the user id of old":    {object{"properties.$user_id": "user_42"}, true},
		"another's user id":     {object{"properties.$user_id": "user_7"}, false},
		"$identify":             {object{"event": "$identify"}, true},
		"of the wrong type":     {object{"properties.$is_identified": "yes"}, false},
		"nobody is not":         {object{"properties.distinct_id": nil, "properties.$is_identified": true}, false},
		"$set of an identified": {object{"event": "$set", "properties.$user_id": "user_42"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, eventOf(t, captureDoor, click(tt.changes)).Identified)
		})
	}
}

// An ID that is too long is no visitor's, and takes nothing from the event.
func TestForms_nameTheVisitorWhoSignsIn(t *testing.T) {
	for id, want := range map[string]string{"anon": "anon", strings.Repeat("x", intake.MaxID+1): "", "anonymous": ""} {
		for _, name := range []string{"$identify", "$create_alias"} {
			e := eventOf(t, captureDoor, click(object{"event": name, "properties.$anon_distinct_id": id}))
			assert.Equal(t, want, e.Anonymous)
		}
	}
}

// A plus sign that a sender forgets to escape arrives as a space. Other senders use the alphabet for URLs.
func TestLZ64_decodesBodiesOfPostHogJSLite(t *testing.T) {
	s := newService(intake.Options{})
	body := string(testdata(t, "lz64", "posthog-js-lite-2.5.0.body"))
	form, err := url.ParseQuery(body)
	require.NoError(t, err)
	text := form.Get("data")
	require.Regexp(t, `\+.*/.*=|/.*\+.*=`, text)
	inURL := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(text)
	for _, body := range []string{body, "compression=lz64&data=" + text, "compression=lz64&data=" + inURL} {
		w := s.post(door{path: "/ingest/e/?ip=1&v=2.5.0"}, []byte(body))
		assert.Zero(t, requireOK(t, w).Ignored)
		events := s.sink.take(shop)
		require.Len(t, events, 3)
		assert.Equal(t, "https://app.example.com/reports", events[0].Action.CanonicalURL)
		assert.Equal(t, "Page Load: Reports", events[0].Action.Title)
		assert.Equal(t, "Click Export CSV", events[1].Action.Title)
		assert.Equal(t, "ada@example.com", events[2].Email)
		assert.Equal(t, "user_42", events[2].UserID)
	}
}
