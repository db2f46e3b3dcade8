// Package streamtest helps to test what is built on
// [github.com/liveactivity/liveactivity/stream].
//
// [TestLog] is the conformance suite for a [stream.Log]: whoever writes an
// engine runs it, and an engine that passes can stand behind the handler and
// the recorder. Hooking one up takes a function that opens an empty log with
// the retention asked for:
//
//	func TestLog(t *testing.T) {
//		streamtest.TestLog(t, func(t *testing.T, r stream.Retention) stream.Log {
//			log, err := mylog.Open(t.TempDir(), r)
//			require.NoError(t, err)
//			return log
//		})
//	}
//
// Every subtest is named after the sentence of the contract that it checks and
// opens a log of its own; the suite closes it. Run it with the race detector:
//
//	go test -race ./mylog -run TestLog
//
// Where retention is a matter of time the suite asks for a short one and polls:
// an engine may drop what is too old a few seconds late, but must do so without
// being told.
//
// The documents that Append changes have a suite of their own, in
// [github.com/liveactivity/liveactivity/activity/document/documenttest]: run
// it, too, on what Documents returns.
//
// [Entry], [Entries] and [Sized] make entries whose data tell them apart.
//
// # Testing a consumer
//
// [Server] is for whoever reads the stream: a server of one product that sends
// what the test tells it to, and goes wrong when it is told to. Its frames, ids,
// gaps and heartbeats are those of the real one.
//
//	server := streamtest.NewServer(nil)
//	defer server.Close()
//	go consume(ctx, server.URL(), server.Token())
//
//	err := server.WaitConnected(ctx)
//	server.Send(activity.Batch{SessionID: "s1", Actions: actions})
//
// What to try on a consumer, and how:
//
//   - a connection that ends: [Server.Disconnect]; the consumer comes back with
//     the id of the last event that it has finished, see [Server.Requests]
//   - a connection that ends within an event: [Server.Tear]; half an event is none
//   - a connection that is silent: [Server.Stall]; a stream without even a
//     heartbeat is dead
//   - a server that is overloaded or stopping: [Server.Refuse] with 429 or 503
//   - a key that was taken away: Refuse with 401, then Disconnect
//   - events that are gone: a Retention of MaxBytes 1 holds the newest event
//     only; the consumer is told of a gap
//   - data that nobody expects: [Server.SendRaw]
//   - the same again: Send the same batch twice
//   - a restart: [Server.Close], and a new server; ids of the old one are a gap
//
// Waits that take seconds, such as a back-off, take none in a bubble of
// testing/synctest: set InMemory, and give the consumer the server's Client.
package streamtest
