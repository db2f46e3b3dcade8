// Package sessions knows who is there now: the sessions of every product that did
// something within the retention, the one seen last first.
//
// A [Memory] is a view of a log. The log's reader adds each batch of a session,
// in the order of the log, so any number of servers on one log come to the same
// view:
//
//	now, err := sessions.NewMemory(nil) // 4 hours, 64 MiB a product
//	now.Add("acme", sessions.NewEntry(batch))
//	listing, err := now.List("acme", sessions.Query{Prefix: "ada@"}, time.Now())
//
// A [Query] continues at the cursor of the [Listing] before. A session that
// does something meanwhile moves to the front; every other one is found exactly
// once.
package sessions
