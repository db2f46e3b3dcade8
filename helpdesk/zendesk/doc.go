// Package zendesk is a client of Zendesk for what a service does in tickets:
// internal notes, public replies, and webhooks that say what happened. It is
// liveactivity's desk of this name, and useful alone.
//
// # Notes and replies
//
//	client, err := zendesk.New(zendesk.Config{
//		BaseURL: "https://acme.zendesk.com",
//		Email:   "bot@acme.example", APIToken: token,
//	}, &helpdesk.Options{Retries: 5})
//	id, err := client.Note(ctx, "4711", "Seen on the pricing page.\nTwice.")
//
// The text is plain: its lines stay lines, and markup or {{placeholders}} in it mean
// nothing. Zendesk is about to end API tokens; an OAuth client with OAuthClientID and
// OAuthClientSecret lasts, and gets its own tokens.
//
// Errors are [*helpdesk.APIError]. With Retries the client repeats what may be
// repeated, not before Zendesk's Retry-After, and looks for a comment whose answer
// was lost before it writes it again. Without, the errors say what to do, and
// [Client.FindNote] and [Client.FindReply] look. [Client.Pause] says how long to wait
// so that no rate limit is hit: that of the account, and that of 30 updates of a ticket
// in ten minutes.
//
// # Webhooks
//
// [Client.Provision] sets up Zendesk: it creates webhooks and triggers that report new
// tickets and what their requesters write, and returns the secrets that the
// webhooks are signed with. In the handler of such a webhook,
//
//	event, err := client.Webhook(r.Header, body, time.Now())
//
// verifies the signature and says what happened; the errors are helpdesk.ErrSignature and
// [*helpdesk.PayloadError]. For webhooks with a body of your own there is [Verify], and for
// their tests [Sign].
//
// Zendesk calls a webhook again when the answer is 409, or 429 or 503 with Retry-After;
// event.DeliveryID stays the same.
//
// # Tests
//
// Package helpdesktest has a fake Zendesk to point a client at. It also makes the
// requests of the webhooks.
package zendesk
