// Package retriever keeps what users did of late as text, per session, and
// hands it to chatbot platforms that ask for external knowledge.
//
// A [Store] takes the batches and summaries of a product's stream, a [Handler]
// serves them:
//
//	store, err := retriever.NewStore(nil)
//	summarizer, err := stream.NewSummarizer(store.Overwrite, nil)
//	writer, err := stream.NewWriter(store.Add, &stream.WriterOptions{Summarizer: summarizer})
//	consumer, err := stream.NewConsumer(url, token, stream.Handlers{Deliver: store.Learning(writer.Deliver)},
//		&stream.ConsumerOptions{Since: time.Unix(0, 0)}) // all there is
//	…
//	go writer.Run(ctx)
//	go consumer.Run(ctx)
//
//	h, err := retriever.NewHandler(store, &retriever.HandlerOptions{APIKey: key})
//	mux.HandleFunc("GET /events", h.ServeEvents)
//	mux.HandleFunc("POST /retrieval", h.ServeRetrieval)
//
// Every batch becomes a chunk, every summary takes the place of the chunks it
// sums up, and a retrieval returns a session's chunks, newest first:
//
//	GET /events?session_id=…   for connectors that map a chat's inputs to a query
//	GET /events?email=…        where only the visitor's e-mail address is known
//	POST /retrieval            the external knowledge API of Dify
//
// The session is the privacy boundary: chunks of different sessions are never
// in one answer. An unknown user gets no records, which is not an error: a
// connector that is set up before the first visitor comes must work.
//
// All is in memory and bounded. A store that starts empty and is given what the
// stream retains has the records it had before, also with their times; only
// summaries are made anew, with the same text unless a model writes them.
package retriever
