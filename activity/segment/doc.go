// Package segment takes page views, screens and identities from the SDKs and the webhook
// destinations of Segment, RudderStack and Jitsu, which send events of one family, and
// hands them on as activity events:
//
//	in, err := intake.New(sink, products, nil) // shared with other sources
//	h := segment.New(in)
//	mux.Handle("/segment/", h)
//
// It is mounted under all of [Patterns]. SDKs have the capture token for a write key: in Basic
// authentication, in X-Write-Key, in the query or in the body.
//
// # From an event to an action
//
// page and screen make actions; identify and alias name the visitor of their session. The
// session_id that the site sends in properties or context names the session, or else the
// anonymousId, together with the context.sessionId where there is one. An event
// with a userId only goes to a session of that user. A track makes an action where the
// product lists its event; delete asks for the erasure of its user; group is ignored.
//
// Facts about the events come from captured traffic of analytics-next 1.84, analytics-js
// 3.34, @jitsu/js 1.11 and the SDKs for Node.js, kept in testdata.
package segment
