package helpdesk

import (
	"context"
	"time"
)

// Capabilities are the abilities of a [Desk] beyond notes; nil for those that it lacks.
// The rules for a Desk's methods hold for theirs.
type Capabilities struct {
	Renderer  Renderer
	Addresser Addresser
	Finder    Finder
	Pacer     Pacer
	Contacts  ContactReader
	Redactor  Redactor
	Replier   Replier
	Chatter   Chatter // with a Replier
	Offerer   Offerer
	Remover   Remover
	Checker   Checker
	Rehearser Rehearser

	// SignedBy are the headers of which each webhook carries one; nil if unsigned ones
	// are taken, too. A request that no desk's headers fit is refused unread.
	SignedBy []string

	// Warnings are sentences about a configuration that works only in part, without a
	// full stop. The service logs them when it begins to serve the product.
	Warnings []string
}

// Renderer shows notes as they will be written.
type Renderer interface {
	// Render returns the HTML that Note writes for a text. It makes no request. The
	// service shows it in the console.
	Render(text string) (html string)
}

// Addresser knows the addresses of conversations.
type Addresser interface {
	// ConversationURL returns the http or https URL at which agents see a
	// conversation, and false for an ID that can't be a conversation's.
	ConversationURL(conversationID string) (url string, ok bool)
}

// Finder reads notes. Without it a note whose answer was lost is written again.
type Finder interface {
	// FindNote looks for a note of this text that the desk's own user wrote after the
	// note with the ID after or, if that is empty, at since or later. Markup that the
	// desk adds or drops makes no difference. It is called some seconds after a Note
	// that was Ambiguous.
	FindNote(ctx context.Context, conversationID, text, after string,
		since time.Time) (noteID string, found bool, err error)
}

// Pacer knows the desk's rate limits from its answers.
type Pacer interface {
	// Pause returns how long to wait before the next request about the conversation,
	// zero for no wait. An empty ID asks for the account as a whole. It is called before
	// each request and makes none itself.
	Pause(conversationID string) time.Duration

	// Rate returns how many requests the account takes within a window, zero while the
	// desk has not said so. Notes that anybody can cause get a tenth of it. It makes no
	// request.
	Rate() (requests int, window time.Duration)
}

// ContactReader looks contacts up, for webhooks that name one by its ID alone.
type ContactReader interface {
	// Contact returns the contact with an [Event]'s ContactID. It is called where the
	// event had neither an email address nor a session to link. Of somebody whose address
	// and ID nobody vouches for, such as an Intercom lead, it returns nothing.
	Contact(ctx context.Context, contactID string) (Contact, error)
}

// Contact is the person that a conversation is with. An empty field is unknown.
type Contact struct {
	Email  string
	UserID string // the desk's external ID: the app's own ID of the user
}

// Redactor takes back notes that a summary has replaced.
type Redactor interface {
	// Redact blanks a note. A note that is gone is no error. After a final error the
	// note stays as it is.
	Redact(ctx context.Context, conversationID, noteID string) error
}

// Replier answers in public.
type Replier interface {
	// Reply writes a comment that the requester sees, and returns its ID.
	Reply(ctx context.Context, conversationID, text string) (commentID string, err error)

	// FindReply looks for a public comment of this text that the desk's own user wrote
	// at since or later. It is called after a Reply that was Ambiguous.
	FindReply(ctx context.Context, conversationID, text string, since time.Time) (found bool, err error)

	// IsRequesters reports whether the requester wrote a message that a webhook
	// brought. It is false for messages of agents and of the service itself, which some
	// desks echo. It is called before each message is answered.
	IsRequesters(ctx context.Context, conversationID, message string) (bool, error)
}

// Chatter answers in public every message of the requester. Its messages come to an
// endpoint of their own, POST /NAME/chat/{product_id}.
type Chatter interface {
	Replier

	// Verifies reports whether Webhook checks signatures. If not, anyone may send
	// messages, so none is answered.
	Verifies() bool
}

// Offerer shows quick replies.
type Offerer interface {
	// Offer shows a body with at most MaxLabels labels to choose from, and returns its
	// ID. It is called at most once for an offer, within seconds of the action that
	// triggered it, with a context that ends when the moment has passed.
	Offer(ctx context.Context, conversationID string, offer Offer) (offerID string, err error)

	// FindOffer looks for an offer of this body that the desk's own user made at since or
	// later. It is called after an Offer that was Ambiguous.
	FindOffer(ctx context.Context, conversationID string, offer Offer,
		since time.Time) (offerID string, found bool, err error)
}

// MaxLabels is the most labels of an [Offer].
const MaxLabels = 3

// Offer is a proactive quick reply.
type Offer struct {
	Body   string
	Labels []string // at most MaxLabels; none for the body alone
}

// Remover deletes conversations that the service alone has filled, and in which an offer was
// ignored.
type Remover interface {
	// Engaged reports whether anybody but the service wrote into the conversation after
	// the part with the ID after or, if that is empty, at any time, the message that opened
	// it included. The service's own are its notes and offers, and offered is the body of its
	// last offer. It is true where the desk cannot tell, as for a teammate whose name the
	// service uses. It is called right before Remove.
	Engaged(ctx context.Context, conversationID, after, offered string) (bool, error)

	// Remove deletes a conversation. One that is gone is no error.
	Remove(ctx context.Context, conversationID string) error
}

// Checker tests its own configuration, for the command "check".
type Checker interface {
	// Check asks the desk whether the credentials work and which requests they
	// allow. It changes nothing there.
	Check(ctx context.Context) []Finding
}

// Rehearser begins conversations of its own, for the commands "zendesk test" and "intercom test".
type Rehearser interface {
	// BeginRehearsal has a new person of this email address open a conversation with a
	// message. After an error it returns the part that exists, for EndRehearsal.
	BeginRehearsal(ctx context.Context, email, message string) (Rehearsal, error)

	// Notes returns the text of each note in a conversation.
	Notes(ctx context.Context, conversationID string) ([]string, error)

	// EndRehearsal removes the conversation and the person. A part that is gone is no
	// error. It returns a sentence about each part that the credentials may not remove.
	EndRehearsal(ctx context.Context, r Rehearsal) (left []string, err error)
}

// Rehearsal is a conversation that a Rehearser began. An empty ID stands for a part that
// does not exist.
type Rehearsal struct{ ConversationID, ContactID string }

// Finding is a sentence about one thing that was checked. It holds no secret.
type Finding struct {
	OK   bool // whether it is as it must be
	Text string
}
