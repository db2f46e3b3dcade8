// Package flat takes events whose form the sender chose: from the streaming webhooks of
// vendors such as Amplitude and FullStory, with a body of the user's own making, or from a
// company's own servers. A [Config] says where in an event each field is:
//
//	"sources": [{"name": "fullstory", "kind": "flat",
//	  "fields": {"event": "name", "user_id": "user.id", "email": "user.email",
//	             "time": "data.timestamp", "url": "data.page.url"},
//	  "actions": {"page.viewed": "pageview"}}]
//
// The source made of it is taken by [intake.Intake.NamedWebhook].
//
// # From an event to an action
//
// The names under actions make page views, clicks, submits and changes, named by the label.
// They may also identify the visitor of a session. Every other name is a custom event's,
// which makes an action where the product lists it. The session_id, or else the
// anonymous_id, names the session; an event with a user_id only goes to a session of that
// user.
package flat
