package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Name is the desk's, in integration_config and in the paths of its endpoints.
const Name = "demo"

// maxNote is how long a note may be, in bytes.
const maxNote = 16 << 10

// tolerance is how far the time of a webhook may be from now.
const tolerance = 15 * time.Minute

// config is the desk's part of integration_config.
type config struct {
	SigningSecret string `json:"signing_secret" secret:"true"`
}

// desk is a [helpdesk.Desk] over the conversations of an account. Its methods ask no network
// and never block. It deletes no conversation: a visitor's chat would vanish.
type desk struct {
	*account
	secret string
}

// openDesk is the Open of the desk's kind. Every desk of an account has the same conversations,
// so a service that opens it again loses none.
func (a *account) openDesk(raw json.RawMessage, _ *helpdesk.Options) (helpdesk.Desk, error) {
	var c config
	wrong := []error{helpdesk.DecodeConfig(raw, &c)}
	if c.SigningSecret == "" {
		wrong = append(wrong, &helpdesk.ConfigError{Field: "signing_secret", Problem: "is missing"})
	}
	return &desk{a, c.SigningSecret}, errors.Join(wrong...)
}

// Capabilities implements [helpdesk.Desk].
func (d *desk) Capabilities() helpdesk.Capabilities {
	return helpdesk.Capabilities{Finder: d, Redactor: d, Replier: d, Chatter: d, Offerer: d,
		SignedBy: []string{headerSignature}}
}

// Note implements [helpdesk.Desk].
func (d *desk) Note(_ context.Context, conversationID, text string) (string, error) {
	return d.write(conversationID, part{Kind: kindNote, Text: text})
}

// Fits implements [helpdesk.Desk].
func (d *desk) Fits(text string) bool { return len(text) <= maxNote }

// FindNote implements [helpdesk.Finder].
func (d *desk) FindNote(_ context.Context, conversationID, text, after string, since time.Time) (string, bool, error) {
	last, _ := strconv.Atoi(after)
	p, found, err := d.newest(conversationID, func(p part) bool {
		id, _ := strconv.Atoi(p.ID)
		return p.Kind == kindNote && p.Text == text && (after != "" && id > last || after == "" && !p.At.Before(since))
	})
	return p.ID, found, err
}

// Redact implements [helpdesk.Redactor]. A note that is gone, or was redacted before, is no
// error.
func (d *desk) Redact(_ context.Context, conversationID, noteID string) error {
	err := d.change(conversationID, func(c *conversation) {
		for i, p := range c.Parts {
			if p.ID == noteID && p.Kind == kindNote {
				c.Parts[i].Text, c.Parts[i].Redacted = "", true
			}
		}
	})
	if helpdesk.IsGone(err) {
		return nil
	}
	return err
}

// Reply implements [helpdesk.Replier].
func (d *desk) Reply(_ context.Context, conversationID, text string) (string, error) {
	return d.write(conversationID, part{Kind: kindReply, Text: text})
}

// FindReply implements [helpdesk.Replier].
func (d *desk) FindReply(_ context.Context, conversationID, text string, since time.Time) (bool, error) {
	_, found, err := d.newest(conversationID, func(p part) bool {
		return p.Kind == kindReply && p.Text == text && !p.At.Before(since)
	})
	return found, err
}

// IsRequesters implements [helpdesk.Replier].
func (d *desk) IsRequesters(_ context.Context, conversationID, message string) (bool, error) {
	_, found, err := d.newest(conversationID, func(p part) bool { return p.Kind == kindMessage && p.Text == message })
	return found, err
}

// Verifies implements [helpdesk.Chatter]: a webhook that bears the secret's signature comes
// from the demo's own page.
func (d *desk) Verifies() bool { return true }

// Offer implements [helpdesk.Offerer].
func (d *desk) Offer(_ context.Context, conversationID string, offer helpdesk.Offer) (string, error) {
	return d.write(conversationID, part{Kind: kindOffer, Text: offer.Body, Labels: offer.Labels})
}

// FindOffer implements [helpdesk.Offerer].
func (d *desk) FindOffer(
	_ context.Context, conversationID string, offer helpdesk.Offer, since time.Time) (string, bool, error,
) {
	p, found, err := d.newest(conversationID, func(p part) bool {
		return p.Kind == kindOffer && p.Text == offer.Body && slices.Equal(p.Labels, offer.Labels) && !p.At.Before(since)
	})
	return p.ID, found, err
}

// The events of a webhook.
const (
	eventOpened  = "conversation_opened"
	eventMessage = "message_written"
)

// webhook is the desk's notification of a new message.
type webhook struct {
	Event          string    `json:"event"`
	ID             string    `json:"id"` // the same when it is sent again
	ConversationID string    `json:"conversation_id"`
	Contact        contact   `json:"contact"`
	Text           string    `json:"text,omitempty"`
	At             time.Time `json:"at"`
}

// The headers of a webhook.
const (
	headerTime      = "X-Demo-Timestamp" // when it was signed, in seconds since the epoch
	headerSignature = "X-Demo-Signature" // sha256= and the HMAC-SHA256 of time, full stop and body
)

// sign returns the signature of a webhook.
func sign(secret, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%s.%s", at, body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Webhook implements [helpdesk.Desk]. The time is signed along and must be near now, so a
// webhook that somebody has recorded is of no use later.
func (d *desk) Webhook(header http.Header, body []byte, now time.Time) (helpdesk.Event, error) {
	at, signature := header.Get(headerTime), header.Get(headerSignature)
	if at == "" && signature == "" {
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance ||
		!hmac.Equal([]byte(signature), []byte(sign(d.secret, at, body))) {
		return helpdesk.Event{}, helpdesk.ErrSignature
	}
	var w webhook
	if err := json.Unmarshal(body, &w); err != nil {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "the body is not a webhook of the demo desk"}
	}
	types := map[string]helpdesk.EventType{eventOpened: helpdesk.EventOpened, eventMessage: helpdesk.EventMessage}
	return helpdesk.Event{Type: types[w.Event], DeliveryID: w.ID, ConversationID: w.ConversationID,
		Contact: helpdesk.Contact(w.Contact), Message: w.Text, At: w.At}, nil
}
