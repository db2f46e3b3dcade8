// Package bridge tells a chat widget about a visitor's latest actions: a page reports
// actions to it, and the widget introduces itself with a summary of them.
//
//	b, err := bridge.New(nil) // 10,000 sessions of 30 actions, 4 hours
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe("127.0.0.1:8070", b.Handler())
//
// The page reports each action, together with the vendor that it concerns:
//
//	POST /demo/actions
//	{"session_id": "s1", "title": "Click Approve vendor", "url": "https://portal.example/vendors/7",
//	 "vendor": {"id": "7", "name": "Acme Supplies", "status": "blocked", "missing_documents": ["W-9 form"]}}
//
// and is answered 202 {"status":"accepted","count":1}. The widget asks
//
//	GET /context/s1
//
// for a [Context]: the actions, the latest vendor reported, and a summary such
// as
//
//	Hi! I can see you clicked Approve vendor. Acme Supplies is blocked. Missing documents: W-9 form.
//
// A client that prefers text/plain gets only that text. GET / serves a demo, a
// small vendor portal that contains such a widget.
//
// # Live streams
//
// [Bridge.Add] adds batches of the event stream to the same windows, so the
// widget also knows the actions that PostHog reported, if the page and PostHog
// use the same session ID. Pass it to a stream consumer as its handler for
// actions, and [Bridge.Erase] as its handler for erasures.
//
// # Beside other endpoints
//
// [Bridge.Register] adds the endpoints to a mux that has other endpoints.
//
// # Security
//
// The bridge does not authenticate: anyone with a session ID may read and write
// that session, so use IDs that cannot be guessed. CORS headers go only to the
// bridge's own origin and to the origins in [Options]: pages of other origins
// may report, but cannot read. Everything is in memory.
//
// DNS rebinding cannot circumvent that: at a loopback address, requests for any
// host except this machine's and the allowed origins' get a 421.
package bridge
