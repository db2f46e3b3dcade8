// Package activitytest is for the tests of those who use package activity: a
// conformance suite for engines, and builders of actions and batches.
//
// # An engine of your own
//
// Anything that keeps live activity, in a database of your own for example,
// is an [activity.Store]. Its documentation is a list of promises, and
// [TestStore] is one subtest for each of them. Hook the engine up with a
// function that opens an empty one:
//
//	func TestStore(t *testing.T) {
//		activitytest.TestStore(t, func(t *testing.T, o activitytest.Options) activity.Store {
//			s := mystore.Open(t.TempDir(), o.TTL, o.MaxEvents)
//			t.Cleanup(s.Close)
//			return s
//		})
//	}
//
// Run it with the race detector. The suite needs no clock of its own: it dates
// actions so that they are expired already, or are not, and takes the time of
// the engine's calls plus a few hundredths of a second.
//
// # A consumer of activity
//
// Code that reads activity needs some. [Pageview] and [Click] make an action,
// [NewBatch] makes what a source would have brought, ready for a store:
//
//	store := activity.NewMemory(nil)
//	now := time.Now()
//	_ = store.Add(ctx, activitytest.NewBatch("acme", "session_1", "user_42",
//		activitytest.Pageview(now.Add(-2*time.Second), "https://app.acme.example/reports"),
//		activitytest.Click(now, "Export CSV", "https://app.acme.example/reports"),
//	))
package activitytest
