// Package documenttest helps to test engines of
// [github.com/liveactivity/liveactivity/activity/document].
//
// [TestStore] is the conformance suite for a [document.Store]: whoever writes
// an engine runs it. Hooking one up takes a function that opens an empty store:
//
//	func TestStore(t *testing.T) {
//		documenttest.TestStore(t, func(t *testing.T) document.Store {
//			store, err := mystore.Open(t.TempDir())
//			require.NoError(t, err)
//			t.Cleanup(func() { _ = store.Close() })
//			return store
//		})
//	}
//
// Every subtest is named after the sentence of the contract that it checks and
// opens a store of its own. Run it with the race detector:
//
//	go test -race ./mystore -run TestStore
//
// The suite needs no clock of its own: where documents expire it gives them a
// few hundredths of a second and polls. An engine may free what is over when it
// likes, but must not show it; clocks that count milliseconds are good enough.
package documenttest
