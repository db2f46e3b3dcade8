package intercom_test

import (
	"crypto/hmac"
	sha1hash "crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const secret = "client-secret"

func newClient(t testing.TB, config intercom.Config) *intercom.Client {
	t.Helper()
	client := musttest.New(intercom.New(config, nil))
	return client
}

// signed returns the header that Intercom signs a body with today.
func signed(body string) http.Header {
	return http.Header{"X-Hub-Signature": {signature("X-Hub-Signature", secret, body)}}
}

// signature returns the value of a header that signs a body.
func signature(name, secret, body string) string {
	header := http.Header{}
	if err := intercom.Sign(header, secret, []byte(body)); err != nil {
		panic(err)
	}
	return header.Get(name)
}

// read returns the event of a signed webhook.
func read(t testing.TB, body string) (helpdesk.Event, error) {
	t.Helper()
	return newClient(t, intercom.Config{ClientSecret: secret}).Webhook(signed(body), []byte(body), time.Now())
}

const created = `{"type":"notification_event","app_id":"abc","data":{"type":"notification_event_data","item":{
	"type":"conversation","id":"1021","created_at":1795314304,
	"source":{"type":"conversation","id":"99","body":"<p>Hello &amp; good day</p><p>I need <b>help</b></p>",
		"author":{"type":"user","id":"64a1","name":"Jane","email":"Jane@acme.example"}},
	"contacts":{"type":"contact.list","contacts":[
		{"type":"contact","id":"ffff","external_id":"not-her"},
		{"type":"contact","id":"64a1","external_id":"user-7"}]},
	"conversation_parts":{"type":"conversation_part.list","conversation_parts":[],"total_count":0}}},
	"links":{},"id":"notif_1","topic":"conversation.user.created",
	"delivery_status":"pending","delivery_attempts":1,"delivered_at":0,"first_sent_at":1795314305,
	"created_at":1795314305,"self":null}`

const replied = `{"type":"notification_event","data":{"item":{"type":"conversation","id":1021,"created_at":1795314304,
	"source":{"body":"<p>Welcome!</p>","author":{"type":"admin","id":"42","email":"agent@acme.example"}},
	"contacts":{"contacts":[{"id":"64a1","external_id":7}]},
	"conversation_parts":{"conversation_parts":[{"type":"conversation_part","id":"500","part_type":"open",
		"body":"Yes, show me","created_at":1795314400,
		"author":{"type":"user","id":"64a1","email":"jane@acme.example"}}]}}},
	"id":"notif_2","topic":"conversation.user.replied","created_at":1795314401}`

func TestWebhook_namesTheOpenerOfAConversation(t *testing.T) {
	event := musttest.New(read(t, created))
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventOpened, DeliveryID: "notif_1", ConversationID: "1021",
		ContactID: "64a1",
		Contact:   helpdesk.Contact{Email: "Jane@acme.example", UserID: "user-7"},
		Message:   "Hello & good day\nI need help", At: time.Unix(1795314304, 0)}, event)
}

func TestWebhook_namesTheAuthorOfEachText(t *testing.T) {
	event := musttest.New(read(t, replied))
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventMessage, DeliveryID: "notif_2", ConversationID: "1021",
		ContactID: "64a1",
		Contact:   helpdesk.Contact{Email: "jane@acme.example", UserID: "7"}, Message: "Yes, show me",
		At: time.Unix(1795314400, 0)}, event)
}

// item returns a notification of a topic about a conversation.
func item(topic, conversation string) string {
	return `{"type":"notification_event","id":"n","topic":"` + topic + `","data":{"item":` + conversation + `}}`
}

func TestWebhook_readsPartialBodies(t *testing.T) {
	const opened, said = "conversation.user.created", "conversation.user.replied"
	const admin, bot = `{"type":"admin","id":"42","email":"agent@acme.example"}`, `{"type":"bot"}`
	const ann, bob = `{"type":"user","id":"a","email":"a@x.example"}`, `{"type":"user","id":"b","email":"b@x.example"}`
	const bobWithoutAddress, bobsUserID = `{"type":"user","id":"b","email":null}`, `{"id":"b","external_id":"u"}`
	const lead = `{"type":"lead","id":"c","email":"c@x.example"}`
	const contact, user = `{"id":"c","external_id":"u"}`, `{"id":"c","external_id":"u","role":"user"}`
	by := func(author, fields string) string {
		return `{"id":"1","source":{"body":"x","author":` + author + `}` + fields + `}`
	}
	contacts := func(all string) string { return `,"contacts":{"contacts":[` + all + `]}` }
	text := func(body, author string) string { return `{"body":"` + body + `","author":` + author + `}` }
	parts := func(all string) string { return `,"conversation_parts":{"conversation_parts":[` + all + `]}` }
	event := func(kind helpdesk.EventType, contactID, email, userID, message string) helpdesk.Event {
		return helpdesk.Event{Type: kind, ConversationID: "1", ContactID: contactID, Message: message,
			Contact: helpdesk.Contact{Email: email, UserID: userID}}
	}
	const open, message = helpdesk.EventOpened, helpdesk.EventMessage
	for name, test := range map[string]struct {
		topic, item string
		want        helpdesk.Event
	}{
		"a ping": {"ping", `{"type":"ping","message":"something something interzen"}`,
			helpdesk.Event{Type: helpdesk.EventPing}},
		"another topic":     {"conversation.admin.closed", `{"id":"1"}`, helpdesk.Event{}},
		"topic of contacts": {"contact.created", `"?"`, helpdesk.Event{}},
		"an id alone":       {opened, `{"id":"1"}`, event(open, "", "", "", "")},
		"everything null": {said, `{"id":"1","created_at":null,"source":null,"contacts":null,"conversation_parts":null}`,
			event(message, "", "", "", "")},
		"times that are no times": {opened, `{"id":"1","created_at":"yesterday"}`, event(open, "", "", "", "")},
		"a contact without email": {opened, `{"id":"1"` + contacts(user) + `}`, event(open, "c", "", "u", "")},
		"a contact without a role, who is to be looked up": {opened,
			by(`{"type":"contact","id":"c","email":"c@x.example"}`, contacts(contact)), event(open, "c", "", "", "x")},
		"a lead who typed an address": {opened, by(lead, contacts(contact)), event(open, "", "", "", "x")},
		"a lead by the list of contacts": {said, `{"id":"1"` + contacts(`{"id":"c","external_id":"u","role":"lead"}`) +
			parts(text("y", `{"type":"user","id":"c","email":"c@x.example"}`)) + `}`, event(message, "", "", "", "y")},
		"a first message of an admin's": {opened, by(admin, contacts(`{"id":"c"}`)), event(open, "c", "", "", "")},
		"a first message of a bot's, and a contact's answer": {opened,
			by(bot, contacts(`{"id":"c"},{"id":"d","external_id":"u","role":"user"}`)+
				parts(text("x", admin)+","+text("y", `{"type":"user","id":"d"}`))), event(open, "d", "", "u", "y")},
		"a part of an admin's": {said, `{"id":"1"` + parts(text("x", admin)) + `}`, event(0, "", "", "", "")},
		"a part of a bot's":    {said, `{"id":"1"` + parts(text("x", bot)) + `}`, event(0, "", "", "", "")},
		"a part of another contact's than the first": {said, by(ann, parts(text("y", bob))),
			event(message, "b", "b@x.example", "", "y")},
		"a part of a user without an address, where another one opened": {said,
			by(ann, contacts(bobsUserID)+parts(text("y", bobWithoutAddress))), event(message, "b", "", "u", "y")},
		"a part of a user without an address, where a lead opened": {said,
			by(lead, contacts(bobsUserID)+parts(text("y", bobWithoutAddress))), event(message, "b", "", "u", "y")},
		"a part of somebody without an id, where a user opened": {said,
			by(ann, parts(text("y", `{"type":"lead","email":"b@x.example"}`))), event(message, "", "", "", "y")},
		"a part of somebody without an id, one of two contacts": {said,
			by(ann, contacts(`{"id":"a","external_id":"u","role":"user"},{"id":"b","role":"user"}`)+
				parts(text("y", `{"type":"user","email":"b@x.example"}`))), event(message, "", "", "", "y")},
		"a message without its part": {said, by(ann, parts("")), event(message, "a", "a@x.example", "", "")},
		"a part after one of an admin's": {said, `{"id":"1"` + parts(text("x", admin)+","+
			text("y", `{"type":"lead","id":"c"}`)) + `}`, event(message, "", "", "", "y")},
		"an image alone": {said, `{"id":"1"` + parts(text(`<img src=\"https://x/y.png\">`, `{"type":"user"}`)) + `}`,
			event(message, "", "", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.DeliveryID = "n"
			assert.Equal(t, test.want, musttest.New(read(t, item(test.topic, test.item))))
		})
	}
}

func TestWebhook_isReadWithoutItsType(t *testing.T) {
	event := musttest.New(read(t, `{"topic":"conversation.user.created","data":{"item":{"id":"1"}}}`))
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: "1"}, event)
}

func TestWebhook_namesTheMalformedPart(t *testing.T) {
	for name, body := range map[string]string{
		"not JSON":                     `{"type":"notification_event"`,
		"nothing":                      ``,
		"null":                         `null`,
		"an array":                     `[]`,
		"another type":                 `{"type":"event.list"}`,
		"neither type nor topic":       `{"data":{"item":{"id":"1"}}}`,
		"a notification id of objects": `{"type":"notification_event","id":{}}`,
		"no item":                      `{"type":"notification_event","topic":"conversation.user.created"}`,
		"no conversation id":           item("conversation.user.created", `{}`),
		"an id with a fraction":        item("conversation.user.created", `{"id":1.5}`),
		"an id that is true":           item("conversation.user.created", `{"id":true}`),
		"an id with a path":            item("conversation.user.replied", `{"id":"../me"}`),
		"the id of any conversation":   item("conversation.user.replied", `{"id":"last"}`),
		"an item that is a string":     item("conversation.user.created", `"1"`),
		"parts that are no list": item("conversation.user.created",
			`{"id":"1","conversation_parts":{"conversation_parts":"x"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			event, err := read(t, body)
			require.ErrorAs(t, err, new(*helpdesk.PayloadError))
			assert.Zero(t, event)
			assert.NotContains(t, err.Error(), "webhook", "the answer's sentence begins with it")
		})
	}
}

func TestWebhook_isAnothersWithoutSignatureAndForm(t *testing.T) {
	client := newClient(t, intercom.Config{ClientSecret: secret})
	header := http.Header{"X-Zendesk-Webhook-Signature": {"x"}}
	for _, body := range []string{`{"ticket_id":"1","trigger_type":"new_ticket"}`,
		`{"event":"conversation_created","id":1}`, `{`, ``, `null`} {
		_, err := client.Webhook(header, []byte(body), time.Now())
		require.ErrorIs(t, err, helpdesk.ErrUnrecognized, body)
	}
}

func TestWebhook_isRefusedUnlessSigned(t *testing.T) {
	const new, old = "X-Hub-Signature-256", "X-Hub-Signature"
	sha256, sha1 := signature(new, secret, created), signature(old, secret, created)
	unkeyed := hmac.New(sha1hash.New, nil)
	_, _ = unkeyed.Write([]byte(created))
	for name, header := range map[string]http.Header{
		"not at all":               {},
		"with another secret":      {"X-Hub-Signature": {signature(old, "other", created)}},
		"another body":             {"X-Hub-Signature-256": {signature(new, secret, replied)}},
		"with an empty secret":     {"X-Hub-Signature": {"sha1=" + hex.EncodeToString(unkeyed.Sum(nil))}},
		"with a part":              {"X-Hub-Signature": {sha1[:20]}},
		"without the algorithm":    {"X-Hub-Signature": {sha1[len("sha1="):]}},
		"SHA-256 in the old place": {"X-Hub-Signature": {sha256}},
		"SHA-1 in the new place":   {"X-Hub-Signature-256": {sha1}},
		"an empty header":          {"X-Hub-Signature": {""}},
		"SHA-256 wrong, SHA-1 not": {"X-Hub-Signature-256": {signature(new, "other", created)}, "X-Hub-Signature": {sha1}},
		"SHA-256 empty, SHA-1 not": {"X-Hub-Signature-256": {""}, "X-Hub-Signature": {sha1}},
	} {
		t.Run(name, func(t *testing.T) {
			event, err := newClient(t, intercom.Config{ClientSecret: secret}).Webhook(header, []byte(created), time.Now())
			require.ErrorIs(t, err, helpdesk.ErrSignature)
			assert.Zero(t, event)
			assert.NotContains(t, err.Error(), sha1[5:])
			assert.NotContains(t, err.Error(), sha256[7:])
		})
	}
}

func TestWebhook_withoutAClientSecretIsRefused(t *testing.T) {
	client := newClient(t, intercom.Config{})
	for _, header := range []http.Header{{}, signed(created), {"X-Hub-Signature": {"sha1="}},
		{"X-Hub-Signature-256": {"sha256="}}} {
		_, err := client.Webhook(header, []byte(created), time.Now())
		require.ErrorIs(t, err, helpdesk.ErrSignature)
		assert.ErrorContains(t, err, "client_secret")
	}
}

func TestVerify_takesEitherAlgorithm(t *testing.T) {
	const new, old = "X-Hub-Signature-256", "X-Hub-Signature"
	for name, header := range map[string]http.Header{
		"SHA-1":   {old: {signature(old, secret, created)}},
		"SHA-256": {new: {signature(new, secret, created)}},
		"both, of which the older does not count": {new: {signature(new, secret, created)}, old: {"sha1=00"}},
	} {
		assert.NoError(t, intercom.Verify(secret, header, []byte(created)), name)
	}
}

// The vectors are from RFC 2202 and RFC 4231.
func TestSign_isHMAC(t *testing.T) {
	body := "what do ya want for nothing?"
	assert.Equal(t, "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79", signature("X-Hub-Signature", "Jefe", body))
	assert.Equal(t, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		signature("X-Hub-Signature-256", "Jefe", body))
	header := http.Header{}
	require.Error(t, intercom.Sign(header, "", []byte(body)))
	assert.Empty(t, header)
}

func FuzzWebhook(f *testing.F) {
	for _, body := range []string{created, replied, item("ping", `{}`),
		item("conversation.user.created", `{"id":1.5}`), `{`, ``} {
		f.Add(body)
	}
	client := newClient(f, intercom.Config{ClientSecret: secret})
	f.Fuzz(func(t *testing.T, body string) {
		event, err := client.Webhook(signed(body), []byte(body), time.Now())
		var malformed *helpdesk.PayloadError
		switch {
		case err == nil:
			relevant := event.Type == helpdesk.EventOpened || event.Type == helpdesk.EventMessage
			assert.False(t, relevant && event.ConversationID == "")
			assert.True(t, json.Valid([]byte(body)))
		case !errors.As(err, &malformed):
			t.Errorf("a signed request is refused: %v", err)
		}
		_, err = client.Webhook(http.Header{}, []byte(body), time.Now())
		assert.True(t, errors.Is(err, helpdesk.ErrUnrecognized) || errors.Is(err, helpdesk.ErrSignature))
	})
}
