// Package bridge lets a chat widget know what the person in front of it just
// did: a page reports actions to it, and the widget asks it for a summary to
// introduce itself with.
//
//	b := bridge.New(nil) // 10,000 sessions of 30 actions, 4 hours
//	http.ListenAndServe("127.0.0.1:8070", b.Handler())
//
// The page reports each action, together with the vendor it is about:
//
//	POST /demo/actions
//	{"session_id": "s1", "title": "Click Approve vendor", "url": "https://portal.example/vendors/7",
//	 "vendor": {"id": "7", "name": "Acme Supplies", "status": "blocked", "missing_documents": ["W-9 form"]}}
//
// and is answered 202 {"status":"accepted","count":1}. The widget asks
//
//	GET /context/s1
//
// for a [Context]: the actions, the vendor reported last, and a summary such as
//
//	Hi! I can see you clicked Approve vendor. Acme Supplies is blocked: the W-9 form is missing.
//
// A client that prefers text/plain gets only that text. GET / serves a demo, a
// small vendor portal that contains such a widget.
//
// # Live streams
//
// [Bridge.Add] takes batches of the event stream into the same windows, so
// that the widget also knows of what PostHog saw, as long as page and PostHog
// use one session id. Give it to a stream consumer as its handler of actions.
//
// # Beside other endpoints
//
// [Bridge.Register] puts the endpoints on a mux that has others as well. The
// methods beginning with Serve are for those who mount them one by one.
//
// # What it does not do
//
// The bridge does not authenticate: anyone who knows a session id may read and
// write that session. Use ids that cannot be guessed. CORS headers go to the
// bridge's own origin and to those of [Options] only, which keeps pages of
// other origins from reading, not from reporting. Everything is in memory.
//
// A site cannot get round that by pointing its own name here (DNS rebinding): at
// a loopback address, reports and questions for a host that is neither this
// machine nor that of an allowed origin are answered 421.
package bridge
