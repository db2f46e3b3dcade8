// Package helpdesk says what a help desk is to liveactivity: a place with
// conversations, into which notes are written for the agents who answer there.
//
// A desk is a [Desk], and what it can do beyond notes is in the optional
// interfaces [Finder], [Pacer], [ContactReader], [Redactor], [Replier], [Chatter],
// [Offerer], [Remover] and [Checker]. Everything else, such as who is linked to which
// conversation, in what order and how often something is written, is the same for all
// desks: it is in the package connector below this one, so that a desk stores
// nothing.
//
// # A desk of your own
//
// A further desk is one package that exports a [Kind], which a program passes to the
// service in its Options.Desks. Four things make it:
//
//  1. A configuration type with the fields of the desk's part of
//     integration_config, and a function that turns it into the desk and
//     reports every mistake as a [*ConfigError]; [DecodeConfig] reads it.
//  2. Note, which writes one internal note. Render the lines of the text as the desk
//     needs them (HTML, line breaks, placeholders escaped); what the text holds
//     was typed by strangers. An [API] makes the request and types its errors.
//  3. Webhook, which verifies a request of the desk and says what happened in an
//     [Event]. Return [ErrUnrecognized] for what is not of this desk.
//  4. Fits, which says how much is too much for one note.
//
// Ids come from webhooks and from browsers: check that one can be a conversation's
// before it becomes part of a path.
//
// The errors decide what happens next; see [APIError]. An API fills them in but for
// what only the vendor's answer says, which is the part of Explain: above all
// whether the conversation is gone, for then its notes are dropped. With [Finder] a
// note whose answer was lost is looked for before it is written again.
//
// Chatwoot in examples/chatwoot is a whole desk in this way, in less than 200 lines.
//
// Packages zendesk and intercom, below this one, are the desks that come with the
// service, and API clients that can be used alone. Package helpdesktest has fake
// servers of both for tests.
package helpdesk
