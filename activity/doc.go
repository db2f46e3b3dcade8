// Package activity is the live memory of an app's users: their latest actions.
//
// An [Action] is one thing a user did: a page view, a click, a form submit or
// a changed field, described in words ("User clicked Export CSV on the dashboard
// page") and with the page's canonical URL. A [Batch] has the actions of one
// session in one request, in time order; it is also the JSON object that the
// event stream carries.
//
// A [Store] keeps the newest actions of every user for a few hours. [Memory]
// is the engine that needs nothing but RAM:
//
//	store, err := activity.NewMemory(nil) // 50 actions a user, 4 hours, 192 MiB a product
//	err = store.Add(ctx, batch)
//	recent, err := store.Recent(ctx, "acme", "user_42", 50)
//
// A [Directory] knows which user a session belongs to, in documents of package
// [github.com/liveactivity/liveactivity/activity/document]; a [Finder] finds a session for
// an event without one.
//
// [Lookup] is the read side: it applies the limits and makes the response of
// the REST endpoint and of the MCP tool. It does not authenticate; put
// [github.com/liveactivity/liveactivity/activity/access] in front of it, or
// middleware of your own:
//
//	lookup, err := activity.NewLookup(store, 0)
//	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", lookup)
//
// Where actions come from is another package's business: a source such as
// [github.com/liveactivity/liveactivity/activity/posthog] turns requests
// into [Event] values and hands them to a [Sink].
//
// # Time
//
// Times are epoch seconds with a fraction, to the microsecond, as in the JSON.
// An action ends where the next action of its session starts, and at its own
// start while there is none.
//
// # Identity
//
// An action belongs to the user ID that its event carried. When a visitor identifies, the
// anonymous actions of that session become the user's, and those of no other session
// ([Identity]). An action without a user ID is part of its session and of no user's memory.
package activity
