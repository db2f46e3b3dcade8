// Package eventlog has the log that every accepted event is appended to, and the
// loop that everything else reads it with: the server-sent events of GET
// /stream/{product_id}, consumers in the same process, and views such as the live
// memory of package activity.
//
//	entries, err := memorylog.New(nil)
//	recorder, err := eventlog.NewRecorder(entries, nil) // the sink of a source
//	streams, err := eventlog.NewHandler(entries, nil)
//	mux.Handle("GET /stream/{product_id}", streams)
//
// A [Log] keeps the entries of each product in order, for some hours. An entry
// is one JSON object with an [ID]; the ID is the event id that clients resume
// from. A reader is a cursor, the ID it read last: it resumes there after a reconnect,
// a slow spell or a restart of the server. If entries after the cursor have been
// trimmed, or lost by the storage, the reader gets a gap. A reader that had already
// read the lost entries continues without one; views learn of the loss from [Bounds].
// No reader can slow down a writer or another reader.
//
// State that must change atomically with an entry, such as the number of a
// session's actions, is kept in the log's documents (package
// [github.com/liveactivity/liveactivity/activity/document]), which the same append
// changes.
//
// # Engines
//
// [github.com/liveactivity/liveactivity/stream/eventlog/memorylog] needs no
// storage, and its log is gone when the process ends.
// [github.com/liveactivity/liveactivity/stream/eventlog/boltlog] keeps the log
// in a file of one process,
// [github.com/liveactivity/liveactivity/stream/eventlog/redislog] in a Redis
// shared by many processes. To write your own, start with
// [github.com/liveactivity/liveactivity/stream/eventlog/engine]; [Entry.Own] and
// [Entry.Encode] are for engines only.
//
// # Recording
//
// A [Recorder] turns the events of a request into entries, one per session,
// and appends each event once, however often a client retries its request. After an
// error, retry the request unchanged: nothing is lost or duplicated if part of it
// was recorded.
//
// # Following
//
// Everything that follows a log runs the same loop with a function of its own: wait
// for a change, read after the cursor, process, advance. [Handler] writes to a
// client, and a [Source] feeds a consumer in this process without HTTP:
//
//	source, err := eventlog.NewSource(entries, "acme")
//	consumer, err := stream.NewSourceConsumer(source, handlers, nil)
package eventlog
