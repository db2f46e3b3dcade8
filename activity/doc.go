// Package activity defines the vocabulary of an app's live activity: actions, the events that
// make them, and URLs.
//
// An [Action] is one thing a user did: a page view, a click, a form submit or
// a changed field, described in words ("User clicked Export CSV on the dashboard
// page") and with the page's canonical URL. A [Batch] has the actions of one
// session in one request, in time order; it is also the JSON object that the
// event stream carries.
//
//	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"}, rawURL)
//	fmt.Println(click.Description, click.CanonicalURL)
//
// A source such as [github.com/liveactivity/liveactivity/activity/posthog] turns requests
// into [Event] values and hands them to a [Sink], which makes batches of them. Package
// [github.com/liveactivity/liveactivity/activity/recent] has the newest actions of every user,
// [github.com/liveactivity/liveactivity/activity/directory] the user of every session, and
// [github.com/liveactivity/liveactivity/stream/eventlog] is the log, with a Sink that fills all
// three.
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
// anonymous actions of that session become the user's, and no other session's do
// ([Identity]). An action without a user ID is part of its session and of no user's memory.
package activity
