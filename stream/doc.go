// Package stream reads a service's stream, from another process or from a log in
// this one, and writes it elsewhere.
//
//	writer, err := stream.NewWriter(writeNote, &stream.WriterOptions{Debounce: 3 * time.Second})
//	consumer, err := stream.NewConsumer("https://live.example.com/stream/acme", key,
//		stream.Handlers{Deliver: writer.Deliver}, nil)
//	go writer.Run(ctx)
//	err = consumer.Run(ctx) // until ctx ends, or the service refuses the key
//
// A [Consumer] reads the stream. It reconnects automatically, resumes after its
// last entry, and calls handlers: in order within a session, concurrently across
// sessions.
//
// Every entry is acknowledged: by a handler that returns nil or, for longer work,
// through its [Delivery]. A session whose handler keeps failing falls behind: none
// of its entries stay in memory, and they are read again from the log, in order,
// until the session has caught up.
//
// A [Writer] stands between the consumer and the target of the writes, such as a
// help desk or an agent's context. It merges bursts, retries failed writes, and can
// leave the entries of sessions without a conversation in the log. A [Summarizer]
// replaces written actions with one summary each time a session reaches a
// threshold:
//
//	summarizer, err := stream.NewSummarizer(replaceNotes, &stream.SummarizerOptions{Model: askModel})
//	writer, err := stream.NewWriter(writeNote, &stream.WriterOptions{Summarizer: summarizer})
//
// Each of them has a Stats method. Package
// [github.com/liveactivity/liveactivity/stream/streammetrics] turns the counts into
// Prometheus metrics; nothing else here links that library.
//
// Package [github.com/liveactivity/liveactivity/stream/streamtest] has a fake
// service for the unit tests of stream consumers.
package stream
