// Package eventlog is the log that every accepted event is appended to, and
// the loop by which everything else reads it: the server-sent events of GET
// /stream/{product_id}, consumers in the same process, and views such as the
// live memory of package activity.
//
//	entries, err := memorylog.New(nil)
//	recorder, err := eventlog.NewRecorder(entries, nil) // the sink of a source
//	streams, err := eventlog.NewHandler(entries, nil)
//	mux.Handle("GET /stream/{product_id}", streams)
//
// A [Log] keeps the entries of each product in order, for some hours. An entry
// is one JSON object with an [ID]; the ID is the event id that clients resume
// from. A reader is a cursor, the ID it read last: after a reconnect, a slow
// spell or a restart of the server it reads on from its cursor. If entries
// after the cursor have been trimmed, the reader gets a gap, as it does where storage
// has lost them; a reader that had read what is lost goes on, and [Bounds] tells views
// of it. No reader can slow down a writer or another reader.
//
// State that must change atomically with an entry, such as the number of a
// session's actions, is a change of the log's documents (package
// [github.com/liveactivity/liveactivity/activity/document]) in the same
// append.
//
// # Engines
//
// [github.com/liveactivity/liveactivity/stream/eventlog/memorylog] needs no
// storage, and its log is gone when the process ends.
// [github.com/liveactivity/liveactivity/stream/eventlog/boltlog] keeps the log
// in a file of one process,
// [github.com/liveactivity/liveactivity/stream/eventlog/redislog] in a Redis
// shared by many processes. To write your own, begin at
// [github.com/liveactivity/liveactivity/stream/eventlog/engine]; [Entry.Own]
// and [Entry.Encode] are for engines only.
//
// # Recording
//
// A [Recorder] turns the events of a request into entries, one per session,
// and appends each event once, however often a client retries its request. An
// error means that the request must be retried unchanged; nothing is lost if
// it was recorded in part.
//
// # Following
//
// Everything that follows a log is one loop with a different function: wait
// for a change, read after the cursor, process, advance. [Handler] writes to a
// client, [Replay] restores an engine's memory, and a [Source] feeds a consumer in
// this process without HTTP:
//
//	source, err := eventlog.NewSource(entries, "acme")
//	consumer, err := stream.NewSourceConsumer(source, handlers, nil)
package eventlog
