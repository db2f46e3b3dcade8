// Package intercom writes into Intercom's conversations and reads its webhooks. It is the
// help desk "intercom" of liveactivity, and useful alone:
//
//	client, err := intercom.New(intercom.Config{AccessToken: token, AdminID: "1234567"}, &helpdesk.Options{Retries: 5})
//	…
//	noteID, err := client.Note(ctx, conversationID, "Looked at the pricing page twice.\nOn the free plan.")
//
// # Writing
//
// [Client.Note] writes an internal note, [Client.Reply] a comment that the contact
// sees, [Client.Offer] a quick reply. They take plain text, which is shown as it
// stands, line by line, whatever it holds. [Client.Redact] blanks a note and
// [Client.Remove] deletes a conversation.
//
// Notes go to the endpoint /conversations/{id}/parts. Where that refuses them, they
// go to /conversations/{id}/reply, as Intercom's published API documents for notes; a
// client that has seen this once stays with it.
//
// A failed request is a [*helpdesk.APIError], with Intercom's code, message and
// request id. A request that was not answered may still have written, and Intercom
// has no idempotency keys: with Retries the client looks for its write before it
// repeats it. Without, the error says so, and [Client.FindNote], [Client.FindReply]
// and [Client.FindOffer] look. [Client.Pause] says how long to wait because of the rate
// limit.
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
// Intercom asks for an answer with status 200 within five seconds, and for one to a
// HEAD request when the address is registered. It may deliver a notification twice;
// its DeliveryID is then the same.
//
// [Client.Check] says in words whether the credentials work. Package helpdesktest
// has a fake Intercom for tests.
package intercom
