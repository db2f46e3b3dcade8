package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// newTestDesk returns a desk with one conversation.
func newTestDesk(t *testing.T) (d *desk, conversationID string) {
	t.Helper()
	demo := New(Product{ID: "demo", Key: "lak_1", Token: "phc_1"})
	opened := musttest.New(demo.Kind().Open(nil, nil))
	return opened.(*desk), demo.desk.open(contact{Email: "ada@example.com"})
}

// texts returns the parts of a conversation as "kind: text".
func (d *desk) texts(t *testing.T, id string) (texts []string) {
	t.Helper()
	require.NoError(t, d.change(id, func(c *conversation) {
		for _, p := range c.Parts {
			texts = append(texts, p.Kind+": "+p.Text)
		}
	}))
	return texts
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
	assert.True(t, d.list()[0].Parts[0].Redacted)
	require.NoError(t, d.Redact(t.Context(), "gone", note))
}

func TestDesk_saysThatAConversationIsGone(t *testing.T) {
	d, id := newTestDesk(t)
	d.withdraw(id, "")
	_, err := d.Note(t.Context(), id, "x")
	assert.True(t, helpdesk.IsGone(err))
	_, err = d.Reply(t.Context(), id, "x")
	assert.True(t, helpdesk.IsGone(err))
	_, err = d.Offer(t.Context(), id, helpdesk.Offer{Body: "x"})
	assert.True(t, helpdesk.IsGone(err))
}

func TestDesk_takesItsOwnWebhooksOnly(t *testing.T) {
	d, _ := newTestDesk(t)
	now := time.Now()
	sent := helpdesk.Event{Type: helpdesk.EventMessage, DeliveryID: "w1", ConversationID: "c1", Message: "Hi",
		Contact: helpdesk.Contact{Email: "ada@example.com", UserID: "u1"},
		At:      time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	body := musttest.New(json.Marshal(sent))
	with := func(secret string) http.Header { return http.Header{"X-Demo-Secret": {secret}} }
	event, err := d.Webhook(with(d.secret), body, now)
	require.NoError(t, err)
	assert.Equal(t, sent, event)

	_, err = d.Webhook(http.Header{}, body, now)
	require.ErrorIs(t, err, helpdesk.ErrUnrecognized)
	another, _ := newTestDesk(t)
	_, err = d.Webhook(with(another.secret), body, now)
	require.ErrorIs(t, err, helpdesk.ErrSignature)
	_, err = d.Webhook(with(d.secret), []byte("{"), now)
	require.ErrorAs(t, err, new(*helpdesk.PayloadError))
}

func TestDesk_isBounded(t *testing.T) {
	var d desk
	first := d.open(contact{})
	for range maxConversations - 1 {
		d.open(contact{})
	}
	_, err := d.write(first, part{Kind: kindNote, Text: "still here"})
	require.NoError(t, err)
	second := d.list()
	d.open(contact{})
	all := d.list()
	assert.Len(t, all, maxConversations)
	assert.Equal(t, first, all[1].ID, "it was changed lately")
	err = d.change(second[len(second)-1].ID, func(*conversation) {})
	require.Error(t, err, "the one that was not changed for longest makes room")

	for i := range maxParts + 10 {
		_, err := d.write(first, part{Kind: kindNote, Text: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	texts := d.texts(t, first)
	assert.Len(t, texts, maxParts)
	assert.Equal(t, "note: 10", texts[0])
}

func TestReply_namesItselfADemoAndTheKnownActivity(t *testing.T) {
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
