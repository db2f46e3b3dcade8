package zendesk_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// This is Zendesk's own test vector.
const (
	vectorSecret    = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ=="
	vectorTime      = "2021-03-25T05:09:27Z"
	vectorBody      = `{"event":"ticket.updated","id":123}`
	vectorSignature = "S/RDdU2ERmj7LHDDoWJ2onPYH+t7/f2+LTM4dL7UiLM="
)

var vectorNow = time.Date(2021, 3, 25, 5, 9, 27, 0, time.UTC)

func signed(signature, stamp string) http.Header {
	h := http.Header{}
	h.Set(zendesk.HeaderSignature, signature)
	h.Set(zendesk.HeaderTimestamp, stamp)
	return h
}

func TestSign_makesZendesksTestVector(t *testing.T) {
	h := http.Header{}
	require.NoError(t, zendesk.Sign(h, vectorSecret, []byte(vectorBody), vectorNow.In(time.FixedZone("", 3600))))
	assert.Equal(t, signed(vectorSignature, vectorTime), h)
	require.Error(t, zendesk.Sign(h, "", []byte(vectorBody), vectorNow))
}

func TestVerify_refusesEverythingElse(t *testing.T) {
	for name, test := range map[string]struct {
		secrets   []string
		signature string
		stamp     string
		body      string
	}{
		"other secret":        {[]string{"other"}, vectorSignature, vectorTime, vectorBody},
		"decoded secret":      {[]string{"this_secret_is_for_testing_only"}, vectorSignature, vectorTime, vectorBody},
		"no signature":        {[]string{vectorSecret}, "", vectorTime, vectorBody},
		"other signature":     {[]string{vectorSecret}, "T" + vectorSignature[1:], vectorTime, vectorBody},
		"half a signature":    {[]string{vectorSecret}, vectorSignature[:20], vectorTime, vectorBody},
		"no time":             {[]string{vectorSecret}, vectorSignature, "", vectorBody},
		"other time":          {[]string{vectorSecret}, vectorSignature, "2021-03-25T05:09:28Z", vectorBody},
		"time in other words": {[]string{vectorSecret}, vectorSignature, "2021-03-25T06:09:27+01:00", vectorBody},
		"no valid time":       {[]string{vectorSecret}, vectorSignature, "1616648967", vectorBody},
		"other body":          {[]string{vectorSecret}, vectorSignature, vectorTime, vectorBody + " "},
	} {
		t.Run(name, func(t *testing.T) {
			err := zendesk.Verify(test.secrets, signed(test.signature, test.stamp), []byte(test.body), vectorNow, 0)
			assert.Equal(t, helpdesk.ErrSignature, err, "and says no more than that")
		})
	}
}

// A signature over an empty secret is easily made by a stranger.
func TestVerify_takesNoSignatureOfAnEmptySecret(t *testing.T) {
	mac := hmac.New(sha256.New, nil)
	_, _ = mac.Write([]byte(vectorTime + vectorBody))
	forged := signed(base64.StdEncoding.EncodeToString(mac.Sum(nil)), vectorTime)
	for _, secrets := range [][]string{nil, {""}, {"", "other"}} {
		require.ErrorIs(t, zendesk.Verify(secrets, forged, []byte(vectorBody), vectorNow, 0), helpdesk.ErrSignature)
	}
}

func TestVerify_acceptsOneOfSeveralSecretsByClocksThatDiffer(t *testing.T) {
	h := signed(vectorSignature, vectorTime)
	for _, test := range []struct {
		tolerance, by time.Duration
		ok            bool
	}{
		{0, 15 * time.Minute, true}, {0, 15*time.Minute + 1, false}, {0, -15 * time.Minute, true},
		{0, -15*time.Minute - 1, false},
		{time.Second, time.Second, true}, {time.Second, 2 * time.Second, false}, {time.Second, -2 * time.Second, false},
		{0, 1 << 62, false}, {0, -1 << 62, false},
	} {
		err := zendesk.Verify([]string{"older", vectorSecret, "newer"}, h, []byte(vectorBody), vectorNow.Add(test.by),
			test.tolerance)
		assert.Equal(t, test.ok, err == nil, "%v %v", test.tolerance, test.by)
	}
}

func newTicket(fields string) string { return `{` + fields + `, "trigger_type": "new_ticket"}` }

func TestParseTrigger_readsTheEvent(t *testing.T) {
	opened := helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: "1"}
	janes := opened
	janes.ConversationID, janes.Contact.Email = "35436", "jane@acme.example"
	for name, test := range map[string]struct {
		body string
		want helpdesk.Event
	}{
		"new ticket":     {newTicket(`"ticket_id": "35436", "requester_email": "jane@acme.example"`), janes},
		"id as a number": {newTicket(`"ticket_id": 35436, "requester_email": "jane@acme.example"`), janes},
		"id longer than a float holds": {newTicket(`"ticket_id": 9007199254740993`),
			helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: "9007199254740993"}},
		"email in another case, with spaces": {newTicket(`"ticket_id": 1, "requester_email": " Jane@ACME.example "`),
			helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: "1",
				Contact: helpdesk.Contact{Email: "Jane@ACME.example"}}},
		"no email":             {newTicket(`"ticket_id": 1`), opened},
		"email null":           {newTicket(`"ticket_id": 1, "requester_email": null`), opened},
		"email empty":          {newTicket(`"ticket_id": 1, "requester_email": ""`), opened},
		"placeholder as email": {newTicket(`"ticket_id": 1, "requester_email": "{{ticket.requester.email}}"`), opened},
		"fields of others": {newTicket(`"a": [{"ticket_id": 2}], "ticket_id": 1, "b": {"trigger_type": "x"}`),
			opened},
		"message with a new ticket": {`{"ticket_id": 1, "trigger_type": "new_ticket", "user_message": "x"}`, opened},
		"field in another case":     {newTicket(`"ticket_id": 1, "Ticket_ID": 2`), opened},
		"unknown type":              {`{"ticket_id": "1", "trigger_type": "ticket_solved"}`, helpdesk.Event{}},
		"type in another case":      {`{"ticket_id": "1", "trigger_type": "New_Ticket"}`, helpdesk.Event{}},
		"reply":                     {userReply(`"Where is it?"`), message("Where is it?")},
		"reply with escapes":        {userReply(`"a \"b\"\n\u00e9 \\"`), message("a \"b\"\né \\")},
		"reply and white space":     {userReply(`  " a "  `) + "\n", message("a")},
		"reply without text":        {userReply(`" "`), helpdesk.Event{}},
		"reply null":                {userReply(`null`), helpdesk.Event{}},
		"quotes not escaped":        {userReply(`"he said "no" to me"`), message(`he said "no" to me`)},
		"line breaks not escaped":   {userReply("\"one\ntwo\r\nthree\""), message("one\ntwo\r\nthree")},
		"braces not escaped":        {userReply(`"{"a": "b"}"`), message(`{"a": "b"}`)},
		"ends like a body":          {userReply(`"oops"}"`), message(`oops"}`)},
		"backslashes not escaped":   {userReply(`"C:\xampp\"`), message(`C:\xampp\`)},
		"not UTF-8":                 {userReply("\"a\xff\"b\""), message("a\ufffd\"b")},
		"smuggled ticket":           {userReply(`"x", "ticket_id": "999"`), message(`x", "ticket_id": "999`)},
		"smuggled email": {userReply(`"x", "requester_email": "ceo@acme.example"`),
			message(`x", "requester_email": "ceo@acme.example`)},
		"smuggled type": {userReply(`"x", "trigger_type": "new_ticket"`),
			message(`x", "trigger_type": "new_ticket`)},
		"smuggled second message": {userReply(`"x", "user_message": "y"`), message(`x", "user_message": "y`)},
		"smuggled second body": {userReply(`"x"} {"ticket_id": "999", "trigger_type": "user_reply", "user_message": ` +
			`"y"`), message(`x"} {"ticket_id": "999", "trigger_type": "user_reply", "user_message": "y`)},
		"smuggled nested message":    {userReply(`"x", "a": {"b": "c"`), message(`x", "a": {"b": "c`)},
		"smuggled in escapes":        {userReply(`"x\", \"ticket_id\": \"999"`), message(`x", "ticket_id": "999`)},
		"smuggled after a backslash": {userReply(`"x\\", "ticket_id": "999"`), message(`x\\", "ticket_id": "999`)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, musttest.New(zendesk.ParseTrigger([]byte(test.body))))
		})
	}
}

// userReply is the body of a reply with this JSON as its "user_message".
func userReply(value string) string {
	return `{"ticket_id": "4711", "requester_email": "jane@acme.example", "trigger_type": "user_reply", "user_message": ` +
		value + `}`
}

func message(text string) helpdesk.Event {
	return helpdesk.Event{Type: helpdesk.EventMessage, ConversationID: "4711",
		Contact: helpdesk.Contact{Email: "jane@acme.example"}, Message: text}
}

func TestParseTrigger_refusesMalformedBodies(t *testing.T) {
	for name, body := range map[string]string{
		"empty":                      "",
		"not JSON":                   "ticket_id=1&trigger_type=new_ticket",
		"truncated":                  `{"ticket_id": "1", "trigger_type": "new_tick`,
		"truncated message":          userReply(`"half a mess`)[:120],
		"an array":                   `[{"ticket_id": "1", "trigger_type": "new_ticket"}]`,
		"two bodies":                 `{"ticket_id": "1", "trigger_type": "new_ticket"}{}`,
		"null":                       "null",
		"no type":                    `{"ticket_id": "1"}`,
		"no ticket":                  `{"trigger_type": "new_ticket"}`,
		"ticket null":                newTicket(`"ticket_id": null`),
		"ticket empty":               newTicket(`"ticket_id": ""`),
		"ticket twice":               newTicket(`"ticket_id": "1", "ticket_id": "2"`),
		"ticket empty, then another": newTicket(`"ticket_id": "", "ticket_id": "2"`),
		"ticket as a placeholder":    newTicket(`"ticket_id": "{{ticket.id}}"`),
		"ticket as a path":           newTicket(`"ticket_id": "1/../2"`),
		"ticket below zero":          newTicket(`"ticket_id": -1`),
		"ticket zero":                newTicket(`"ticket_id": 0`),
		"ticket with a fraction":     newTicket(`"ticket_id": 1.5`),
		"ticket with an exponent":    newTicket(`"ticket_id": 1e3`),
		"ticket too long":            newTicket(`"ticket_id": "` + strings.Repeat("1", 200) + `"`),
		"ticket with a long tail":    newTicket(`"ticket_id": "1` + strings.Repeat(" ", 200) + `"`),
		"email too long": newTicket(`"ticket_id": "1", "requester_email": "` + strings.Repeat("a", 400) +
			`@acme.example"`),
		"type twice":                newTicket(`"ticket_id": "1", "trigger_type": "user_reply"`),
		"email smuggles a ticket":   newTicket(`"ticket_id": "1", "requester_email": "x", "ticket_id": "999", "y": "@z"`),
		"reply without message":     `{"ticket_id": "1", "trigger_type": "user_reply"}`,
		"message is a number":       userReply(`1`),
		"message is an object":      userReply(`{"a": "b"}`),
		"message opens no quote":    userReply(`a"`),
		"message is one quote":      userReply(`"`),
		"ticket behind the message": `{"trigger_type": "user_reply", "user_message": "x", "ticket_id": "999"}`,
		"type behind the message":   `{"ticket_id": "1", "user_message": "x", "trigger_type": "user_reply"}`,
	} {
		t.Run(name, func(t *testing.T) {
			event, err := zendesk.ParseTrigger([]byte(body))
			require.ErrorAs(t, err, new(*helpdesk.PayloadError))
			assert.Zero(t, event)
			assert.NotContains(t, err.Error(), "999", "no part of the body is in the error")
		})
	}
}

func TestParseTrigger_readsTheBodiesOfTheTriggers(t *testing.T) {
	fill := strings.NewReplacer("{{ticket.id}}", "4711", "{{ticket.requester.email}}", "jane@acme.example",
		"{{ticket.latest_public_comment}}", `so "what"`).Replace
	assert.Equal(t, message(`so "what"`), musttest.New(zendesk.ParseTrigger([]byte(fill(zendesk.UserReplyBody)))))
	opened := helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: "4711",
		Contact: helpdesk.Contact{Email: "jane@acme.example"}}
	assert.Equal(t, opened, musttest.New(zendesk.ParseTrigger([]byte(fill(zendesk.NewTicketBody)))))
	assert.NotContains(t, zendesk.UserReplyBody, "latest_comment", "which can be a private note")
}

func newClient(t testing.TB, config zendesk.Config) *zendesk.Client {
	t.Helper()
	if config.BaseURL == "" {
		config.BaseURL = "https://acme.zendesk.test"
	}
	return musttest.New(zendesk.New(config, nil))
}

func TestClient_Webhook_verifiesBeforeItReads(t *testing.T) {
	client := newClient(t, zendesk.Config{SigningSecret: zendesk.Secrets{"one", "two"}, SignatureToleranceS: 60})
	now := vectorNow.Add(59 * time.Second)
	body := []byte(userReply(`"hi"`))
	h := http.Header{}
	require.NoError(t, zendesk.Sign(h, "two", body, vectorNow))
	h.Set(zendesk.HeaderDelivery, "01H")

	event, err := client.Webhook(h, body, now)
	require.NoError(t, err)
	want := message("hi")
	want.DeliveryID, want.At = "01H", vectorNow
	assert.Equal(t, want, event)

	for name, test := range map[string]struct {
		header http.Header
		body   string
		now    time.Time
	}{
		"stale":                  {h, string(body), vectorNow.Add(61 * time.Second)},
		"other body":             {h, userReply(`"ho"`), now},
		"malformed and unsigned": {signed("x", vectorTime), "{", now},
		"no header of Zendesk's": {http.Header{}, string(body), now},
	} {
		event, err := client.Webhook(test.header, []byte(test.body), test.now)
		require.ErrorIs(t, err, helpdesk.ErrSignature, name)
		assert.Zero(t, event)
	}
	require.NoError(t, zendesk.Sign(h, "one", []byte("{"), vectorNow))
	_, err = client.Webhook(h, []byte("{"), now)
	require.ErrorAs(t, err, new(*helpdesk.PayloadError))
}

func TestClient_Webhook_withoutSecretTakesEverything(t *testing.T) {
	client := newClient(t, zendesk.Config{})
	for _, h := range []http.Header{{}, signed("wrong", vectorTime)} {
		event := musttest.New(client.Webhook(h, []byte(userReply(`"hi"`)), vectorNow))
		assert.Equal(t, message("hi"), event, "the time of a stranger is not kept")
	}
}

func TestClient_Webhook_leavesOtherDesksAlone(t *testing.T) {
	for _, client := range []*zendesk.Client{newClient(t, zendesk.Config{}),
		newClient(t, zendesk.Config{SigningSecret: zendesk.Secrets{"one"}})} {
		for name, test := range map[string]struct {
			header http.Header
			body   string
		}{
			"Intercom's": {http.Header{"X-Hub-Signature": {"sha1=0"}},
				`{"type":"notification_event","topic":"ping"}`},
			"Intercom's, with our fields": {http.Header{"X-Hub-Signature-256": {"sha256=0"}}, userReply(`"hi"`)},
			"Intercom's, unsigned":        {http.Header{}, `{"type":"notification_event","data":{"item":{"ticket_id":"1"}}}`},
			"empty":                       {http.Header{}, ""},
		} {
			_, err := client.Webhook(test.header, []byte(test.body), vectorNow)
			require.ErrorIs(t, err, helpdesk.ErrUnrecognized, name)
		}
	}
}

// A user's text, put between the quotes escaped or not, can only be the message.
func FuzzParseTrigger_message(f *testing.F) {
	for _, seed := range []string{"", "hi", `"`, `\`, `", "ticket_id": "999`, `"}`,
		`x"} {"ticket_id": 999, "user_message": "`, "\n", "\xff", `\", "ticket_id": 999, "a": "\`, `", "user_message": "`,
		`{{ticket.id}}`, `": null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, written string) {
		escaped, err := json.Marshal(written)
		require.NoError(t, err)
		var plain string
		require.NoError(t, json.Unmarshal(escaped, &plain))
		for body, want := range map[string][]string{
			userReply(string(escaped)):     {plain},
			userReply(`"` + written + `"`): {strings.ToValidUTF8(written, "\ufffd"), unescaped(written)},
		} {
			event, err := zendesk.ParseTrigger([]byte(body))
			require.NoError(t, err)
			for i := range want {
				want[i] = strings.TrimSpace(want[i])
			}
			assert.Contains(t, want, event.Message)
			if event.Message == "" {
				assert.Zero(t, event)
				continue
			}
			event.Message = ""
			assert.Equal(t, message(""), event)
		}
	})
}

// unescaped reads a user's text as the inside of a JSON string, if it can be.
func unescaped(written string) (text string) {
	if json.Unmarshal([]byte(`"`+written+`"`), &text) != nil {
		return strings.ToValidUTF8(written, "\ufffd")
	}
	return text
}

func FuzzParseTrigger(f *testing.F) {
	f.Add([]byte(userReply(`"hi"`)))
	f.Add([]byte(newTicket(`"ticket_id": 1, "requester_email": null`)))
	f.Add([]byte(`{"ticket_id": "1", "requester_email": "x", "ticket_id": "2"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		event, err := zendesk.ParseTrigger(body)
		var problem *helpdesk.PayloadError
		if err != nil && !errors.As(err, &problem) {
			t.Fatalf("%T", err)
		}
		if err != nil || event.Type == helpdesk.EventIgnored {
			assert.Zero(t, event)
			return
		}
		assert.Regexp(t, `^[1-9][0-9]{0,18}$`, event.ConversationID)
		assert.Equal(t, event.Type == helpdesk.EventMessage, event.Message != "")
		assert.True(t, utf8.ValidString(event.Message) && utf8.ValidString(event.Contact.Email))
	})
}

func FuzzVerify(f *testing.F) {
	f.Add(vectorSecret, vectorSignature, vectorTime, []byte(vectorBody))
	f.Add("", "", "", []byte{})
	f.Fuzz(func(t *testing.T, secret, signature, stamp string, body []byte) {
		err := zendesk.Verify([]string{secret, ""}, signed(signature, stamp), body, vectorNow, 0)
		at, parseErr := time.Parse(time.RFC3339, stamp)
		if err != nil || parseErr != nil {
			require.ErrorIs(t, err, helpdesk.ErrSignature)
			return
		}
		own := http.Header{}
		require.NoError(t, zendesk.Sign(own, secret, body, at))
		if own.Get(zendesk.HeaderTimestamp) == stamp {
			assert.Equal(t, own.Get(zendesk.HeaderSignature), signature)
		}
	})
}
