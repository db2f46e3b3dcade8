// Package documenttest helps test engines of
// [github.com/liveactivity/liveactivity/activity/document].
//
// [TestStore] is the conformance suite for a [document.Store]: every engine
// runs it. It needs only a function that opens an empty store:
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
// opens its own store. Run it with the race detector.
//
// The suite needs no fake clock: where documents expire it uses a few
// hundredths of a second and polls. An engine may free expired documents at
// any time, but must not return them; clocks with millisecond resolution are
// good enough.
package documenttest
