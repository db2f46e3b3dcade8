// Package eventlogtest helps test engines of
// [github.com/liveactivity/liveactivity/stream/eventlog].
//
// [TestLog] is the conformance suite for an [eventlog.Log]: every engine runs
// it, and an engine that passes works with the handler and the recorder. It
// needs only a function that opens an empty log with the given retention:
//
//	func TestLog(t *testing.T) {
//		eventlogtest.TestLog(t, func(t *testing.T, r eventlog.Retention) eventlog.Log {
//			log, err := mylog.Open(t.TempDir(), r)
//			require.NoError(t, err)
//			return log
//		})
//	}
//
// Every subtest is named after the sentence of the contract that it checks and
// opens its own log, which the suite closes. Run it with the race detector.
//
// For retention by time the suite uses a short TTL and polls: an engine may trim
// expired entries a few seconds late, but must do so without a call of Expire.
//
// The documents that Append changes have a separate suite, in
// [github.com/liveactivity/liveactivity/activity/document/documenttest]: run that
// suite as well, on the store that Documents returns.
//
// [TestState] checks the bounds of these documents, and [TestStorage] checks an
// engine's report on its storage.
package eventlogtest
