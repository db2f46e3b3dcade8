package helpdesk

import (
	"context"
	"time"
)

// Capabilities are a [Desk]'s abilities beyond notes; an ability that it lacks is nil.
// The rules for a Desk's methods apply to theirs.
type Capabilities struct {
	Renderer  Renderer
	Addresser Addresser
	Finder    Finder
	Pacer     Pacer
	Contacts  ContactReader
	Redactor  Redactor
	Replier   Replier
	Offerer   Offerer
	Remover   Remover
	Checker   Checker
	Rehearser Rehearser

	// Chats means that every message of a requester is answered in public. The messages
	// arrive at a separate endpoint, POST /NAME/chat/{product_id}. A desk that chats is a
	// Replier, and no message is answered without SignedBy, since anyone could send one.
	Chats bool

	// SignedBy lists headers, one of which every webhook carries; nil if unsigned
	// webhooks are accepted. A request that lacks the headers of every desk is refused
	// unread.
	SignedBy []string

	// Warnings are sentences, without a full stop, about a configuration that works
	// only in part. The service logs them when it begins to serve the product.
	Warnings []string
}

// Renderer shows notes as they will be written.
type Renderer interface {
	// Render returns the HTML that Note would write for a text, which the console
	// shows. It makes no request.
	Render(text string) (html string)
}

// Addresser knows the addresses of conversations.
type Addresser interface {
	// ConversationURL returns the http or https URL at which agents open a
	// conversation, and false for an ID that can't belong to a conversation.
	ConversationURL(conversationID string) (url string, ok bool)
}

// Finder reads notes. Without it, or after a final error, a note is written again
// when its answer was lost.
type Finder interface {
	// FindNote looks for a note with this text by the desk's own user. It considers
	// notes after the one with the ID after or, if that is empty, notes written at
	// since or later. It ignores markup that the desk adds or drops. It is called
	// some seconds after a Note that was Ambiguous.
	FindNote(ctx context.Context, conversationID, text, after string,
		since time.Time) (noteID string, found bool, err error)
}

// Pacer reports the desk's rate limits, as learned from its answers.
type Pacer interface {
	// Pause returns how long to wait before the next request about the conversation, or
	// zero. An empty ID means the whole account. Pause is called before each request and
	// makes none itself.
	Pause(conversationID string) time.Duration

	// Rate returns how many requests the account takes within a window, or zero until
	// the desk has stated it. A tenth of it is for notes that anybody can cause. It
	// makes no request.
	Rate() (requests int, window time.Duration)
}

// ContactReader looks up contacts for webhooks that carry only a contact's ID.
type ContactReader interface {
	// Contact returns the contact with an [Event]'s ContactID. It is called if the event
	// had neither an email address nor a session to link. It returns an empty Contact if
	// nobody vouches for the address and the ID, as for an Intercom lead.
	Contact(ctx context.Context, contactID string) (Contact, error)
}

// Contact is the person on the other side of a conversation. An empty field is
// unknown.
type Contact struct {
	Email  string
	UserID string // the app's own ID for the user, which desks call the external ID
}

// Redactor blanks notes that a summary has replaced.
type Redactor interface {
	// Redact blanks a note. It is no error if the note or its conversation no longer exists.
	// After a final error the note stays as it is.
	Redact(ctx context.Context, conversationID, noteID string) error
}

// Replier answers in public.
type Replier interface {
	// Reply writes a comment that the requester sees, and returns its ID.
	Reply(ctx context.Context, conversationID, text string) (commentID string, err error)

	// FindReply looks for a public comment with this text that the desk's own user
	// wrote at since or later. It is called after a Reply that was Ambiguous.
	FindReply(ctx context.Context, conversationID, text string, since time.Time) (found bool, err error)

	// IsRequesters reports whether a webhook's message was written by the requester. It
	// is false for messages from agents and from the service itself, which some desks
	// echo. It is called for each message before it is answered.
	IsRequesters(ctx context.Context, conversationID, message string) (bool, error)
}

// Offerer shows quick replies.
type Offerer interface {
	// Offer shows a body with at most MaxLabels labels to choose from, and returns the
	// offer's ID. It is called at most once per offer, within seconds of the action
	// that triggered it. Its context ends when the moment has passed.
	Offer(ctx context.Context, conversationID string, offer Offer) (offerID string, err error)

	// FindOffer looks for an offer with this body that the desk's own user made at since
	// or later. It is called after an Offer that was Ambiguous.
	FindOffer(ctx context.Context, conversationID string, offer Offer,
		since time.Time) (offerID string, found bool, err error)
}

// MaxLabels is the maximum number of labels in an [Offer].
const MaxLabels = 3

// Offer is a proactive quick reply.
type Offer struct {
	Body   string
	Labels []string // at most MaxLabels; none for the body alone
}

// Remover deletes conversations that only the service has written to and whose offer was
// ignored.
type Remover interface {
	// Engaged reports whether anybody but the service wrote into the conversation after the
	// part with the ID after. If after is empty, it considers all parts and the message that
	// opened the conversation. Parts by the service are its notes and offers; offered is the
	// body of its last offer. It is true if the desk cannot tell, as for a teammate whose
	// name the service uses. It is called right before Remove.
	Engaged(ctx context.Context, conversationID, after, offered string) (bool, error)

	// Remove deletes a conversation. It is no error if the conversation no
	// longer exists.
	Remove(ctx context.Context, conversationID string) error
}

// Checker tests the desk's configuration, for the command "check".
type Checker interface {
	// Check asks the desk whether the credentials work and which requests they
	// allow. It changes nothing there.
	Check(ctx context.Context) []Finding
}

// Rehearser begins conversations of its own, for the commands "zendesk test" and "intercom test".
type Rehearser interface {
	// BeginRehearsal creates a person with this email address and, in the person's
	// name, opens a conversation with a message. After an error it returns whatever
	// was created, for EndRehearsal.
	BeginRehearsal(ctx context.Context, email, message string) (Rehearsal, error)

	// Notes returns the text of each note in a conversation.
	Notes(ctx context.Context, conversationID string) ([]string, error)

	// EndRehearsal removes the conversation and the person. It is no error if one no
	// longer exists. It returns a sentence for each that the credentials may not
	// remove.
	EndRehearsal(ctx context.Context, r Rehearsal) (left []string, err error)
}

// Rehearsal is a conversation that a Rehearser began. An ID is empty if that part does
// not exist.
type Rehearsal struct{ ConversationID, ContactID string }

// Finding is a sentence about one thing that was checked. It holds no secret.
type Finding struct {
	OK   bool // no action is needed
	Text string
}
