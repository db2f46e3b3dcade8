// Package activity defines the vocabulary of an app's live activity: actions, the events that they
// are made from, and URLs.
//
// An [Action] is one thing a user did: a page view, a click, a form submit or a changed field,
// described in words ("User clicked Export CSV on the dashboard page"), with the page's canonical
// URL. A [Batch] holds the actions of one session in one request, in time order. It is also the
// JSON object on the event stream.
//
//	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Export CSV"}, rawURL)
//	fmt.Println(click.Description, click.CanonicalURL)
//
// A source such as [github.com/liveactivity/liveactivity/activity/posthog] converts requests to
// [Event] values and passes them to a [Sink], which groups them into batches. Package
// [github.com/liveactivity/liveactivity/activity/recent] stores the newest actions of each user,
// [github.com/liveactivity/liveactivity/activity/directory] the user of each session, and
// [github.com/liveactivity/liveactivity/stream/eventlog] the log; its Sink fills all three.
//
// # Time
//
// Times are epoch seconds with a fraction, to the microsecond, as in the JSON. An action ends at
// the start of the next action of its session, or at its own start if there is none.
//
// # Identity
//
// An action belongs to the user ID of its event. When a visitor is identified, the anonymous
// actions of that session, and of no other, become the user's. An action without a user ID belongs
// to its session only.
package activity
