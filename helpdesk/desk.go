package helpdesk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Desk writes into the conversations of one account of a help desk, and reads
// its webhooks. Its methods are safe for concurrent use. Those that take a
// context make at most one request that changes something and return soon after
// the context has ended; they do not retry, for that is the caller's part: an
// error says by its type whether and when, see [APIError].
type Desk interface {
	// Note writes the text as an internal note, which the contact does not
	// see, and returns the note's id. The text has one line for each line
	// that an agent is to see.
	Note(ctx context.Context, conversationID, text string) (noteID string, err error)

	// Fits reports whether the text, as it is rendered, fits into one note.
	Fits(text string) bool

	// Webhook verifies a request of the desk's, received at the time now, and
	// returns what it reports. It returns ErrUnrecognized for a request that is
	// not of this kind of desk, signed or not; ErrSignature for one that is
	// and is not signed as the configuration requires; and a *PayloadError for
	// one that is signed and malformed.
	Webhook(header http.Header, body []byte, now time.Time) (Event, error)
}

// Renderer is a desk that can say what it makes of a note.
type Renderer interface {
	// Render returns the HTML that Note writes for a text.
	Render(text string) (html string)
}

// Addresser is a desk whose conversations have addresses.
type Addresser interface {
	// ConversationURL returns the http or https URL at which agents see a
	// conversation, and false for what cannot be the id of one: ids come from
	// strangers.
	ConversationURL(conversationID string) (url string, ok bool)
}

// Finder is a desk where notes can be read. After an ambiguous failure the
// caller looks before it writes again.
type Finder interface {
	// FindNote looks for a note of this text that the desk's own user wrote
	// after the note with the id after, or, where that is empty, at since or
	// later. Markup that the desk adds or drops makes no difference.
	FindNote(ctx context.Context, conversationID, text, after string, since time.Time) (noteID string, found bool, err error)
}

// Pacer is a desk that knows its rate limits from the answers it got.
type Pacer interface {
	// Pause returns how long to wait before the next note into the
	// conversation, zero if there is no need to wait. An empty id asks for the
	// account: for a conversation that was not written to lately.
	Pause(conversationID string) time.Duration
}

// ContactReader is a desk whose webhooks may name a contact without saying who
// that is.
type ContactReader interface {
	Contact(ctx context.Context, contactID string) (Contact, error)
}

// Contact is who a conversation is with. An empty field is unknown.
type Contact struct {
	Email  string
	UserID string // the desk's external id: the app's own id of the user
}

// Redactor is a desk where a note's text can be taken away.
type Redactor interface {
	// Redact blanks a note. A note that is gone is no error.
	Redact(ctx context.Context, conversationID, noteID string) error
}

// Replier is a desk where the service can answer in public.
type Replier interface {
	// Reply writes a comment that the requester sees, and returns its id.
	Reply(ctx context.Context, conversationID, text string) (commentID string, err error)

	// FindReply looks for a public comment of this text that the desk's own
	// user wrote at since or later.
	FindReply(ctx context.Context, conversationID, text string, since time.Time) (found bool, err error)

	// IsRequesters reports whether a message that a webhook brought was written
	// by the requester. It is false for what agents and the service itself
	// wrote, which some desks echo.
	IsRequesters(ctx context.Context, conversationID, message string) (bool, error)
}

// Chatter is a desk where the service answers in public what the requester writes.
// Its messages come to an endpoint of their own, POST /NAME/chat/{product_id}.
type Chatter interface {
	Replier

	// Verifies reports whether Webhook checks signatures. A desk that is
	// configured not to may be sent messages by anyone; they are not answered.
	Verifies() bool
}

// Offerer is a desk that can show quick replies.
type Offerer interface {
	// Offer shows a body with at most three labels to choose from, and returns
	// the id of what it wrote.
	Offer(ctx context.Context, conversationID string, offer Offer) (offerID string, err error)

	// FindOffer looks for an offer of this body that the desk's own user made
	// at since or later.
	FindOffer(ctx context.Context, conversationID string, offer Offer, since time.Time) (offerID string, found bool, err error)
}

// MaxLabels is the most labels of an [Offer].
const MaxLabels = 3

// Offer is a proactive quick reply.
type Offer struct {
	Body   string
	Labels []string // at most MaxLabels; none for the body alone
}

// Remover is a desk where a conversation without engagement can be deleted.
type Remover interface {
	// Engaged reports whether the contact or a teammate wrote into the
	// conversation after the part with the id after.
	Engaged(ctx context.Context, conversationID, after string) (bool, error)

	// Remove deletes a conversation. One that is gone is no error.
	Remove(ctx context.Context, conversationID string) error
}

// Checker is a desk that can be asked whether its configuration works.
type Checker interface {
	// Check asks the desk, with requests that change nothing, whether the
	// credentials work and what they allow.
	Check(ctx context.Context) []Finding
}

// Finding is a sentence on what was checked. It holds no secret.
type Finding struct {
	OK   bool // whether it is as it must be
	Text string
}

// EventType is what a webhook reports.
type EventType int

// The types of event.
const (
	EventIgnored EventType = iota // nothing that matters here
	EventPing                     // the desk tests the address
	EventOpened                   // a conversation began
	EventMessage                  // the contact wrote into a conversation
)

// Event is what a webhook reports. An empty field is unknown.
type Event struct {
	Type           EventType
	DeliveryID     string // the same for a retry of the desk's
	ConversationID string
	ContactID      string
	Contact        Contact
	Message        string    // as plain text
	At             time.Time // when it happened or was sent, by the desk
}

// ErrUnrecognized says that a webhook is not of the desk that was given it.
var ErrUnrecognized = errors.New("helpdesk: not a webhook of this desk")

// ErrSignature says that a webhook is not signed as it must be. It does not say
// what is wrong with the signature.
var ErrSignature = errors.New("helpdesk: the webhook's signature is missing or wrong")

// PayloadError says what is wrong with a webhook's body, in a sentence for
// the person who configured it. It never holds a part of the body.
type PayloadError struct{ Problem string }

func (e *PayloadError) Error() string { return "helpdesk: " + e.Problem }

// Kind is a kind of help desk: what a program passes to the service so that
// products can configure it.
type Kind struct {
	// Name is the desk's key in integration_config and in /sessions/link, and
	// its label in metrics and logs: one lower-case word, such as "zendesk".
	Name string

	// Open makes a product's desk from its part of integration_config. It
	// connects to nothing. Its error joins all mistakes, each a *ConfigError.
	Open func(config json.RawMessage, opts *Options) (Desk, error)
}

// Options are what a program gives every desk. A zero field means its default.
type Options struct {
	HTTP   *http.Client // makes the desk's requests; see API
	Logger *slog.Logger // slog.Default()
	// Retries is how often a call is repeated at most; see API. It is for a desk
	// that is used alone: the service retries by itself.
	Retries int
}

// ConfigError is one mistake in a desk's configuration.
type ConfigError struct {
	Field   string // such as "access_token"; empty for the whole
	Problem string // completes a sentence that begins with the field
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// DecodeConfig decodes a desk's configuration into the struct that v points to.
// Its error joins all mistakes, each a *ConfigError: fields that are unknown, values
// that are null or of the wrong type, and empty ones of fields with the tag
// secret:"true", which most often come from a variable that was not set. Where v has
// a method Validate() error, what that finds in the other fields is joined, too.
func DecodeConfig(config json.RawMessage, v any) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(config, &given) != nil {
		return &ConfigError{Problem: "must be an object"}
	}
	into := reflect.ValueOf(v).Elem()
	known := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(into.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, ok := known[name]
		switch {
		case !ok || name == "" || name == "-":
			wrong = append(wrong, &ConfigError{name, "is not a known field"})
		case string(given[name]) == "null":
			wrong = append(wrong, &ConfigError{name, "must not be null"})
		case field.Tag.Get("secret") == "true" && (string(given[name]) == `""` || string(given[name]) == "[]"):
			wrong = append(wrong, &ConfigError{name, "must not be empty"})
		default:
			if problem := decodeField(given[name], into.FieldByIndex(field.Index)); problem != "" {
				wrong = append(wrong, &ConfigError{name, problem})
			}
		}
	}
	if v, ok := v.(interface{ Validate() error }); ok {
		wrong = append(wrong, beside(wrong, v.Validate())...)
	}
	return errors.Join(wrong...)
}

// beside returns the mistakes that are joined in err, without those in fields that
// have one already.
func beside(known []error, err error) []error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = slices.Clone(joined.Unwrap())
	}
	return slices.DeleteFunc(all, func(err error) bool {
		var mistake *ConfigError
		return errors.As(err, &mistake) && slices.ContainsFunc(known, func(err error) bool {
			var other *ConfigError
			return errors.As(err, &other) && other.Field == mistake.Field
		})
	})
}

// decodeField decodes a value, or returns what is wrong with it.
func decodeField(value json.RawMessage, field reflect.Value) (problem string) {
	err := json.Unmarshal(value, field.Addr().Interface())
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		kind, _, _ := strings.Cut(wrongType.Value, " ") // without the number itself
		return "must not be a JSON " + kind
	case err != nil:
		return "is not valid"
	}
	return ""
}
