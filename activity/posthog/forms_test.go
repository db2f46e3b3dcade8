package posthog_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
)

const exportChain = `button:nth-child="1"nth-of-type="1"text="Export CSV";body:nth-child="2"nth-of-type="1"`

func sdkEvent() object {
	return click(object{"timestamp": "2026-11-20T11:59:50Z", "$set": object{"email": "ada@example.com"}})
}

// webhookBody is the event as PostHog's default destination sends it: chain and person's ID beside the properties.
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

// forms are bodies that bring the same event.
var forms = map[string]any{
	"single event": sdkEvent(),
	"batch":        object{"api_key": shopToken, "batch": []any{sdkEvent()}},
	"batch behind an event": json.RawMessage(`{"event":{"event":"$pageview"},"batch":[` +
		string(marshal(sdkEvent())) + `]}`),
	"webhook":                 webhookBody(),
	"batch of webhook bodies": object{"batch": []any{webhookBody()}},
	"flat": flat(object{"referrer": "https://example.com/", "email": "ada@example.com", // has no place for an ID
		"timestamp": "2026-11-20T11:59:50Z", "element_id": "export", "event_type": "click", "elements_chain": exportChain,
		"input_field_name": "", "link_destination": "", "button_or_link_text": "Export CSV"}),
}

func TestForms_everyFormBringsTheSameEvent(t *testing.T) {
	want := activity.Event{
		ID: "01a1f851-2c65-7a00-ad66-57cc46b02182", Time: noon.Add(-10 * time.Second),
		SessionID: "session-1", UserID: "user_42", Email: "ada@example.com",
		Action: &activity.Action{
			Type: "click", Title: "Click Export CSV", Description: "User clicked Export CSV on the dashboard page",
			RawURL: "https://app.example.com/dashboard", CanonicalURL: "https://app.example.com/dashboard",
		},
	}
	for name, body := range forms {
		for _, d := range doors {
			got := eventOf(t, d, body)
			if name == "flat" {
				assert.NotEmpty(t, got.ID)
				got.ID = want.ID
			}
			assert.Equal(t, want, got, name)
		}
	}
}

func TestForms_takeTheWebhooksDefaultBody(t *testing.T) {
	s := newService()
	w := s.post(webhookDoor, testdata("webhook_default_body.json"))
	requireCounts(t, w, 1, 0)
	assert.Equal(t, "ok", requireOK(t, w).Status)
	e := s.sink.take(shop)[0]
	assert.Equal(t, "01a1f851-4da1-785b-b013-a6d60ed12104", e.ID)
	assert.WithinDuration(t, time.Date(2026, 11, 20, 9, 37, 20, 289e6, time.UTC), e.Time, 0)
	assert.Equal(t, "click | Click See plans | User clicked See plans on the settings page | "+
		"http://shop.localhost:33649/account/settings?tab=billing#card | http://shop.localhost:33649/account/settings | "+
		"01a1f851-28a4-7a18-a7a3-677ced3213df | user_42 | ada@example.com", line(e))
}

// Each path works with and without a trailing slash, and below a prefix of the SDK's host.
func TestForms_everyCapturePathTakesEvents(t *testing.T) {
	for _, path := range []string{"/e", "/capture", "/batch", "/track", "/engage", "/i/v0/e"} {
		for _, target := range []string{path, path + "/", "/ingest" + path, "/a/b" + path + "/",
			path + "/?ip=0&_=1&ver=1.297.2"} {
			s := newService()
			w := s.post(door{path: target}, marshal(click(nil)))
			requireCounts(t, w, 1, 0)
			assert.EqualValues(t, 1, requireOK(t, w).Status, "posthog-js expects it")
			assert.Len(t, s.sink.take(shop), 1, target)
		}
	}
}

// The person's email comes with every kind of event. The event's own $set wins, and an invalid address is dropped.
func TestForms_personOfAWebhookCarriesTheEmail(t *testing.T) {
	person := func(email any) object { return object{"properties": object{"email": email}} }
	const ada, other = "ada@example.com", "new@example.com"
	for name, c := range map[string]struct {
		event  object
		person any
		email  string
	}{
		"a page view":                 {click(object{"event": "$pageview"}), person(ada), ada},
		"a custom event":              {click(object{"event": "order paid"}), person(ada), ada},
		"a click, no person":          {click(nil), nil, ""},
		"a person without properties": {click(nil), object{}, ""},
		"an address that is none":     {click(nil), person("ada"), ""},
		"an address that is a number": {click(nil), person(5), ""},
		"the event's $set wins":       {click(object{"$set": object{"email": other}}), person(ada), other},
		"$set in the properties":      {click(object{"properties.$set": object{"email": other}}), nil, other},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.email, eventOf(t, webhookDoor, object{"event": c.event, "person": c.person}).Email)
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
		if c.want == "" {
			requireIgnored(t, captureDoor, c.event)
			continue
		}
		assert.Equal(t, "identity | "+c.want, line(eventOf(t, captureDoor, c.event)), c.name)
	}
}

func TestForms_onlyPageviewsAndAutocaptureMakeActions(t *testing.T) {
	for _, name := range []string{"$rageclick", "$dead_click", "$pageleave", "$screen", "$snapshot", "$$heatmap",
		"$web_vitals",
		"$exception", "$groupidentify", "$feature_flag_called", "order paid", "pageview", "$PAGEVIEW", "$autocapture ", ""} {
		t.Run(name, func(t *testing.T) { requireIgnored(t, captureDoor, click(object{"event": name})) })
	}
	assert.Equal(t, intake.ReasonMalformed, meaningOf(t, captureDoor, click(object{"event": ""})).Reason)
	requireIgnored(t, captureDoor, object{"event": object{"event": click(nil)}}) // an event within an event within one
}

// An SDK's request may carry a webhook's body. Fields beside the event fill in those that the event lacks.
func TestForms_takeWhatStandsBesideAnEvent(t *testing.T) {
	person := func(email string) object { return object{"properties": object{"email": email}} }
	body := object{"event": click(object{"person": person("inside@example.com")})}
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
	s := newService()
	body := string(testdata("lz64", "posthog-js-lite-2.5.0.body"))
	form, err := url.ParseQuery(body)
	require.NoError(t, err)
	text := form.Get("data")
	require.Regexp(t, `\+.*/.*=|/.*\+.*=`, text)
	inURL := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(text)
	for _, body := range []string{body, "compression=lz64&data=" + text, "compression=lz64&data=" + inURL} {
		assert.Zero(t, requireOK(t, s.post(door{path: "/ingest/e/?ip=1&v=2.5.0"}, []byte(body))).Ignored)
		events := s.sink.take(shop)
		require.Len(t, events, 3)
		assert.Equal(t, "https://app.example.com/reports", events[0].Action.CanonicalURL)
		assert.Equal(t, []string{"Page Load: Reports", "Click Export CSV", "ada@example.com", "user_42"},
			[]string{events[0].Action.Title, events[1].Action.Title, events[2].Email, events[2].UserID})
	}
}

// A proof is found wherever an email is. A person's comes last.
func TestProof_isFoundInEveryPlace(t *testing.T) {
	proof := object{"user_hash": "aa", "$email_hash": "bb", "$identity_token": "cc"}
	want := intake.Proof{UserHash: "aa", EmailHash: "bb", Token: "cc"}
	inside := click(object{"properties.user_hash": "aa", "properties.$email_hash": "bb",
		"properties.$identity_token": "cc"})
	other := object{"properties": object{"user_hash": "xx", "email_hash": "xx", "$identity_token": "xx"}}
	for name, body := range map[string]object{
		"properties":           inside,
		"properties, a person": {"event": inside, "person": other},
		"$set":                 click(object{"$set": proof}),
		"properties.$set":      click(object{"properties.$set": proof}),
		"the person":           {"event": click(nil), "person": object{"properties": proof}},
		"the person, inside":   {"event": click(object{"person": object{"properties": proof}})},
	} {
		assert.Equal(t, want, meaningOf(t, webhookDoor, body).Proof, name)
	}
	assert.Zero(t, meaningOf(t, captureDoor, click(nil)).Proof)
}

// Visitors that share an ID must not see each other. Their actions belong to their sessions and to no user.
func TestNobody_hasNoUserID(t *testing.T) {
	for _, id := range []any{"$posthog_cookieless", `"$posthog_cookieless"`, " $posthog_cookieless", "Guest", true, 0,
		" "} {
		for _, changes := range []object{
			{"properties.distinct_id": id},
			{"properties.distinct_id": nil, "distinct_id": id},
			{"properties.distinct_id": id, "properties.$user_id": id, "properties.$is_identified": true},
			{"event": "$identify", "properties.distinct_id": id, "$set": object{"email": "ada@example.com"}},
		} {
			e := eventOf(t, captureDoor, click(changes))
			assert.Equal(t, []any{"", false, "session-1"}, []any{e.UserID, e.Identified, e.SessionID}, "%q", id)
		}
	}
}

// An event without a user and a session is ignored, except for a cookieless visitor's action, which has no address.
func TestNobody_isIgnoredWithoutASession(t *testing.T) {
	for _, session := range []any{nil, "undefined"} {
		event := click(object{"properties.distinct_id": "anonymous", "properties.$session_id": session})
		assert.Equal(t, intake.ReasonNobody, meaningOf(t, captureDoor, event).Reason)
	}
	for _, id := range []string{"$posthog_cookieless", "anonymous"} {
		requireIgnored(t, captureDoor, click(object{"event": "$set", "properties.distinct_id": id,
			"properties.$session_id": nil, "$set": object{"email": "ada@example.com"}}))
	}
	e := eventOf(t, captureDoor,
		click(object{"properties.distinct_id": "$posthog_cookieless", "properties.$session_id": nil,
			"$set": object{"email": "ada@example.com"}}))
	assert.Equal(t, "Click Export CSV", e.Action.Title)
	assert.Empty(t, e.SessionID+e.UserID+e.Email)
}
