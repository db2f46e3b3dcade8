// Package intake is the common part of all sources of events: credentials of products, reading and
// unpacking of bodies within bounds, the loop over events, standings of identities, rules for
// cross-origin pages, and counts. A source handles an SDK's request by one call:
//
//	counts, err := in.Capture(w, r, source, intake.Call{})
//
// Errors are responses, with the status and the message for the client. A [Route] writes them.
//
// # Another source
//
// A source, such as [github.com/liveactivity/liveactivity/activity/posthog], is a package for one
// vendor and consists of three parts:
//
//   - a [Decoder], which reads an event by the tags of its struct (see [Fields]) and returns its [Meaning]:
//     an [activity.Event], or a reason for ignoring it. [UnsharedID], [FirstEmail], [ScreenURL] and
//     [Meaning.Finish] implement the rules that all sources share.
//   - a [Source], made from the decoder by [NewSource], with the [Form] of the vendor's envelopes.
//     [Intake.Webhook] accepts the vendor's webhooks through it.
//   - the paths that its SDKs call, each a [Route] that ends in [Intake.Capture], and the responses
//     that they expect.
package intake
