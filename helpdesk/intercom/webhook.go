package intercom

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// The headers with a webhook's signature. Intercom currently sends only the
// SHA-1 signature.
const (
	HeaderSignature     = "X-Hub-Signature-256" // sha256=<hex>
	HeaderSignatureSHA1 = "X-Hub-Signature"     // sha1=<hex>
)

// Verify checks that a webhook is signed with the app's client secret. If there is a SHA-256
// signature, the SHA-1 signature is ignored. An empty secret matches no signature. The error
// wraps [helpdesk.ErrSignature]. The signature covers only the body, so an old webhook verifies
// forever; a receiver has to remember deliveries.
func Verify(secret string, header http.Header, body []byte) error {
	if secret == "" {
		return fmt.Errorf("%w: client_secret is not configured", helpdesk.ErrSignature)
	}
	name, prefix, algorithm := HeaderSignature, "sha256=", sha256.New
	if len(header.Values(name)) == 0 {
		name, prefix, algorithm = HeaderSignatureSHA1, "sha1=", sha1.New
	}
	value, ok := strings.CutPrefix(header.Get(name), prefix)
	signature, err := hex.DecodeString(value)
	if !ok || err != nil || !hmac.Equal(signature, mac(algorithm, secret, body)) {
		return helpdesk.ErrSignature
	}
	return nil
}

// Sign sets both headers with which a webhook of this body can be signed. An
// empty secret is an error.
func Sign(header http.Header, secret string, body []byte) error {
	if secret == "" {
		return errors.New("intercom: cannot sign with an empty secret")
	}
	header.Set(HeaderSignature, "sha256="+hex.EncodeToString(mac(sha256.New, secret, body)))
	header.Set(HeaderSignatureSHA1, "sha1="+hex.EncodeToString(mac(sha1.New, secret, body)))
	return nil
}

// mac returns the message authentication code of a body.
func mac(algorithm func() hash.Hash, secret string, body []byte) []byte {
	m := hmac.New(algorithm, []byte(secret))
	_, _ = m.Write(body)
	return m.Sum(nil)
}

// notification is the body of a webhook. For conversation topics, Item is a conversation.
type notification struct {
	Type      string
	ID        jsontext.ID
	Topic     string
	CreatedAt unix `json:"created_at"`
	Data      struct{ Item json.RawMessage }
}

const notificationType = "notification_event"

// Webhook implements [helpdesk.Desk]. A request is Intercom's if it has one of the signature
// headers or the form of a notification. A signed request is decoded only after its
// signature is verified; the type of a notification may then be missing. Its age does not matter.
func (c *Client) Webhook(header http.Header, body []byte, _ time.Time) (helpdesk.Event, error) {
	var n notification
	signed := len(header.Values(HeaderSignature))+len(header.Values(HeaderSignatureSHA1)) > 0
	if !signed && (json.Unmarshal(body, &n) != nil || n.Type != notificationType) {
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	}
	if err := Verify(c.config.ClientSecret, header, body); err != nil {
		return helpdesk.Event{}, err
	}
	switch err := json.Unmarshal(body, &n); {
	case err != nil:
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "the body is not a JSON notification from Intercom"}
	case n.Type == "" && n.Topic == "":
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "both type and topic are missing"}
	case n.Type != "" && n.Type != notificationType:
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: `type is not "notification_event"`}
	}
	return n.event()
}

// topics maps the topics that matter here to event types.
var topics = map[string]helpdesk.EventType{
	"ping":                      helpdesk.EventPing,
	"conversation.user.created": helpdesk.EventOpened,
	"conversation.user.replied": helpdesk.EventMessage,
}

// event returns the event that a notification reports. It ignores all other topics, whatever
// their items.
func (n notification) event() (helpdesk.Event, error) {
	e := helpdesk.Event{DeliveryID: string(n.ID), At: n.CreatedAt.time(), Type: topics[n.Topic]}
	if e.Type != helpdesk.EventOpened && e.Type != helpdesk.EventMessage {
		return e, nil
	}
	var item conversation
	if err := json.Unmarshal(n.Data.Item, &item); err != nil {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "data.item is not a conversation"}
	}
	if _, err := conversationPath("", string(item.ID)); err != nil {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "data.item.id is missing or not an ID"}
	}
	e.ConversationID = string(item.ID)
	item.describe(&e)
	return e, nil
}

// describe completes an event with the author, the message and the time. The contact ID, email
// address and user ID always belong to the same contact. A contact is identified only by its ID
// unless its role is stated; a lead is not identified at all. The message is the text that a contact
// opened the conversation with, or else the first part by a contact in the notification. If a reply's
// parts are all the workspace's own, it is no message; a conversation may begin without one.
func (c conversation) describe(e *helpdesk.Event) {
	wrote := part{Body: c.Source.Body, CreatedAt: c.CreatedAt, Author: c.Source.Author}
	isReply := e.Type == helpdesk.EventMessage
	if isReply || !wrote.Author.isContact() {
		wrote = part{}
		byContact := func(p part) bool { return p.Author.isContact() }
		if i := slices.IndexFunc(c.Parts.Parts, byContact); i >= 0 {
			wrote = c.Parts.Parts[i]
		} else if isReply && len(c.Parts.Parts) > 0 {
			e.Type = helpdesk.EventIgnored // the workspace's own message
			return
		}
	}
	e.Message = bodyText(wrote.Body)
	if wrote.CreatedAt != 0 {
		e.At = wrote.CreatedAt.time()
	}
	who := wrote.Author
	if who == (author{}) { // the notification has no part
		who = c.Source.Author
	}
	if who.isContact() {
		if who.ID == "" && len(c.Contacts.Contacts) > 1 {
			return // one of several contacts; do not guess
		}
		e.ContactID, e.Contact.Email = string(who.ID), who.Email
	}
	for _, contact := range c.Contacts.Contacts {
		e.ContactID = cmp.Or(e.ContactID, string(contact.ID))
		if string(contact.ID) == e.ContactID {
			e.Contact.UserID = string(contact.ExternalID)
			break
		}
	}
	switch role := c.role(e.ContactID); {
	case role == roleLead:
		e.ContactID, e.Contact = "", helpdesk.Contact{} // an unidentified person
	case role == "" && e.ContactID != "":
		e.Contact = helpdesk.Contact{} // until it is looked up
	}
}
