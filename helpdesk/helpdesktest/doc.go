// Package helpdesktest provides fake help desks for tests of programs that write to them
// or receive their webhooks. They check requests as the vendors do, keep every note and
// reply, and fail on demand.
//
//	desk := helpdesktest.NewZendesk(nil)
//	defer desk.Close()
//	client, err := zendesk.New(zendesk.Config{BaseURL: desk.URL(), …}, nil)
//
//	ticket, webhook := desk.NewTicket(server.URL+"/chatbot-webhook/acme", "jane@acme.example", "Help!")
//	response, err := http.DefaultClient.Do(webhook) // signed
//	notes := desk.Comments(ticket)
//
// Use [NewIntercom] in the same way: [Intercom.Created] begins a conversation and
// returns its webhook.
//
// [Server.Fail] causes the failures that are worth a test:
//
//   - an outage: a [Fault] with Status 503, and [Server.Heal] after it
//   - a limit: Status 429 and RetryAfter, or the desk's own limits in its options
//   - a collision: Status 409 and Times 1
//   - an answer that is lost after the write: Lose
//   - an answer that comes too late: Delay longer than the client waits
//   - no connection: Refuse
//
// Waits of minutes take no time in a testing/synctest bubble: set InMemory, and
// give the desk's Client to the client under test.
//
// # A desk of your own
//
// [TestDesk] tests everything that the service requires of your [helpdesk.Desk]. Write a fake of
// the vendor's API as an http.Handler, and serve it with [NewServer]:
//
//	func TestDesk(t *testing.T) {
//		helpdesktest.TestDesk(t, func(t *testing.T) *helpdesktest.Account {
//			fake := newFake() // a handler that keeps the notes
//			server := helpdesktest.NewServer(fake, &helpdesktest.ServerOptions{InMemory: true})
//			desk, err := Kind.Open(config(server.URL()), &helpdesk.Options{HTTP: server.Client()})
//			…
//			return &helpdesktest.Account{Desk: desk, Server: server, ConversationID: "7", …}
//		})
//	}
//
// The test of examples/chatwoot is a complete example.
package helpdesktest
