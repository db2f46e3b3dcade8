// Package helpdesktest has fake help desks for tests of what writes to them and of
// what takes their webhooks. They check requests as the vendors do, keep what was
// written, and fail on demand.
//
//	desk := helpdesktest.NewZendesk(nil)
//	defer desk.Close()
//	client, err := zendesk.New(zendesk.Config{BaseURL: desk.URL(), …}, nil)
//
//	ticket, webhook := desk.NewTicket(server.URL+"/chatbot-webhook/acme", "jane@acme.example", "Help!")
//	response, err := http.DefaultClient.Do(webhook) // signed
//	notes := desk.Comments(ticket)
//
// [NewIntercom] is used alike: [Intercom.Created] begins a conversation and makes its
// webhook.
//
// What to test, and how, with [Server.Fail]:
//
//   - an outage: a [Fault] with Status 503, and [Server.Heal] after it
//   - a limit: Status 429 and RetryAfter, or the desk's own limits in its options
//   - a collision: Status 409 and Times 1
//   - an answer that is lost after the write: Lose
//   - an answer that comes too late: Delay longer than the client waits
//   - no connection: Refuse
//
// Waits of minutes take no time in a testing/synctest bubble: set InMemory, and
// give the client the desk's Client.
package helpdesktest
