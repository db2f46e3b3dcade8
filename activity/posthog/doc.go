// Package posthog takes page views, clicks, form submits and changed fields
// from PostHog and hands them on as activity events.
//
// PostHog's webhook destinations post to [intake.Intake.Webhook], which asks for
// the product's secret. posthog-js and PostHog's server SDKs, with their host
// pointed here instead of at PostHog, post to [Handler.ServeSDK]. It identifies
// the product by the capture token, and also answers the other calls
// that posthog-js needs to run cleanly:
//
//	in, err := intake.New(sink, products, nil) // shared with other sources
//	mux.Handle("POST /webhook/{product_id}", in.Webhook(posthog.Source))
//	mux.HandleFunc("/", posthog.New(in).ServeSDK) // or for the paths of [IsSDKPath]
//
// The package understands every body that a PostHog SDK or destination is known to
// send: one event, an array, {"batch": […]}, {"event": {…}, "person": {…}} and the
// flat fields of a custom destination; plain, gzipped or in base64 form encoding.
// It tells them apart by their content. Facts about them come from captured
// traffic of posthog-js 1.297 to 1.434 and posthog-node 5, kept in testdata, and
// from https://posthog.com/docs/api/capture.
//
// # From an event to an action
//
// $pageview, $screen and $autocapture make actions, and so do other events that
// the product lists. $identify, $set and $create_alias, and any event with an
// email address, update the identity of their session. Every other event is
// ignored, and so is one that is malformed, older than the retention, or of
// another product; the rest of the request is kept.
//
// Typed text never leaves this package: the text and the value of inputs,
// text areas, drop-downs and editable elements are not read.
package posthog
