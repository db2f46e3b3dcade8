// Package retriever keeps users' recent actions as text, per session, and serves
// them to chatbot platforms as external knowledge.
//
// A [Store] takes the batches and summaries of a product's stream, and a
// [Handler] serves them:
//
//	store, err := retriever.NewStore(nil)
//	summarizer, err := stream.NewSummarizer(store.Overwrite, nil)
//	writer, err := stream.NewWriter(store.Add, &stream.WriterOptions{Summarizer: summarizer, Erase: store.Erase})
//	consumer, err := stream.NewConsumer(url, token, stream.Handlers{Deliver: store.Learning(writer.Deliver)},
//		&stream.ConsumerOptions{Since: time.Unix(0, 0)}) // everything retained
//	…
//	go writer.Run(ctx)
//	go consumer.Run(ctx)
//
//	h, err := retriever.NewHandler(store, &retriever.HandlerOptions{APIKey: key})
//	mux.HandleFunc("GET /events", h.ServeEvents)
//	mux.HandleFunc("POST /retrieval", h.ServeRetrieval)
//
// Every batch becomes a chunk, every summary replaces the chunks that it
// summarizes, and a retrieval returns a session's chunks, newest first:
//
//	GET /events?session_id=…   for connectors that map a chat's inputs to a query
//	GET /events?email=…        by the visitor's email address
//	POST /retrieval            the external knowledge API of Dify
//
// The session is the privacy boundary: an answer never has chunks of different
// sessions. An unknown user gets no records and no error, so a connector can be
// set up before the first visitor arrives.
//
// Everything is in memory and bounded. The histories of the summarizer have a
// bound of their own, [stream.SummarizerOptions].MaxBytes, and should outlive the
// chunks: a summary of a history that started over replaces chunks that it does
// not cover. An empty store that reads the retained
// stream again gets back its former records with their times. Summaries are
// generated again, with the same text unless a model writes them.
package retriever
