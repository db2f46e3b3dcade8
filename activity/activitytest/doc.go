// Package activitytest helps test code that uses package activity: it has a
// conformance suite for engines, and builders of actions and batches.
//
// # Your own engine
//
// Anything that keeps live activity, such as your own database, is a
// [recent.Store]. Its documentation is a list of promises, and [TestStore]
// has a subtest for each. It needs only a function that opens an empty engine.
// For a log there is eventlogtest.TestActivity, which runs it.
//
//	func TestStore(t *testing.T) {
//		activitytest.TestStore(t, func(t *testing.T, o activitytest.Options) activitytest.Engine {
//			s := mystore.Open(t.TempDir(), o.TTL, o.MaxEvents)
//			t.Cleanup(s.Close)
//			return s
//		})
//	}
//
// Run it with the race detector. The suite needs no fake clock: it dates
// actions in the past or the present, and takes the time of the engine's calls
// plus a few hundredths of a second.
//
// # A consumer of activity
//
// [Pageview] and [Click] make an action for code that reads activity, and
// [NewBatch] makes a batch as a source would bring it, ready for a store:
//
//	store, err := recent.NewMemory(nil)
//	now := time.Now()
//	_ = store.Add(ctx, activitytest.NewBatch("acme", "session_1", "user_42",
//		activitytest.Pageview(now.Add(-2*time.Second), "https://app.acme.example/reports"),
//		activitytest.Click(now, "Export CSV", "https://app.acme.example/reports"),
//	))
package activitytest
