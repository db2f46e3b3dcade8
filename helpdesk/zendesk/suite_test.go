package zendesk_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

func TestDesk(t *testing.T) {
	helpdesktest.TestDesk(t, func(t *testing.T) *helpdesktest.Account {
		fake := helpdesktest.NewZendesk(&helpdesktest.ZendeskOptions{InMemory: true, MayRedact: true})
		config := strings.Replace(string(fake.Config()), "{", `{"redact": true, `, 1)
		desk, err := zendesk.Kind.Open(json.RawMessage(config), &helpdesk.Options{HTTP: fake.Client()})
		require.NoError(t, err)
		const target, message = "https://live.example.com", "Where is \"it\"?"
		ticket, _ := fake.NewTicket(target, "jane@acme.example", message)
		wrote := fmt.Sprintf(`{"ticket_id": "%s", "requester_email": "jane@acme.example", "trigger_type": "user_reply", `+
			`"user_message": %q}`, ticket, message)
		return &helpdesktest.Account{
			Desk: desk, Server: fake.Server,
			Secrets:        []string{helpdesktest.ZendeskAPIToken, helpdesktest.ZendeskSigningSecret},
			ConversationID: ticket, Message: message,
			Notes:  func() []string { return fake.Notes(ticket) },
			Delete: func() { fake.DeleteTicket(ticket) },
			Opened: fmt.Appendf(nil, `{"ticket_id": "%s", "requester_email": "jane@acme.example", "trigger_type": "new_ticket"}`,
				ticket),
			Wrote: []byte(wrote),
			Sign:  func(body []byte) http.Header { return fake.Webhook(target, body).Header },
		}
	})
}
