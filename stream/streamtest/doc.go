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
package streamtest
