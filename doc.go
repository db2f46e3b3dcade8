// Package liveactivity shows AI agents and help desks where a user is in an app,
// and the user's last actions. It takes page views, clicks and form submits
// from PostHog, keeps the last 50 of every user for 4 hours, and hands them over
// by REST, by MCP, as a stream of server-sent events, as notes in help-desk
// conversations, and as proactive quick replies.
//
// The whole service is one value:
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
// The command liveactivity-server is this with flags. The handler can be mounted
// at "/" beside a program's own pages, which call [Service.LiveActivity] to show a
// user's recent actions.
//
// GET /flow/{product_id} returns the figures of a product's last hour, minute by
// minute, and its outstanding deliveries, summed over all services on one log.
//
// # Stopping
//
// [Service.Serve] owns the listener: when its context ends it finishes the requests in
// flight, sends every stream the rest of the log, and returns. A program that has its
// own http.Server calls [Service.Stopping], then Shutdown of the server, so that
// requests in flight still find the log open, and then ends the context of
// [Service.Run].
//
// # One log, and views of it
//
// A request that is accepted is one append to a product's log. Everything else
// reads the log with its own cursor: the store of recent activity, every
// reader of the stream, and every [View]. The id of an entry is the event id that
// a reader resumes by, so a reconnect, a slow reader and a restart are one
// mechanism.
//
// Where the log is kept is the choice of an engine: memory by default
// ([github.com/liveactivity/liveactivity/stream/eventlog/memorylog]), a file
// ([github.com/liveactivity/liveactivity/stream/eventlog/boltlog]), or a Redis
// that many services share ([github.com/liveactivity/liveactivity/stream/eventlog/redislog]).
// The last two are passed in, so that this package links neither.
//
//	entries, err := boltlog.Open("/var/lib/acme", nil)
//	if err != nil {
//		return err
//	}
//	defer entries.Release()
//	service, err := liveactivity.New(&liveactivity.Options{Log: entries})
//
// When the service starts on a log that holds something, lookups wait until it
// has caught up, and /readyz answers 503; [Service.Progress] says how far it is.
//
// State that outlives the log, such as the owner of a session or
// which products are registered, is a small document with a time to live, changed
// by compare-and-set, together with an append where it belongs to one.
//
// # Slots
//
// A source of one's own hands its events to [Service.Record]. A view follows
// the log of each product, in this process and without HTTP. A help desk of one's
// own is a helpdesk.Kind in Options.Desks, and a trigger for proactive quick replies
// a proactive.Trigger in Options.Triggers.
//
// # The parts
//
//	activity            actions, batches and events; canonical URLs
//	activity/recent     the newest actions of every user, and their REST handler
//	activity/directory  the user, the address and the link of every session
//	activity/posthog    PostHog's webhooks and SDK calls → actions
//	activity/amplitude  calls of Amplitude's SDKs → actions
//	activity/segment    calls of Segment's, RudderStack's and Jitsu's SDKs → actions
//	activity/flat       webhooks whose form a product describes → actions
//	activity/mcptool    the MCP server over a store
//	activity/access     keys: who may read which product
//	activity/access/oauth  signs in MCP clients that cannot be given a key
//	activity/sessions   who is there now: a view of the log
//	activity/tracing    the steps of actions on their way
//	activity/otlp       exports traces and metrics by OTLP, for OpenTelemetry
//	activity/document   small documents changed by compare-and-set, and leases
//	stream              the consumer's side: consumer, writer, summarizer
//	stream/eventlog     the log, the loop that follows it, its server-sent-events handler, the recorder
//	helpdesk            the interfaces of a help desk: notes, replies, webhooks
//	helpdesk/connector  links sessions to conversations, and keeps notes and replies coming
//	helpdesk/zendesk    Zendesk; a client that can be used alone
//	helpdesk/intercom   Intercom, likewise
//	proactive           triggers: the moments to offer a quick reply, and their configuration
//	retriever           recent actions as records for chatbot platforms such as Dify
//	bridge              recent actions as the introduction of a chat widget, with a page to try it in
//	activity/option     the error of every constructor: a wrong argument or option
//	cmd                 the service, the retriever and the bridge as commands
//	examples            one idea each, to copy from
//
// Each interface has its conformance suite in a package beside it, named after it
// with "test" at the end.
//
// Commands and examples import this package, it imports stream/eventlog, that
// imports activity, and activity imports nothing above it; a test keeps it so.
package liveactivity
