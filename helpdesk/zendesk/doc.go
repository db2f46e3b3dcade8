// Package zendesk writes internal notes and public replies into Zendesk's tickets and reads
// their webhooks. It is liveactivity's help desk "zendesk", and also works on its own.
//
// # Notes and replies
//
//	client, err := zendesk.New(zendesk.Config{
//		BaseURL: "https://acme.zendesk.com",
//		Email:   "bot@acme.example", APIToken: token,
//	}, nil)
//	id, err := client.Note(ctx, "4711", "Seen on the pricing page.\nTwice.")
//
// The text is plain: line breaks are kept, and markup or {{placeholders}} in it have
// no effect. Zendesk is about to retire API tokens; an OAuth client with
// OAuthClientID and OAuthClientSecret will keep working, and gets its own tokens.
//
// The client repeats no request. Its errors are [*helpdesk.APIError] and determine the
// next step: a Temporary one may be repeated after its Wait. If it is Ambiguous, look for
// the comment first, with [Client.FindNote] or [Client.FindReply]. [Client.Pause]
// returns how long to wait so as to hit no rate limit: the account's, or a ticket's
// 30 updates in ten minutes.
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
// [*helpdesk.PayloadError]. For webhooks with a custom body use [Verify], and [Sign] in
// their tests.
//
// Zendesk repeats a call that is answered with 409, or with 429 or 503 and Retry-After;
// event.DeliveryID stays the same.
//
// # Tests
//
// Package helpdesktest has a fake Zendesk to point a client at. It can also send
// webhooks.
package zendesk
