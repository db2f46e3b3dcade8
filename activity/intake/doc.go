// Package intake is the part that every source of events shares: the products and
// their credentials, bodies that are bounded and unpacked, the rules for pages
// of other origins, and the counts. A source, such as
// [github.com/liveactivity/liveactivity/activity/posthog], adds its paths, its
// form of events and its answers:
//
//	b, err := in.Receive(w, r)
//	if err != nil {
//		return err
//	}
//	defer b.Release()
//	text, err := b.JSON(r.Context()) // gunzipped, taken out of a form
//	productID, err := in.Product(tokenIn(text))
//	err = in.CheckOrigin(w, r, productID)
//	err = b.Admit(r.Context(), productID)
//	events := decode(text)
//	b.Decoded()
//	counts, err := in.Record(r.Context(), productID, events, ignored)
//
// The errors are answers: an [*github.com/liveactivity/liveactivity/internal/httpx.Error]
// with the status and the sentence for the client.
package intake
