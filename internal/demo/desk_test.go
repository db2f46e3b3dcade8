package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

const secret = "s3cr3t"

// newTestDesk returns a desk with one conversation.
func newTestDesk(t *testing.T) (d *desk, conversationID string) {
	t.Helper()
	demo := New(Product{ID: "demo", Key: "lak_1", Token: "phc_1"}, secret)
	opened, err := demo.Kind().Open(demo.Config(), nil)
	require.NoError(t, err)
	return opened.(*desk), demo.account.open(contact{Email: "ada@example.com"})
}

// texts returns the parts of a conversation as "kind: text".
func (a *account) texts(t *testing.T, id string) (texts []string) {
	t.Helper()
	c, err := a.get(id)
	require.NoError(t, err)
	for _, p := range c.Parts {
		texts = append(texts, p.Kind+": "+p.Text)
	}
	return texts
}

func TestDesk_findsWhatItWrote(t *testing.T) {
	d, id := newTestDesk(t)
	began := time.Now()
	first, err := d.Note(t.Context(), id, "User clicked <b>")
	require.NoError(t, err)
	second, err := d.Note(t.Context(), id, "User clicked <b>")
	require.NoError(t, err)
	for after, want := range map[string]string{"": second, first: second, second: ""} {
		found, ok, err := d.FindNote(t.Context(), id, "User clicked <b>", after, began)
		require.NoError(t, err)
		assert.Equal(t, want, found, "after %q", after)
		assert.Equal(t, want != "", ok)
	}
	_, ok, err := d.FindNote(t.Context(), id, "User clicked <b>", "", time.Now().Add(time.Second))
	assert.True(t, err == nil && !ok, "it was written before")

	_, err = d.Reply(t.Context(), id, "Hello")
	require.NoError(t, err)
	offer := helpdesk.Offer{Body: "Need a hand?", Labels: []string{"Yes"}}
	offerID, err := d.Offer(t.Context(), id, offer)
	require.NoError(t, err)
	for _, since := range []time.Time{began, time.Now().Add(time.Second)} {
		ok, err := d.FindReply(t.Context(), id, "Hello", since)
		require.NoError(t, err)
		assert.Equal(t, since == began, ok)
		found, ok, err := d.FindOffer(t.Context(), id, offer, since)
		require.NoError(t, err)
		assert.Equal(t, since == began, ok)
		assert.Equal(t, since == began, found == offerID)
	}
	_, ok, err = d.FindOffer(t.Context(), id, helpdesk.Offer{Body: offer.Body}, began)
	assert.True(t, err == nil && !ok, "another offer")

	_, err = d.receive(id, message{Text: "Where is it?"})
	require.NoError(t, err)
	for text, want := range map[string]bool{"Where is it?": true, "Hello": false, "User clicked <b>": false} {
		theirs, err := d.IsRequesters(t.Context(), id, text)
		require.NoError(t, err)
		assert.Equal(t, want, theirs, text)
	}
}

func TestDesk_blanksANoteAndNothingElse(t *testing.T) {
	d, id := newTestDesk(t)
	note, err := d.Note(t.Context(), id, "a note")
	require.NoError(t, err)
	reply, err := d.Reply(t.Context(), id, "a reply")
	require.NoError(t, err)
	for _, part := range []string{note, reply, "99"} {
		require.NoError(t, d.Redact(t.Context(), id, part))
	}
	assert.Equal(t, []string{"note: ", "reply: a reply"}, d.texts(t, id))
	c, err := d.get(id)
	require.NoError(t, err)
	assert.True(t, c.Parts[0].Redacted)
	require.NoError(t, d.Redact(t.Context(), "gone", note))
}

func TestDesk_saysThatAConversationIsGone(t *testing.T) {
	d, id := newTestDesk(t)
	d.remove(id)
	_, err := d.Note(t.Context(), id, "x")
	assert.True(t, helpdesk.IsGone(err))
	_, err = d.Reply(t.Context(), id, "x")
	assert.True(t, helpdesk.IsGone(err))
	_, err = d.Offer(t.Context(), id, helpdesk.Offer{Body: "x"})
	assert.True(t, helpdesk.IsGone(err))
	_, err = d.IsRequesters(t.Context(), id, "x")
	assert.True(t, helpdesk.IsGone(err))
	_, _, err = d.FindNote(t.Context(), id, "x", "", time.Time{})
	assert.True(t, helpdesk.IsGone(err))
}

func TestDesk_takesItsOwnWebhooksOnly(t *testing.T) {
	d, _ := newTestDesk(t)
	now := time.Now()
	body := `{"event":"message_written","id":"w1","conversation_id":"c1","contact":{"email":"ada@example.com",` +
		`"user_id":"u1"},"text":"Hi","at":"2026-11-22T10:00:00Z"}`
	signed := func(secret, body string, at time.Time) http.Header {
		stamp := strconv.FormatInt(at.Unix(), 10)
		h := http.Header{}
		h.Set("X-Demo-Timestamp", stamp)
		h.Set("X-Demo-Signature", sign(secret, stamp, []byte(body)))
		return h
	}
	event, err := d.Webhook(signed(secret, body, now), []byte(body), now)
	require.NoError(t, err)
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventMessage, DeliveryID: "w1", ConversationID: "c1", Message: "Hi",
		Contact: helpdesk.Contact{Email: "ada@example.com", UserID: "u1"},
		At:      time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}, event)

	for name, tt := range map[string]struct {
		header http.Header
		body   string
		want   error
	}{
		"unsigned":        {http.Header{}, body, helpdesk.ErrUnrecognized},
		"another secret":  {signed("other", body, now), body, helpdesk.ErrSignature},
		"another body":    {signed(secret, body, now), strings.Replace(body, "Hi", "Ho", 1), helpdesk.ErrSignature},
		"an old one":      {signed(secret, body, now.Add(-16*time.Minute)), body, helpdesk.ErrSignature},
		"one of tomorrow": {signed(secret, body, now.Add(16*time.Minute)), body, helpdesk.ErrSignature},
		"no signature": {http.Header{"X-Demo-Timestamp": {strconv.FormatInt(now.Unix(), 10)}}, body,
			helpdesk.ErrSignature},
		"no time": {http.Header{"X-Demo-Signature": {sign(secret, "", []byte(body))}}, body, helpdesk.ErrSignature},
	} {
		_, err := d.Webhook(tt.header, []byte(tt.body), now)
		require.ErrorIs(t, err, tt.want, name)
	}
	var malformed *helpdesk.PayloadError
	_, err = d.Webhook(signed(secret, "{", now), []byte("{"), now)
	require.ErrorAs(t, err, &malformed)
	event, err = d.Webhook(signed(secret, `{"event":"assigned"}`, now), []byte(`{"event":"assigned"}`), now)
	require.NoError(t, err)
	assert.Equal(t, helpdesk.EventIgnored, event.Type)
}

func TestKind_needsASigningSecret(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                               "signing_secret: is missing",
		`{"signing_secret":""}`:            "signing_secret: must not be empty",
		`{"signing_secret":"x","url":"y"}`: "url: is not a known field",
	} {
		_, err := New(Product{}, secret).Kind().Open(json.RawMessage(config), nil)
		assert.ErrorContains(t, err, want, config)
	}
}

func TestAccount_isBounded(t *testing.T) {
	var a account
	first := a.open(contact{})
	for range maxConversations - 1 {
		a.open(contact{})
	}
	_, err := a.write(first, part{Kind: kindNote, Text: "still here"})
	require.NoError(t, err)
	second, _ := a.list()
	a.open(contact{})
	all, _ := a.list()
	assert.Len(t, all, maxConversations)
	assert.Equal(t, first, all[1].ID, "it was changed lately")
	_, err = a.get(second[len(second)-1].ID)
	require.Error(t, err, "the one that was not changed for longest makes room")

	for i := range maxParts + 10 {
		_, err := a.write(first, part{Kind: kindNote, Text: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	texts := a.texts(t, first)
	assert.Len(t, texts, maxParts)
	assert.Equal(t, "note: 10", texts[0])
	for range 3 {
		_, err := a.write(first, part{Kind: kindNote, Text: strings.Repeat("x", maxTexts/2)})
		require.NoError(t, err)
	}
	assert.Len(t, a.texts(t, first), 2)
}

func TestReply_saysThatItIsTheDemosAndWhatIsKnown(t *testing.T) {
	q := connector.Question{Desk: Name, Text: "Hi", Summaries: []string{"Visited shop."},
		Actions: []string{"User clicked A", "User clicked B", "User clicked C", "User clicked D"}}
	reply, err := Reply(t.Context(), q)
	require.NoError(t, err)
	assert.Contains(t, reply, "built into the demo")
	assert.True(t, strings.HasSuffix(reply, "\n\nVisited shop.\n\n• User clicked B\n• User clicked C\n• User clicked D"),
		reply)
	reply, err = Reply(t.Context(), connector.Question{Desk: Name})
	require.NoError(t, err)
	assert.Contains(t, reply, "nothing yet")
	_, err = Reply(t.Context(), connector.Question{Desk: "zendesk"})
	require.ErrorIs(t, err, connector.ErrNoReply)
}
