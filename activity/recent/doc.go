// Package recent stores the newest actions of every user and session, for a few hours.
//
// Read them from a [Store]. [Memory] is a store in RAM, and every
// [github.com/liveactivity/liveactivity/stream/eventlog.Log] has a store as well:
//
//	store, err := recent.NewMemory(nil) // 50 actions a user, 4 hours, 192 MiB a product
//	err = store.Add(ctx, batch)
//	found, err := store.Recent(ctx, "acme", recent.Subject{UserID: "user_42"}, 50)
//
// [Lookup] applies the limits and builds the response of the REST endpoint and the MCP tool. It does
// not authenticate: put [github.com/liveactivity/liveactivity/activity/access] or middleware of your
// own in front of it:
//
//	lookup, err := recent.NewLookup(store, 0)
//	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
//
// # Your own engine
//
// An engine stores sessions as [Held] values in a format of its own, and answers queries with
// [Held.Records] and [RecordsOf], which determine the owner and the end of each action. The engine
// of a log may also delegate to a Memory, and pass it each entry as a [Filing].
package recent
