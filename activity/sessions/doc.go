// Package sessions lists the live sessions of every product, those with an action within the
// retention, the most recently active first.
//
// A [Memory] is a view of a log. The log's reader adds each batch in the order of the log, so all
// servers on one log arrive at the same view:
//
//	now, err := sessions.NewMemory(nil) // 4 hours, 64 MiB a product
//	now.Add("acme", batch)
//	listing, err := now.List("acme", sessions.Query{Prefix: "ada@"}, time.Now())
//
// A [Query] continues at the cursor of the previous [Listing]. A session with a new action in the
// meantime moves to the front; every other one is listed exactly once.
package sessions
