// Package liveactivity is the root of a module that tells AI agents and help
// desks where a user is in an app and what the user just did.
//
// It takes page views, clicks and form submits from PostHog, keeps the last 50
// of every user for 4 hours, and hands them over by REST, by MCP and as a
// stream of server-sent events. This package holds nothing; the module is made
// of
//
//	activity            actions, canonical URLs, the store of recent activity, its REST handler
//	activity/posthog    PostHog's webhooks and SDK calls → actions
//	activity/mcptool    the MCP server over a store
//	activity/access     keys: who may read which product
//	activity/document   small documents changed by compare-and-set, and leases
//	activity/activitytest  the conformance suite for stores
//	activity/document/documenttest  the conformance suite for document stores
//	stream              the log, its server-sent-events handler, the recorder that feeds both views;
//	                    the consumer of a stream, the writer and the summarizer behind it
//	stream/boltlog      the log and documents of one process, in a file
//	stream/redislog     the log, documents and activity of many processes, in Redis
//	stream/streamtest   the conformance suite for logs, and a fake stream server for consumers' tests
//	retriever           what users did as records that chatbot platforms such as Dify retrieve
//	bridge              what a person did as the introduction of a chat widget, with a page to try it in
//	cmd/liveactivity-server     the service in one binary
//	cmd/liveactivity-retriever  the retriever over the stream of a service
//	cmd/liveactivity-bridge     the bridge, alone or over the stream of a service
//	examples            one idea each, to copy from
//
// # One log, and views of it
//
// A request that is accepted is one append to a product's log. Everything else
// reads the log with a cursor of its own: the memory of recent activity, and
// every reader of the stream. The id of an entry is the event id that a reader
// resumes by, so a reconnect, a slow reader and a restart are one mechanism.
//
// What must be remembered beyond the log, such as whom a session belongs to or
// which products are registered, is a small document with a time to live,
// changed by compare-and-set, together with an append where it belongs to one.
//
// # Who imports whom
//
// cmd and examples import retriever and bridge, these import stream, stream
// imports activity, and activity nothing above it; a test keeps it so. Engines that need a storage system live beside the
// interface they implement, so that importing activity or stream alone pulls in
// none.
package liveactivity
