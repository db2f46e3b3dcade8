// Package stream is the client side of a service's stream: it reads the
// entries of a product, from another process or from a log in this one, and
// writes them elsewhere.
//
// A [Consumer] reads the stream. It reconnects automatically, resumes after
// its last entry, and calls handlers: in order within a session, concurrently
// across sessions.
//
//	consumer, err := stream.NewConsumer("https://live.example.com/stream/acme", key,
//		stream.Handlers{Deliver: writer.Deliver}, nil)
//	err = consumer.Run(ctx) // until ctx ends, or the service refuses the key
//
// Every entry is acknowledged: by a handler that returns nil or, for work that
// takes longer, through its [Delivery]. A session whose handler keeps failing
// falls behind: nothing of it is kept in memory, and its entries are read
// again from the log, in order, until it has caught up.
//
// A [Writer] stands between the consumer and the target of the writes, such as
// a help desk or an agent's context. It merges bursts, retries failed writes,
// and leaves entries of sessions without a conversation in the log. A
// [Summarizer] replaces written actions by one summary each time a session has
// done enough:
//
//	summarizer, err := stream.NewSummarizer(replaceNotes, &stream.SummarizerOptions{Model: askModel})
//	writer, err := stream.NewWriter(writeNote, &stream.WriterOptions{Debounce: 3 * time.Second, Summarizer: summarizer})
//	err = writer.Run(ctx) // beside the consumer
//
// What they count is in their Stats; package
// [github.com/liveactivity/liveactivity/stream/streammetrics] makes Prometheus
// metrics of it, and nothing else here links that library.
//
// Package [github.com/liveactivity/liveactivity/stream/streamtest] has a fake
// service for the unit tests of stream consumers.
package stream
