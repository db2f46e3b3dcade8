// Package liveactivity shows AI agents and help desks where a user is in an app, and the user's
// latest actions. It receives page views, clicks and form submits from PostHog, keeps the last 50
// of every user for 4 hours, and serves them by REST, by MCP, as a stream of server-sent events, as
// notes in help-desk conversations, and as proactive quick replies.
//
// A [Service] is the whole service:
//
//	product, key := liveactivity.NewProduct("acme")
//	service, err := liveactivity.New(&liveactivity.Options{
//		Products: []liveactivity.Product{product},
//		Keys:     []liveactivity.Key{key},
//	})
//	if err != nil {
//		return err
//	}
//	listener, err := net.Listen("tcp", ":8080")
//	if err != nil {
//		return err
//	}
//	return service.Serve(ctx, listener)
//
// The command liveactivity-server adds flags to this. The handler can also be mounted at "/" beside a
// program's own pages, which call [Service.LiveActivity] to show a user's recent actions.
//
// # Stopping
//
// [Service.Serve] owns the listener. When its context ends, it finishes the requests in flight, sends
// every stream the rest of the log, and returns. A program with its own http.Server first calls
// [Service.Stopping], then Shutdown of the server while the log is still open, and then ends the
// context of [Service.Run].
//
// # One log, and views of it
//
// An accepted request is one append to a product's log. Every stream and every [View] reads the log
// with a cursor of its own. The ID of an entry is the event ID by which a reader resumes, so
// reconnects, slow readers and restarts are handled by one mechanism.
//
// An engine stores the log: in memory by default
// ([github.com/liveactivity/liveactivity/stream/eventlog/memorylog]), in a file
// ([github.com/liveactivity/liveactivity/stream/eventlog/boltlog]), or in a Redis shared by several
// services ([github.com/liveactivity/liveactivity/stream/eventlog/redislog]). The caller opens the
// last two, so this package links neither:
//
//	entries, err := boltlog.Open("/var/lib/acme", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	service, err := liveactivity.New(&liveactivity.Options{Log: entries})
//
// When the service starts on an existing log, lookups wait and /readyz answers 503 until it has
// caught up.
//
// State that outlives the log, such as the user of a session or the registered products, is stored in
// small documents with a time to live. They are changed by compare-and-set, atomically with the
// append that they belong to.
//
// # Extensions
//
// A source of your own passes its events to [Service.Record]. A [View] follows the log of each product,
// in this process and without HTTP. A help desk of your own is a helpdesk.Kind in Options.Desks, and
// a trigger for proactive quick replies is a proactive.Trigger in Options.Triggers.
//
// # Packages
//
//	activity            actions, batches and events; canonical URLs
//	activity/recent     the newest actions of every user, and their REST handler
//	activity/directory  the user, the email address and the link of every session
//	activity/intake     the common part of all sources: credentials, bodies, bounds and standings
//	activity/posthog    PostHog's webhooks and SDK calls → actions
//	activity/amplitude  calls of Amplitude's SDKs → actions
//	activity/segment    calls of Segment's, RudderStack's and Jitsu's SDKs → actions
//	activity/flat       webhooks in a format that a product describes → actions
//	activity/mcptool    the MCP server over a store
//	activity/agent      a person's context for an AI agent
//	activity/access     keys, and the products that they may read
//	activity/access/oauth  sign-in for MCP clients without a key
//	activity/sessions   the live sessions: a view of the log
//	activity/tracing    the steps of actions through the service, and their counts
//	activity/otlp       exports traces and metrics by OTLP, for OpenTelemetry
//	activity/document   small documents changed by compare-and-set, and leases
//	activity/feed       the log's entries as their readers get them
//	stream              for consumers of the stream: consumer, writer, summarizer
//	stream/streammetrics  their counts as Prometheus metrics
//	stream/eventlog     the log, its follower, its server-sent-events handler, the recorder
//	stream/eventlog/engine  for authors of an engine of their own
//	helpdesk            the interfaces of a help desk: notes, replies, webhooks
//	helpdesk/connector  links sessions to conversations, and delivers notes and replies
//	helpdesk/zendesk    a Zendesk client, which can be used on its own
//	helpdesk/intercom   an Intercom client, likewise
//	proactive           triggers of proactive quick replies, and their configuration
//	retriever           recent actions as records for chatbot platforms such as Dify
//	bridge              recent actions as a chat widget's introduction, with a page to try it
//	activity/option     the error type of every constructor
//	cmd                 the service, the retriever and the bridge as commands
//	examples            one idea each, for copying
//
// Packages beside these, with "test" at the end of the name, have fakes for tests, and conformance
// suites for stores, logs and desks of your own.
//
// Commands and examples import this package, which imports stream/eventlog, which imports activity.
// No package imports upward; a test checks that.
package liveactivity
