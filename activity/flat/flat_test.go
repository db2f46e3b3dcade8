package flat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/intake"
)

// example is the configuration that the tests begin with.
func example(t testing.TB) *flat.Config {
	t.Helper()
	c := &flat.Config{}
	require.NoError(t, json.Unmarshal([]byte(`{"name": "fullstory", "kind": "flat", "batch": "events", "fields": {
		"event": "name", "id": "id", "time": "at",
		"user_id": "user.id", "anonymous_id": "device", "session_id": "user.session", "email": "user.email",
		"url": "page.url", "label": "page.element.text", "properties": "data"},
		"actions": {"Viewed": "pageview", "Clicked": "click", "Sent": "submit", "Chose": "change",
			"Signed in": "identify"}}`), c))
	require.Empty(t, c.Validate())
	return c
}

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// decode returns a line for each event of a body.
func decode(t testing.TB, c *flat.Config, body string) (lines []string) {
	t.Helper()
	events := intake.NewEvents(intake.Rules{"Paid": {Properties: []string{"plan"}}})
	n, err := flat.New(c).Decode([]byte(body), intake.Request{Arrived: now, Webhook: true, Events: events},
		func(m *intake.Meaning) {
			if m.Reason != "" {
				lines = append(lines, "ignored: "+m.Reason)
				return
			}
			age := m.Age
			if !m.Time.IsZero() {
				age = now.Sub(m.Time)
			}
			line := fmt.Sprint(m.Key, " ", age, " ", m.SessionID, " ", m.UserID, " ", m.Identified, " ", m.Email)
			if m.Anonymous != "" {
				line += ", was " + m.Anonymous
			}
			if m.Visitor != m.UserID && m.Visitor != m.Anonymous {
				line += ", at " + m.Visitor
			}
			if m.Action != nil {
				line += ": " + m.Action.Description
			}
			assert.True(t, m.ServerTime, "the sender vouches for its times")
			lines = append(lines, line)
		})
	require.NoError(t, err)
	assert.Len(t, lines, n)
	return lines
}

func TestDecode_meanings(t *testing.T) {
	const who = `"id":"e1","at":"2026-11-22T11:59:58Z","user":{"id":"ada","session":"s1","email":"ada@x.example"},` +
		`"page":{"url":"https://x.example/billing","element":{"text":"Pay"}}`
	const said, clicked = "e1 2s s1 ada true ada@x.example", "e 0s d d false : User clicked an element"
	click := func(more string) string { return `{"name":"Clicked","id":"e",` + more + `}` }
	for name, tt := range map[string]struct{ body, want string }{
		"a page view": {`{"name":"Viewed",` + who + `}`, said + ": User landed on the billing page"},
		"a click":     {`{"name":"Clicked",` + who + `}`, said + ": User clicked Pay on the billing page"},
		"a submit":    {`{"name":"Sent",` + who + `}`, said + ": User submitted the Pay form on the billing page"},
		"a change":    {`{"name":"Chose",` + who + `}`, said + ": User changed the Pay field on the billing page"},
		"a custom event": {`{"name":"Paid","data":{"plan":"pro","card":"4111"},` + who + `}`,
			said + ": User did Paid (plan: pro) on the billing page"},
		"one without properties": {`{"name":"Paid","data":"pro",` + who + `}`, said + ": User did Paid on the billing page"},
		"one that is not listed": {`{"name":"Other","id":"e","user":{"id":"ada"}}`, "ignored: other_event"},
		"an address is learnt":   {`{"name":"Other",` + who + `}`, said},
		"an identity":            {`{"name":"Signed in","device":"d1",` + who + `}`, said + ", was d1"},
		"an identity of nobody":  {`{"name":"Signed in","id":"e","device":"d1"}`, "ignored: no_identity"},
		"an anonymous visitor":   {click(`"device":"d1"`), "e 0s d1 d1 false : User clicked an element"},
		"a user at a device": {click(`"device":"d","user":{"id":"ada"}`),
			"e 0s d ada true , at d: User clicked an element"},
		"a session of many": {click(`"device":"d1","user":{"session":"[object Object]"}`),
			"e 0s d1 d1 false : User clicked an element"},
		"a user only":              {`{"name":"Clicked","id":7,"user":{"id":42}}`, "7 0s  42 true : User clicked an element"},
		"milliseconds":             {click(`"at":1795348799000,"device":"d"`), "e 1s d d false : User clicked an element"},
		"a path into a text":       {click(`"device":"d","user":"ada","page":[1]`), clicked},
		"a text that is an object": {`{"name":{"x":1},"device":"d"}`, "ignored: malformed"},
		"no name":                  {`{"device":"d"}`, "ignored: malformed"},
		"a page view without one":  {`{"name":"Viewed","device":"d"}`, "ignored: malformed"},
		"a time that is none":      {`{"name":"Clicked","at":"soon","device":"d"}`, "ignored: malformed"},
		"nobody":                   {`{"name":"Clicked","user":{"id":null}}`, "ignored: no_session_and_user"},
		"an ID that many have":     {`{"name":"Clicked","user":{"id":"undefined"}}`, "ignored: no_session_and_user"},
		"an ID that is too long": {`{"name":"Clicked","user":{"id":"` + strings.Repeat("x", 1025) + `"}}`,
			"ignored: malformed"},
		"the longest ID": {`{"name":"Clicked","id":"` + strings.Repeat("x", 1024) + `","device":"d"}`,
			strings.Repeat("x", 1024) + " 0s d d false : User clicked an element"},
		"a longer ID":   {`{"name":"Clicked","id":"` + strings.Repeat("x", 1025) + `","device":"d"}`, "ignored: malformed"},
		"a field twice": {`{"name":"Viewed","name":"Clicked","id":"e","device":"d"}`, clicked},
		"names like paths": {click(`"device":"d","user.id":"eve","page.element":{"text":"Buy"}`),
			clicked},
		"no object": {`["x"]`, "ignored: malformed"},
		"an array":  {`[{"name":"Clicked","id":"e","device":"d"}]`, clicked},
		"a batch":   {`{"events":[{"name":"Clicked","id":"e","device":"d"}]}`, clicked},
		"an address with a secret": {`{"name":"Viewed","id":"e","device":"d","page":{"url":"https://u:p@x.example/a?` +
			`token=s3cr3t"}}`, "e 0s d d false : User landed on the a page"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, []string{tt.want}, decode(t, example(t), tt.body)) })
	}
}

// An event without an ID gets the same ID each time it is sent.
func TestDecode_eventsWithoutAnID(t *testing.T) {
	id := func(body string) string { return strings.Fields(decode(t, example(t), body)[0])[0] }
	const event = `{"name":"Clicked","device":"d"}`
	assert.Equal(t, id(event), id("["+event+"]"))
	assert.NotEqual(t, id(event), id(`{"name":"Clicked","device":"e"}`))
}

// The events of two sources are different ones, whatever their IDs.
func TestDecode_IDsAreOfTheirSource(t *testing.T) {
	ids := map[string]bool{}
	for _, name := range []string{"orders", "billing"} {
		c := example(t)
		c.Name = name
		_, err := flat.New(c).Decode([]byte(`{"name":"Clicked","id":17,"device":"d"}`), intake.Request{Arrived: now},
			func(m *intake.Meaning) { ids[m.ID] = true })
		require.NoError(t, err)
	}
	assert.Len(t, ids, 2)
}

// Without a path to the properties, they are the event's own fields.
func TestDecode_propertiesOfTheEventItself(t *testing.T) {
	c := example(t)
	c.Fields.Properties = ""
	assert.Contains(t, decode(t, c, `{"name":"Paid","device":"d","plan":"pro"}`)[0], "User did Paid (plan: pro)")
}

func TestConfig_reportsEveryMistake(t *testing.T) {
	for change, want := range map[string]string{
		`{"name": ""}`:                     "name: must be 1 to 64 letters, digits, '-' or '_'",
		`{"name": "a/b"}`:                  "name: must be 1 to 64 letters, digits, '-' or '_'",
		`{"kind": "segment"}`:              `kind: must be "flat"`,
		`{"fields": {"event": ""}}`:        "fields.event: is missing",
		`{"fields": {"url": "page..url"}}`: "fields.url: must be names with a dot between them",
		`{"fields": {"url": "user"}}`:      "fields.url: is a text, and email is inside of it",
		`{"fields": {"label": "page.url"}}`: "fields.label: is the path of url, too; " +
			"fields.url: is the path of label, too",
		`{"fields": {"properties": "user"}}`: "",
		`{"actions": {"x": "scroll"}}`: "actions.x: must be pageview, click, submit, " +
			"change or identify",
		`{"fields": {"user_id": "` + strings.Repeat("x", 201) + `"}}`: "fields.user_id: must have at most 200 bytes",
		`{"fields": {"user_id": "", "anonymous_id": "", "session_id": ""}}`: "fields: must have user_id, anonymous_id or " +
			"session_id",
	} {
		c := example(t)
		require.NoError(t, json.Unmarshal([]byte(change), c))
		assert.Equal(t, want, strings.Join(c.Validate(), "; "), change)
	}
}
