// Package zendesk writes internal notes and public replies into Zendesk's tickets and reads
// their webhooks. It is the help desk "zendesk" of liveactivity, and useful alone.
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
// Errors are [*helpdesk.APIError]. With Retries the client repeats harmless
// requests, not before Zendesk's Retry-After, and looks for a comment whose answer
// was lost before it writes it again. Without, the errors tell the next step, and
// [Client.FindNote] and [Client.FindReply] look. [Client.Pause] says how long to wait
// to hit no rate limit: the account's, or the 30 updates of a ticket in ten minutes.
//
// # Webhooks
//
// [Client.Provision] sets up Zendesk: it creates webhooks and triggers that report new
// tickets and their requesters' replies, and returns the secrets that sign the
// webhooks. In the handler of such a webhook,
//
//	event, err := client.Webhook(r.Header, body, time.Now())
//
// verifies the signature and reads the event; the errors are helpdesk.ErrSignature and
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
