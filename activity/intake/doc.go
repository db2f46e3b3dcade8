// Package intake is the part that every source of events shares: the products and
// their credentials, bodies that are bounded and unpacked, the loop over events, whose
// word an identity is, the rules for pages of other origins, and the counts. An SDK's
// request is one call:
//
//	counts, err := in.Capture(w, r, source, intake.Call{})
//
// The errors are answers: an [*github.com/liveactivity/liveactivity/internal/httpx.Error]
// with the status and the sentence for the client.
//
// # Another source
//
// A source, such as [github.com/liveactivity/liveactivity/activity/posthog], is a package
// that knows one vendor and consists of three parts:
//
//   - a [Decoder], which reads an event by a table of [Fields] and tells its
//     meaning: an [activity.Event], or the reason for ignoring it. [UserID], [FirstEmail],
//     [NewAction], [ScreenURL] and [Meaning.Finish] have the rules that hold for all.
//   - the [Source] made of it by [NewSource], with the [Form] of the vendor's envelopes.
//     [Intake.Webhook] takes the vendor's webhooks by it.
//   - the paths that its SDKs call, each a [Route] that ends in [Intake.Capture], and the
//     answers they expect.
package intake
