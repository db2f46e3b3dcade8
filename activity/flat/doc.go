// Package flat takes events in a format that their sender chose: from the streaming
// webhooks of vendors such as Amplitude and FullStory, whose body the user defines, or from
// a company's own servers. A [Config] tells where in an event each field is:
//
//	"sources": [{"name": "fullstory", "kind": "flat",
//	  "fields": {"event": "name", "user_id": "user.id", "email": "user.email",
//	             "time": "data.timestamp", "url": "data.page.url"},
//	  "actions": {"page.viewed": "pageview"}}]
//
// [New] makes a source of it, for the Sources of an [intake.Product].
//
// # From an event to an action
//
// The names under actions make page views, clicks, submits and changes, named by the label.
// They may also identify the visitor of a session. An event with any other name is a custom
// event, which makes an action if the product lists it. The session_id, or else the
// anonymous_id, names the session; an event with only a user_id goes to a session of that
// user.
package flat
