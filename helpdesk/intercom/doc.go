// Package intercom writes to Intercom's conversations and reads its webhooks. It is
// liveactivity's help desk "intercom", and also works on its own:
//
//	client, err := intercom.New(intercom.Config{AccessToken: token, AdminID: "1234567"}, nil)
//	…
//	noteID, err := client.Note(ctx, conversationID, "Looked at the pricing page twice.\nOn the free plan.")
//
// # Writing
//
// [Client.Note] writes an internal note, [Client.Reply] a comment that the contact
// sees, and [Client.Offer] a quick reply. They take plain text, which is shown
// literally, with its line breaks. [Client.Redact] blanks a note and
// [Client.Remove] deletes a conversation.
//
// Notes go to the endpoint /conversations/{id}/parts. If that refuses them, they go
// to /conversations/{id}/reply, which Intercom's published API documents for notes;
// once that has worked, the client keeps using it.
//
// A failed request is a [*helpdesk.APIError], with Intercom's code, message and request
// ID. A request without an answer may still have taken effect, and Intercom has no
// idempotency keys: the error is then Ambiguous, and [Client.FindNote],
// [Client.FindReply] and [Client.FindOffer] look for the write. The client repeats no
// request. [Client.Pause] returns how long to wait because of the rate limit.
//
// # Reading
//
// [Verify] checks the signature of a webhook, and [Client.Webhook] checks and
// reads one:
//
//	event, err := client.Webhook(r.Header, body, time.Now())
//	switch {
//	case err != nil: // not signed with the app's client secret, or malformed
//	case event.Type == helpdesk.EventMessage:
//		log.Printf("%s wrote into %s: %s", event.Contact.Email, event.ConversationID, event.Message)
//	}
//
// Intercom requires a 200 within five seconds, and also for the HEAD request that
// it makes when the address is registered. It may deliver a notification twice;
// both then have the same DeliveryID.
//
// [Client.Check] describes in words whether the credentials work. Package
// helpdesktest has a fake Intercom for tests.
package intercom
