// Package amplitude takes page views, clicks, changed fields, form submits and identities
// from Amplitude's SDKs and hands them on as activity events:
//
//	in, err := intake.New(sink, products, nil) // shared with other sources
//	h := amplitude.New(in)
//	mux.Handle("/amplitude/", h)
//
// Mount it under all of [Patterns]. SDKs send the capture token as their API key.
//
// # From an event to an action
//
// The events of autocapture make actions: page views, clicks, changes and submits. Rage
// clicks, dead clicks and custom events make actions if the product lists them. $identify
// names the visitor of its session. Every other event is ignored. The device_id and the
// session_id together name a session; an event with only a user_id goes to a session of
// that user. Labels follow the rules of package element: the text of an input is never
// read.
//
// Facts about the events come from captured traffic of analytics-browser 2.48 and
// analytics-node 1.5, kept in testdata.
package amplitude
