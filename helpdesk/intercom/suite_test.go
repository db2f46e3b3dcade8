package intercom_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
)

func TestDesk(t *testing.T) {
	for name, opts := range map[string]helpdesktest.IntercomOptions{
		"HTML": {}, "plain text": {PlainText: true, SHA256: true},
	} {
		t.Run(name, func(t *testing.T) {
			helpdesktest.TestDesk(t, func(t *testing.T) *helpdesktest.Account {
				opts := opts
				opts.InMemory = true
				fake := helpdesktest.NewIntercom(&opts)
				desk, err := intercom.Kind.Open(fake.Config(), &helpdesk.Options{HTTP: fake.Client()})
				require.NoError(t, err)
				const target, message = "https://live.example.com", "Where is \"it\"?"
				jane := helpdesktest.IntercomContact{Email: "jane@acme.example"}
				conversation, opened := fake.Created(target, jane, "Hello")
				wrote := fake.Replied(target, conversation, message)
				return &helpdesktest.Account{
					Desk: desk, Server: fake.Server,
					Secrets:        []string{helpdesktest.IntercomAccessToken, helpdesktest.IntercomClientSecret},
					ConversationID: conversation, Message: message,
					Notes:  func() []string { return fake.Notes(conversation) },
					Write:  func(message string) { fake.Replied(target, conversation, message) },
					Delete: func() { fake.DeleteConversation(conversation) },
					Opened: bodyOf(t, opened), Wrote: bodyOf(t, wrote),
					Sign: func(body []byte) http.Header { return fake.Webhook(target, body).Header },
				}
			})
		})
	}
}

func bodyOf(t *testing.T, r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return body
}
