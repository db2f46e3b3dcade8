package helpdesk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Desk is one account of a help desk: the service writes notes into its conversations and
// reads its webhooks. A desk stores nothing and starts no goroutines; the service decides
// when to write each note, and keeps the record.
//
// Calls overlap: all methods, including the [Capabilities]' methods, must be safe for concurrent
// use. The service makes one call at a time for each conversation, but may read webhooks and
// contacts at any time. After a server is lost, another may repeat a call that the first still has
// in flight.
//
// A method that takes a context makes at most one request that changes something, does
// not retry, and returns soon after the context ends, in 30 seconds at the latest. A
// failed request returns an [*APIError], which decides the next step:
//
//   - Gone: the conversation's links end, and its unwritten notes are dropped. A
//     conversation ID that can't exist is Gone, too; IDs come from strangers, so check one
//     before it becomes part of a path.
//   - Ambiguous: the write may have happened. The service looks for it before it writes
//     again, or, for offers and replies, never writes it again.
//   - AccountWide: all conversations of the account wait; one request at a time probes it.
//   - Temporary: this conversation waits and retries, with a growing pause, not before Wait.
//   - anything else is final: the note is left out, logged and counted.
//
// [API] makes requests that way. Package helpdesktest has a conformance suite for desks.
type Desk interface {
	// Note writes the text as an internal note, which the contact does not see, and
	// returns the note's ID, or "" if the desk doesn't state it. An agent sees one
	// line for each line of the text, and every character literally: strangers
	// typed it, so escape markup and placeholders.
	Note(ctx context.Context, conversationID, text string) (noteID string, err error)

	// Fits reports whether the text, as Note writes it, fits into one note. It is called
	// many times for each note and makes no request. If a text fits, so does each of its
	// prefixes.
	Fits(text string) bool

	// Webhook verifies a request from the desk, received at the time now, and returns the event
	// that it reports. It makes no request, and retains neither header nor body. The service calls
	// a product's desks in turn until one recognizes the request. The error is ErrUnrecognized for
	// a request from another kind of desk, signed or not; ErrSignature for one of this kind that
	// isn't signed as the configuration requires; and a *PayloadError for a signed one that is
	// malformed.
	Webhook(header http.Header, body []byte, now time.Time) (Event, error)

	// Capabilities declares the desk's abilities beyond notes. It is called often, makes no
	// request, and always returns the same value.
	Capabilities() Capabilities
}

// EventType is the type of an [Event].
type EventType int

// The types of event.
const (
	EventIgnored EventType = iota // irrelevant to the service
	EventPing                     // the desk tests the address
	EventOpened                   // a conversation began
	EventMessage                  // the contact wrote into a conversation
)

// Event is the content of a webhook. An empty field is unknown.
type Event struct {
	Type           EventType
	DeliveryID     string // unchanged when the desk retries
	ConversationID string // required of EventOpened and EventMessage
	ContactID      string
	Contact        Contact
	Message        string // as plain text
	// At is when the event happened or was sent, by the desk's clock; zero unless it
	// is signed. Requests with the same time and body are one delivery, whatever their
	// DeliveryID.
	At time.Time
}

// ErrUnrecognized is returned for a webhook that is not from the desk that was
// given it.
var ErrUnrecognized = errors.New("helpdesk: not a webhook of this desk")

// ErrSignature is returned for a webhook that is not signed as required. It
// does not state the reason.
var ErrSignature = errors.New("helpdesk: the webhook's signature is missing or wrong")

// PayloadError describes the problem with a webhook's body, for the person configuring it: "the
// conversation is missing". Problem has no full stop, and never any part of the body.
type PayloadError struct{ Problem string }

func (e *PayloadError) Error() string { return "helpdesk: " + e.Problem }

// Kind is a kind of help desk. A program passes kinds to the service, and products
// configure them.
type Kind struct {
	// Name is the desk's key in integration_config and in /sessions/link, and
	// its label in metrics and logs: one lower-case word, such as "zendesk".
	Name string

	// Open makes a product's desk from its part of integration_config. It connects to nothing.
	// Its error joins all mistakes, each a *ConfigError; the text of any other error is not
	// shown, since it might hold a secret. The service's opts are not nil.
	Open func(config json.RawMessage, opts *Options) (Desk, error)
}

// Options are a program's settings for all its desks. A zero field means its default.
type Options struct {
	HTTP   *http.Client // makes the desk's requests; see API
	Logger *slog.Logger // slog.Default()
}
