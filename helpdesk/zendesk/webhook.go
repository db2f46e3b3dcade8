package zendesk

import (
	"bytes"
	"cmp"
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

// DefaultTolerance is the maximum difference between a signature's time and
// now, by default.
const DefaultTolerance = 15 * time.Minute

// Verify checks that a webhook is signed with one of the secrets and that its time
// is at most tolerance before or after now; a zero tolerance means
// DefaultTolerance. Otherwise it returns helpdesk.ErrSignature. An empty secret
// matches no signature. Without secrets every webhook is refused.
//
// Several secrets allow two webhooks, or the rotation of a secret. Verify compares all
// of them, each in constant time. See
// https://developer.zendesk.com/documentation/webhooks/verifying/.
func Verify(secrets []string, header http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	stamp := header.Get(HeaderTimestamp)
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil || now.Sub(at).Abs() > cmp.Or(tolerance, DefaultTolerance) {
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

// Sign sets the headers with which Zendesk signs a webhook of this body at that
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
// used as displayed, although it looks like base64.
func signature(secret, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp))
	_, _ = mac.Write(body)
	var sum [sha256.Size]byte
	return base64.StdEncoding.AppendEncode(nil, mac.Sum(sum[:0]))
}

// Webhook implements [helpdesk.Desk] for the bodies of [NewTicketBody] and [UserReplyBody].
// Without a signing secret it accepts every request that looks like Zendesk's, and leaves the
// event's time zero.
func (c *Client) Webhook(header http.Header, body []byte, now time.Time) (helpdesk.Event, error) {
	if !isTrigger(header, body) {
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	}
	secrets, tolerance := c.config.SigningSecret, time.Duration(c.config.SignatureToleranceS)*time.Second
	if len(secrets) > 0 {
		if err := Verify(secrets, header, body, now, tolerance); err != nil {
			return helpdesk.Event{}, err
		}
	}
	event, err := ParseTrigger(body)
	if err != nil {
		return helpdesk.Event{}, err
	}
	event.DeliveryID = header.Get(HeaderDelivery)
	if len(secrets) > 0 { // otherwise anyone could have set the time
		event.At, _ = time.Parse(time.RFC3339, header.Get(HeaderTimestamp))
	}
	return event, nil
}

// isTrigger reports whether a request looks like Zendesk's: by its headers or,
// if a proxy or a person using curl left them out, by its body.
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

// Maximum lengths of the fields, in bytes; parse refuses longer values.
const (
	maxID    = 20
	maxEmail = 320
	maxType  = 64
)

// trigger is the body that a trigger sent. If hasMessage is true the message may still be empty,
// as for a comment without text.
type trigger struct {
	ticketID, email, kind, message string
	hasMessage                     bool
}

// ParseTrigger reads a trigger's body: an object with ticket_id (a string or a
// number), requester_email, trigger_type and, for a user's reply, user_message.
// Its error is a [*helpdesk.PayloadError]. Any other trigger type yields an event
// to ignore.
//
// Zendesk puts the user's text between the quotes of user_message, escaped or not, so
// that field must come last. The message is all text from its first quote to the last
// quote before the closing brace: quotes, braces and fields that a user types only ever
// end up in the message.
func ParseTrigger(body []byte) (helpdesk.Event, error) {
	t, err := parse(body)
	if err != nil {
		return helpdesk.Event{}, err
	}
	switch t.kind {
	case "":
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "trigger_type is missing or comes after user_message"}
	case TriggerNewTicket, TriggerUserReply:
	default:
		return helpdesk.Event{}, nil
	}
	if !isID(t.ticketID) {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "ticket_id must be the ticket's number and come " +
			"before user_message"}
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
	if event.Message == "" { // such as a picture
		return helpdesk.Event{}, nil
	}
	return event, nil
}

// parse reads the fields up to the user's message, and the message. Nothing after the message's
// key is read as a field, since it may be the user's text. The other fields may come in any
// order, each once; unknown ones are skipped. The error is a *helpdesk.PayloadError.
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

// errMalformed is the error for a body that is not such an object.
var errMalformed = &helpdesk.PayloadError{Problem: "the body is not a JSON object as the trigger sends it"}

// messageOf returns the user's message from the text after its key and colon. Text that is not a
// valid JSON string, because Zendesk has not escaped it, is taken literally between the outer
// quotes. It reports false if those or the closing brace are missing; null is an empty message.
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
