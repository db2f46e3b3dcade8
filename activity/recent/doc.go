// Package recent has the newest actions of every user and session, for a few hours.
//
// Read them from a [Store]. [Memory] is the one that needs nothing but RAM; every
// [github.com/liveactivity/liveactivity/stream/eventlog.Log] has one, too:
//
//	store, err := recent.NewMemory(nil) // 50 actions a user, 4 hours, 192 MiB a product
//	err = store.Add(ctx, batch)
//	records, err := store.Recent(ctx, "acme", "user_42", 50)
//
// [Lookup] applies the limits and makes the response of the REST endpoint and of the MCP
// tool. It does not authenticate; put
// [github.com/liveactivity/liveactivity/activity/access] in front of it, or
// middleware of your own:
//
//	lookup, err := recent.NewLookup(store, 0)
//	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
//
// # Your own engine
//
// An engine keeps sessions as [Held] values, in its own form, and answers with
// [Held.Records] and [RecordsOf], which decide whose an action is and when it ends. An
// engine of a log may leave all of it to a Memory, and give it each entry as a [Filing].
package recent
