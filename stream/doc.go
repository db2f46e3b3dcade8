// Package stream is the log that everything a service accepts goes into, and
// what reads it: the server-sent events of GET /stream/{product_id}, and views
// such as the live memory of package activity.
//
//	entries := stream.NewMemoryLog(stream.Retention{})
//	recorder := stream.NewRecorder(entries, store, nil) // what a source hands its events to
//	mux.Handle("GET /stream/{product_id}", stream.NewHandler(entries, nil))
//
// A [Log] keeps the entries of each product in order, for some hours. An entry
// is one JSON object with an [ID]; the ID is the event id that clients resume
// by. Reading is a cursor, the ID read last: a reader that reconnects, one that
// is slow and a server that starts again all do the same, they read on from
// where they were. When that is not retained any more they are told so by a
// gap. No reader can slow a writer or another reader.
//
// What belongs to an entry and must happen with it or not at all, such as the
// count of a session's actions, is a change of the log's documents (package
// [github.com/liveactivity/liveactivity/activity/document]) in the same append.
//
// # Engines
//
// [MemoryLog] needs nothing and forgets everything when the process ends.
// [github.com/liveactivity/liveactivity/stream/boltlog] keeps the log in a file
// of one process, [github.com/liveactivity/liveactivity/stream/redislog] in a
// Redis that many processes share. Each passes the suite in
// [github.com/liveactivity/liveactivity/stream/streamtest]; an engine of your
// own is one more.
//
// # Recording
//
// A [Recorder] turns the events of a request into entries, one per session,
// and appends them once however often a client repeats its request: an error
// means that the request must be sent again, unchanged, and never that it was
// taken in part for good. Over a log that lasts, [Replay] fills the store in
// memory when a process starts.
//
// # Consuming
//
// A [Consumer] reads the stream of a service from another process. It
// reconnects for ever, resumes after what it has, and calls handlers with what
// comes: in order within a session, sessions side by side.
//
//	consumer, err := stream.NewConsumer("https://live.example.com/stream/acme", key,
//		stream.Handlers{Actions: writer.Add}, nil)
//	err = consumer.Run(ctx) // until ctx ends, or the service refuses the key
//
// A [Writer] between the consumer and what is written to, a help desk say or
// an agent's context, merges what comes in a burst, repeats what fails and
// holds back what has no conversation yet. A [Summarizer] puts one summary in
// the place of what was written, each time a session has done enough:
//
//	summarizer := stream.NewSummarizer(replaceNotes, &stream.SummarizerOptions{Model: askModel})
//	writer := stream.NewWriter(writeNote, &stream.WriterOptions{Debounce: 3 * time.Second, Summarizer: summarizer})
//	err = writer.Run(ctx) // beside the consumer
//
// Package [github.com/liveactivity/liveactivity/stream/streamtest] has a fake
// service for the unit tests of what is built on these.
package stream
