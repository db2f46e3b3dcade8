package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
)

// fakeChatwoot keeps the messages of conversation 7 of account 3.
type fakeChatwoot struct {
	*helpdesktest.Server
	mu       sync.Mutex
	messages []map[string]any
	deleted  bool
}

func newFakeChatwoot() *fakeChatwoot {
	fake := &fakeChatwoot{}
	fake.messages = []map[string]any{{"id": 100, "content": "Hello?", "message_type": 0, "private": false,
		"created_at": time.Now().Unix()}}
	fake.Server = helpdesktest.NewServer(http.HandlerFunc(fake.serve),
		&helpdesktest.ServerOptions{InMemory: true, Name: "chatwoot"})
	return fake
}

func (c *fakeChatwoot) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Header.Get("api_access_token") != "token":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path != "/api/v1/accounts/3/conversations/7/messages" || c.deleted:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"Resource could not be found"}`))
	case r.Method == http.MethodPost:
		var m map[string]any
		if json.NewDecoder(r.Body).Decode(&m) != nil || m["message_type"] != "outgoing" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		m["id"], m["message_type"], m["created_at"] = 100+len(c.messages), 1, time.Now().Unix()
		c.messages = append(c.messages, m)
		_ = json.NewEncoder(w).Encode(m)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"payload": c.messages})
	}
}

// notes returns the notes as agents see them: as Markdown.
func (c *fakeChatwoot) notes() (texts []string) {
	for _, m := range c.messages {
		if m["private"] == true {
			texts = append(texts, escaped.ReplaceAllString(m["content"].(string), "$1"))
		}
	}
	return texts
}

var escaped = regexp.MustCompile(`\\(.)`)

const signing = `{"base_url":"https://chatwoot.test","account_id":3,"api_access_token":"token",` +
	`"webhook_secret":"secret"}`

func TestDesk(t *testing.T) {
	helpdesktest.TestDesk(t, func(t *testing.T) *helpdesktest.Account {
		fake := newFakeChatwoot()
		desk, err := kind.Open([]byte(signing), &helpdesk.Options{HTTP: fake.Client()})
		require.NoError(t, err)
		return &helpdesktest.Account{
			Desk: desk, Server: fake.Server, Secrets: []string{"token", "secret"}, ConversationID: "7", Message: "Hello?",
			Notes: fake.notes, Delete: func() { fake.deleted = true },
			Opened: []byte(created), Wrote: []byte(wrote),
			Sign: func(body []byte) http.Header { return sign("secret", string(body), time.Now()) },
		}
	})
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

// webhook returns a desk's reading of a webhook that was signed at this time.
func webhook(desk helpdesk.Desk, secret, body string, at time.Time) (helpdesk.Event, error) {
	return desk.Webhook(sign(secret, body, at), []byte(body), time.Now())
}

const (
	created = `{"event":"conversation_created","id":7,"meta":{"sender":{"id":1,"email":"jane@acme.example",` +
		`"identifier":"user-7"}}}`
	wrote = `{"event":"message_created","id":100,"content":"Hello?","message_type":"incoming",` +
		`"sender":{"email":null},"conversation":{"id":7}}`
)

func TestDesk_readsSignedWebhooks(t *testing.T) {
	desk := opened(t, signing)
	event, err := webhook(desk, "secret", created, time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.Event{Type: helpdesk.EventOpened, DeliveryID: "d1", ConversationID: "7",
		Contact: helpdesk.Contact{Email: "jane@acme.example", UserID: "user-7"}}, event)
	event, err = webhook(desk, "secret", `{"event":"message_created","message_type":"outgoing"}`, time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.EventIgnored, event.Type)
	_, err = webhook(desk, "other", created, time.Now())
	require.ErrorIs(t, err, helpdesk.ErrSignature)
	_, err = webhook(desk, "secret", created, time.Now().Add(-time.Hour))
	require.ErrorIs(t, err, helpdesk.ErrSignature)
}

func TestDesk_ofAVersionThatDoesNotSignTakesEveryWebhookAndAnswersNone(t *testing.T) {
	desk := opened(t, `{"base_url":"https://chatwoot.example","account_id":3,"api_access_token":"token"}`)
	event, err := desk.Webhook(http.Header{}, []byte(created), time.Now())
	require.NoError(t, err)
	assert.Equal(t, helpdesk.EventOpened, event.Type)
	assert.Empty(t, desk.Capabilities().SignedBy)
}

func TestKind_reportsMistakes(t *testing.T) {
	_, err := kind.Open([]byte(`{"base_url":"x","account":3}`), nil)
	assert.ErrorContains(t, err, "account: is not a known field")
	assert.ErrorContains(t, err, "base_url: must be")
	assert.ErrorContains(t, err, "must have account_id and api_access_token")
}

// The command loads the file's desk, which it cannot check any further.
func TestCommand_knowsTheDesk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"products": [
		{"product_id": "acme", "webhook_secret": "x", "integration_config": {
			"chatwoot": {"base_url": "https://chatwoot.example", "account_id": 3, "api_access_token": "token"}}}]}`), 0o600))
	var stdout strings.Builder
	args := []string{"check", "--config", file}
	require.NoError(t, servercmd.Run(t.Context(), args, &stdout, io.Discard,
		&liveactivity.Options{Desks: []helpdesk.Kind{kind}}))
	assert.Equal(t, "product acme\n  chatwoot\n    ok       This kind of desk cannot be checked.\n", stdout.String())
	require.ErrorContains(t, servercmd.Run(t.Context(), args, &stdout, io.Discard, nil), "chatwoot: is not a known field")
}
