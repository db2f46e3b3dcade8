// Package streamtest helps test readers of a service's stream, such as a
// [stream.Consumer] with its handlers.
//
// [Server] serves the stream of one product: it sends the test's events, and fails
// on demand. Its frames, ids, gaps and heartbeats are the same as the real
// service's.
//
//	server, err := streamtest.NewServer(nil)
//	defer server.Close()
//	go consume(ctx, server.URL(), server.Token())
//
//	err = server.WaitConnected(ctx)
//	server.Send(activity.Batch{SessionID: "s1", Actions: actions})
//
// Cases to test a consumer with, and the calls for them:
//
//   - a connection that ends: [Server.Disconnect]; the consumer resumes with
//     the id of its last acknowledged event, see [Server.Requests]
//   - a connection that ends within an event: [Server.Tear]; the partial event
//     must be discarded
//   - a connection that is silent: [Server.Stall]; a stream without even a
//     heartbeat is dead
//   - a server that is overloaded or stopping: [Server.Refuse] with 429 or 503
//   - a key that was removed: Refuse with 401, then Disconnect
//   - events that are gone: a Retention of MaxBytes 1 keeps only the newest
//     event; the consumer gets a gap
//   - unexpected data: [Server.SendRaw]
//   - duplicates: Send the same batch twice
//   - a restart: [Server.Close], and a new server; ids of the old one are a gap
//
// Waits of seconds, such as a back-off, take no time in a testing/synctest
// bubble: set InMemory, and give the consumer the server's Client.
package streamtest
