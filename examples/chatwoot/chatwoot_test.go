package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"
	"github.com/liveactivity/liveactivity/helpdesk"
)

// fakeChatwoot keeps the messages of conversation 7 of account 3.
func fakeChatwoot(t *testing.T) (desk helpdesk.Desk, messages *[]map[string]any) {
	messages = &[]map[string]any{{"id": 100, "content": "Hello?", "message_type": 0, "private": false, "created_at": time.Now().Unix()}}
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("api_access_token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != "/api/v1/accounts/3/conversations/7/messages":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"Resource could not be found"}`))
		case r.Method == http.MethodPost:
			var m map[string]any
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&m))
			assert.Equal(t, "outgoing", m["message_type"])
			m["id"], m["message_type"], m["created_at"] = 100+len(*messages), 1, time.Now().Unix()
			*messages = append(*messages, m)
			_ = json.NewEncoder(w).Encode(m)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"payload": *messages})
		}
	}))
	t.Cleanup(fake.Close)
	return opened(t, `{"base_url":"`+fake.URL+`","account_id":3,"api_access_token":"token","webhook_secret":"secret"}`), messages
}

func opened(t *testing.T, config string) helpdesk.Desk {
	t.Helper()
	desk, err := kind.Open([]byte(config), nil)
	require.NoError(t, err)
	return desk
}

// sign returns the headers of a webhook that was signed at this time.
func sign(secret, body string, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%s.%s", stamp, body)
	header := http.Header{}
	header.Set("X-Chatwoot-Timestamp", stamp)
	header.Set("X-Chatwoot-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	header.Set("X-Chatwoot-Delivery", "d1")
	return header
}

// webhook returns what a desk makes of a webhook that was signed at this time.
func webhook(desk helpdesk.Desk, secret, body string, at time.Time) (helpdesk.Event, error) {
	return desk.Webhook(sign(secret, body, at), []byte(body), time.Now())
}

const (
	created = `{"event":"conversation_created","id":7,"meta":{"sender":{"id":1,"email":"jane@acme.example","identifier":"user-7"}}}`
	wrote   = `{"event":"message_created","id":100,"content":"Hello?","message_type":"incoming","sender":{"email":null},"conversation":{"id":7}}`
)

func TestDesk_writesNotesAndReplies(t *testing.T) {
	desk, messages := fakeChatwoot(t)
	began := time.Now()
	id, err := desk.Note(t.Context(), "7", "[1] User clicked **Buy**\n<b>")
	require.NoError(t, err)
	note := (*messages)[1]
	assert.Equal(t, true, note["private"])
	assert.Equal(t, "\\[1\\] User clicked \\*\\*Buy\\*\\*\n\\<b\\>", note["content"])
	finder := desk.Capabilities().Finder
	found, ok, err := finder.FindNote(t.Context(), "7", "[1] User clicked **Buy**\n<b>", "", began)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, id, found)
	_, ok, err = finder.FindNote(t.Context(), "7", "[1] User clicked **Buy**\n<b>", id, began)
	assert.True(t, err == nil && !ok, "nothing is after it")

	chat := desk.Capabilities().Chatter
	_, err = chat.Reply(t.Context(), "7", "Hi Jane")
	require.NoError(t, err)
	assert.Equal(t, false, (*messages)[2]["private"])
	for text, theirs := range map[string]bool{"Hello?": true, "Hi Jane": false} {
		is, err := chat.IsRequesters(t.Context(), "7", text)
		require.NoError(t, err)
		assert.Equal(t, theirs, is)
		ours, err := chat.FindReply(t.Context(), "7", text, began)
		require.NoError(t, err)
		assert.Equal(t, !theirs, ours)
	}
	for _, id := range []string{"8", "../7", ""} {
		_, err = desk.Note(t.Context(), id, "x")
		assert.True(t, helpdesk.IsGone(err), id)
	}
}

func TestDesk_readsSignedWebhooks(t *testing.T) {
	desk, _ := fakeChatwoot(t)
	event, err := webhook(desk, "secret", created, time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventOpened, DeliveryID: "d1", ConversationID: "7", Contact: helpdesk.Contact{Email: "jane@acme.example", UserID: "user-7"}}, event)
	event, err = webhook(desk, "secret", wrote, time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventMessage, DeliveryID: "d1", ConversationID: "7", Message: "Hello?"}, event)
	event, err = webhook(desk, "secret", `{"event":"message_created","message_type":"outgoing"}`, time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.EventIgnored, event.Type)

	_, err = webhook(desk, "other", created, time.Now())
	require.ErrorIs(t, err, helpdesk.ErrSignature)
	_, err = webhook(desk, "secret", created, time.Now().Add(-time.Hour))
	require.ErrorIs(t, err, helpdesk.ErrSignature)
	_, err = desk.Webhook(http.Header{}, []byte(created), time.Now())
	require.ErrorIs(t, err, helpdesk.ErrSignature)
	_, err = desk.Webhook(http.Header{}, []byte(`{"type":"notification_event"}`), time.Now())
	require.ErrorIs(t, err, helpdesk.ErrUnrecognized)
	var malformed *helpdesk.PayloadError
	_, err = webhook(desk, "secret", `{"event":"conversation_created"}`, time.Now())
	require.ErrorAs(t, err, &malformed)
	_, err = webhook(desk, "secret", `{`, time.Now())
	require.ErrorAs(t, err, &malformed)
}

func TestDesk_ofAVersionThatDoesNotSignTakesEveryWebhookAndAnswersNone(t *testing.T) {
	desk := opened(t, `{"base_url":"https://chatwoot.example","account_id":3,"api_access_token":"token"}`)
	event, err := desk.Webhook(http.Header{}, []byte(created), time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.EventOpened, event.Type)
	assert.False(t, desk.Capabilities().Chatter.Verifies())
}

func TestKind_reportsMistakes(t *testing.T) {
	_, err := kind.Open([]byte(`{"base_url":"x","account":3}`), nil)
	assert.ErrorContains(t, err, "account: is not a known field")
	assert.ErrorContains(t, err, "base_url: must be")
	assert.ErrorContains(t, err, "must have account_id and api_access_token")
}

func TestService_linksASessionToAConversationOfChatwoot(t *testing.T) {
	product, key := liveactivity.NewProduct("acme")
	product.IntegrationConfig.Desks = map[string]json.RawMessage{
		"chatwoot": json.RawMessage(`{"base_url":"https://chatwoot.example","account_id":3,"api_access_token":"token","webhook_secret":"secret"}`),
	}
	service, err := liveactivity.New(&liveactivity.Options{
		Products: []liveactivity.Product{product}, Keys: []liveactivity.Key{key}, Desks: []helpdesk.Kind{kind}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	post := func(path, body string, header http.Header) string {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header = header
		w := httptest.NewRecorder()
		service.Handler().ServeHTTP(w, r)
		assert.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	post("/webhook/acme", `{"event":{"event":"$pageview","distinct_id":"user-7","properties":{"$session_id":"s1","$current_url":"https://acme.example/pricing"}},"person":{"properties":{"email":"jane@acme.example"}}}`,
		http.Header{"X-Posthog-Secret": {product.WebhookSecret}})
	assert.JSONEq(t, `{"status":"linked"}`, post("/chatbot-webhook/acme", created, sign("secret", created, time.Now())))
}

// The command checks the file's desk, which cannot be checked any further.
func TestCommand_knowsTheDesk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"products": [{"product_id": "acme", "webhook_secret": "x", "integration_config": {
		"chatwoot": {"base_url": "https://chatwoot.example", "account_id": 3, "api_access_token": "token"}}}]}`), 0o600))
	var stdout strings.Builder
	args := []string{"check", "--config", file}
	require.NoError(t, servercmd.Run(t.Context(), args, &stdout, io.Discard, &liveactivity.Options{Desks: []helpdesk.Kind{kind}}))
	assert.Equal(t, "product acme\n  chatwoot\n    ok       This kind of desk cannot be checked.\n", stdout.String())
	require.ErrorContains(t, servercmd.Run(t.Context(), args, &stdout, io.Discard, nil), "chatwoot: is not a known field")
}
