// Package segment takes page views, screens and identities from the SDKs and the webhook
// destinations of Segment, RudderStack and Jitsu, which send events of one family, and
// hands them on as activity events:
//
//	in, err := intake.New(sink, products, nil) // shared with other sources
//	h := segment.New(in)
//	mux.Handle("/segment/", h)
//
// Mount it under all of [Patterns]. SDKs send the capture token as their write key: in
// Basic authentication, in X-Write-Key, in the query or in the body.
//
// # From an event to an action
//
// page and screen make actions; identify and alias name the visitor of their session. The
// session_id that the site sends in properties or context names the session; without one
// it is the anonymousId, together with the context.sessionId if there is one. An event
// with only a userId goes to a session of that user. A track makes an action if the
// product lists its event; delete asks for the erasure of its user; group is ignored.
//
// Facts about the events come from captured traffic of analytics-next 1.84, analytics-js
// 3.34, @jitsu/js 1.11 and the SDKs for Node.js, kept in testdata.
package segment
