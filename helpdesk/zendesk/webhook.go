package zendesk

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// The headers of a webhook.
const (
	HeaderSignature = "X-Zendesk-Webhook-Signature"
	HeaderTimestamp = "X-Zendesk-Webhook-Signature-Timestamp"
	HeaderDelivery  = "X-Zendesk-Webhook-Invocation-Id"

	headerPrefix = "X-Zendesk-"
)

// DefaultTolerance is how far the time of a signature may be from now.
const DefaultTolerance = 15 * time.Minute

// Verify checks that a webhook is signed with one of the secrets and that its time
// is at most tolerance before or after now; DefaultTolerance where that is zero. It
// returns helpdesk.ErrSignature for one that is not. An empty secret signs
// nothing. Without any secret every webhook is refused.
//
// Several secrets are for two webhooks, or for a secret that is being replaced. All are
// compared, in constant time each. See
// https://developer.zendesk.com/documentation/webhooks/verifying/.
func Verify(secrets []string, header http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	stamp := header.Get(HeaderTimestamp)
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil || now.Sub(at).Abs() > tolerance {
		return helpdesk.ErrSignature
	}
	given := header.Get(HeaderSignature)
	valid := false
	for _, secret := range secrets {
		if secret != "" && hmac.Equal([]byte(given), signature(secret, stamp, body)) {
			valid = true
		}
	}
	if !valid {
		return helpdesk.ErrSignature
	}
	return nil
}

// Sign sets the headers that Zendesk signs a webhook of this body with, at that
// time. An empty secret is an error.
func Sign(header http.Header, secret string, body []byte, at time.Time) error {
	if secret == "" {
		return errors.New("zendesk: cannot sign with an empty secret")
	}
	stamp := at.UTC().Format(time.RFC3339)
	header.Set(HeaderTimestamp, stamp)
	header.Set(HeaderSignature, string(signature(secret, stamp, body)))
	return nil
}

// signature returns the signature of a webhook, base64(HMAC-SHA256(stamp + body)). The secret is
// used as it is shown, though it looks like base64.
func signature(secret, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp))
	_, _ = mac.Write(body)
	var sum [sha256.Size]byte
	return base64.StdEncoding.AppendEncode(nil, mac.Sum(sum[:0]))
}

// Webhook implements [helpdesk.Desk] for the bodies of [NewTicketBody] and
// [UserReplyBody]. Without a signing secret it takes every request that looks like one; then the
// event has no time.
func (c *Client) Webhook(header http.Header, body []byte, now time.Time) (helpdesk.Event, error) {
	if !isTrigger(header, body) {
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	}
	if len(c.secrets) > 0 {
		if err := Verify(c.secrets, header, body, now, c.tolerance); err != nil {
			return helpdesk.Event{}, err
		}
	}
	event, err := ParseTrigger(body)
	if err != nil {
		return helpdesk.Event{}, err
	}
	event.DeliveryID = header.Get(HeaderDelivery)
	if len(c.secrets) > 0 { // otherwise the time is a stranger's
		event.At, _ = time.Parse(time.RFC3339, header.Get(HeaderTimestamp))
	}
	return event, nil
}

// isTrigger reports whether a request looks like Zendesk's: by its headers, or,
// where a proxy or a person with curl left them out, by its body.
func isTrigger(header http.Header, body []byte) bool {
	signedByOthers := false
	for name := range header {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
		signedByOthers = signedByOthers || strings.HasPrefix(name, "X-Hub-Signature")
	}
	return !signedByOthers && bytes.Contains(body, []byte(`"`+fieldType+`"`))
}

// The types of trigger.
const (
	TriggerNewTicket = "new_ticket"
	TriggerUserReply = "user_reply"
)

// The fields of a trigger's body.
const (
	fieldTicket  = "ticket_id"
	fieldEmail   = "requester_email"
	fieldType    = "trigger_type"
	fieldMessage = "user_message"
)

// Bounds of the fields, in bytes; a longer value is no ID and no address.
const (
	maxID    = 20
	maxEmail = 320
	maxType  = 64
)

// trigger is a trigger's body as it was sent. The message may be empty though there is one, for a
// comment without text.
type trigger struct {
	ticketID, email, kind, message string
	hasMessage                     bool
}

// ParseTrigger reads a trigger's body: an object with ticket_id (a string or a
// number), requester_email, trigger_type and, for a user's reply, user_message.
// Its error is a [*helpdesk.PayloadError]. A trigger type other than the two is an
// event that is ignored.
//
// Zendesk puts the user's text between the quotes of user_message, escaped or not. That
// field must be the last. The message is all text from its first quote to the last quote
// before the closing brace: quotes, braces and further fields that a user types change
// nothing but the message.
func ParseTrigger(body []byte) (helpdesk.Event, error) {
	t, err := parse(body)
	if err != nil {
		return helpdesk.Event{}, err
	}
	switch t.kind {
	case "":
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "trigger_type is missing; user_message must be the " +
			"last field"}
	case TriggerNewTicket, TriggerUserReply:
	default:
		return helpdesk.Event{}, nil
	}
	if !isID(t.ticketID) {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "ticket_id must be the ticket's number; user_message " +
			"must be the last field"}
	}
	event := helpdesk.Event{Type: helpdesk.EventOpened, ConversationID: t.ticketID}
	if email := strings.TrimSpace(t.email); strings.Contains(email, "@") {
		event.Contact.Email = email
	}
	if t.kind == TriggerNewTicket {
		return event, nil
	}
	if !t.hasMessage {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "user_message is missing"}
	}
	event.Type, event.Message = helpdesk.EventMessage, strings.TrimSpace(t.message)
	if event.Message == "" { // a picture, say
		return helpdesk.Event{}, nil
	}
	return event, nil
}

// parse reads the fields up to the user's message, and the message. Nothing after the key of the
// message is taken for a field, as it may be the user's text; other fields may come in any order,
// each once. Unknown ones are skipped. The error is a *helpdesk.PayloadError.
func parse(body []byte) (trigger, error) {
	var t trigger
	var seen [3]bool
	s := jsonscan.New(body)
	for s.BeginObject(); ; {
		key, more := s.Key()
		if !more {
			break
		}
		field, limit, i := &t.ticketID, maxID, 0
		switch string(key) {
		case fieldTicket:
		case fieldEmail:
			field, limit, i = &t.email, maxEmail, 1
		case fieldType:
			field, limit, i = &t.kind, maxType, 2
		case fieldMessage:
			message, ok := messageOf(body[s.Offset():])
			if !ok || s.Err() != nil {
				return trigger{}, errMalformed
			}
			t.message, t.hasMessage = message, true
			return t, nil
		default:
			s.Skip()
			continue
		}
		value := s.Text(limit + 1)
		if seen[i] || len(value) > limit {
			return trigger{}, &helpdesk.PayloadError{Problem: "a field is a duplicate or too long"}
		}
		seen[i], *field = true, value
	}
	if s.End(); s.Err() != nil {
		return trigger{}, errMalformed
	}
	return t, nil
}

// errMalformed is the error of a body that is no such object at all.
var errMalformed = &helpdesk.PayloadError{Problem: "the body is not a JSON object as the trigger sends it"}

// messageOf returns the user's message from the text after the colon of its key. Text that is no
// JSON string, since Zendesk has not escaped it, is taken as it stands between the outer quotes.
// It reports false where those or the closing brace are missing; null is an empty message.
func messageOf(tail []byte) (string, bool) {
	tail, ok := bytes.CutSuffix(bytes.TrimSpace(tail), []byte("}"))
	if !ok {
		return "", false
	}
	tail = bytes.TrimSpace(tail)
	if string(tail) == "null" {
		return "", true
	}
	if len(tail) < 2 || tail[0] != '"' || tail[len(tail)-1] != '"' {
		return "", false
	}
	var message string
	if json.Unmarshal(tail, &message) == nil {
		return message, true
	}
	return strings.ToValidUTF8(string(tail[1:len(tail)-1]), "\ufffd"), true
}
