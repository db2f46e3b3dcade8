// Package helpdesk defines help desks as liveactivity sees them: conversations that take
// notes for the agents who answer there.
//
// A [Desk] declares its further abilities in its [Capabilities]. The links between
// sessions and conversations, and the order and pace of the writes, are the same for all
// desks: package connector, below this one, keeps them, so a desk stores nothing.
//
// # A desk of your own
//
// Another desk is one package that exports a [Kind], which a program passes to the
// service in its Options.Desks. It consists of four things:
//
//  1. A configuration type with the fields of the desk's part of
//     integration_config, and a function that turns it into the desk and
//     reports every mistake as a [*ConfigError]; [DecodeConfig] reads it.
//  2. Note, which writes one internal note. Render the lines of the text as the desk
//     needs them (HTML, line breaks, placeholders escaped): strangers typed the text. An
//     [API] makes the request and types its errors.
//  3. Webhook, which verifies a request of the desk and turns it into an [Event]. Return
//     [ErrUnrecognized] for the requests of others.
//  4. Fits, which knows the size of the longest note, and Capabilities.
//
// The errors decide about the next request; see [Desk]. An API fills them in, except for the
// parts that only the vendor's answer states, which Explain adds: above all whether the
// conversation is gone. The conformance suite in package helpdesktest tests all of this.
//
// The Chatwoot desk in examples/chatwoot is complete in less than 200 lines.
//
// Packages zendesk and intercom, below this one, are the desks that come with the
// service, and API clients that also work on their own. Package helpdesktest has
// fake servers of both for tests.
package helpdesk
