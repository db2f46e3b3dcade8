package demo

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Name is the desk's name in integration_config and in the paths of its
// endpoints.
const Name = "demo"

// maxNote is the maximum size of a note, in bytes.
const maxNote = 16 << 10

// desk is a [helpdesk.Desk] with its conversations. Its methods use no network and never block, so
// no result is ever ambiguous. It deletes no conversation, because a visitor's chat would vanish.
//
// Its methods are safe for concurrent use: mu guards the conversations themselves too, so methods
// return copies, never pointers.
type desk struct {
	secret string // for webhooks

	mu            sync.Mutex
	conversations []*conversation // most recently changed last
	lastPart      int
}

// Capabilities implements [helpdesk.Desk].
func (d *desk) Capabilities() helpdesk.Capabilities {
	return helpdesk.Capabilities{Redactor: d, Replier: d, Offerer: d, Chats: true, SignedBy: []string{headerSecret}}
}

// Note implements [helpdesk.Desk].
func (d *desk) Note(_ context.Context, conversationID, text string) (string, error) {
	return d.write(conversationID, part{Kind: kindNote, Text: text})
}

// Fits implements [helpdesk.Desk].
func (d *desk) Fits(text string) bool { return len(text) <= maxNote }

// Redact implements [helpdesk.Redactor]. It is no error if the note does not exist or is
// already redacted.
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

// FindReply implements [helpdesk.Replier]: a reply without a confirmed result was never
// written.
func (d *desk) FindReply(context.Context, string, string, time.Time) (bool, error) { return false, nil }

// IsRequesters implements [helpdesk.Replier]: webhooks report only the visitor's messages.
func (d *desk) IsRequesters(context.Context, string, string) (bool, error) { return true, nil }

// Offer implements [helpdesk.Offerer].
func (d *desk) Offer(_ context.Context, conversationID string, offer helpdesk.Offer) (string, error) {
	return d.write(conversationID, part{Kind: kindOffer, Text: offer.Body, Labels: offer.Labels})
}

// FindOffer implements [helpdesk.Offerer], for the same reason as FindReply.
func (d *desk) FindOffer(context.Context, string, helpdesk.Offer, time.Time) (string, bool, error) {
	return "", false, nil
}

// headerSecret is the webhook header with the desk's secret, which never leaves the process.
const headerSecret = "X-Demo-Secret"

// Webhook implements [helpdesk.Desk]. The body is a [helpdesk.Event], because only this process sends
// webhooks.
func (d *desk) Webhook(header http.Header, body []byte, _ time.Time) (helpdesk.Event, error) {
	secret := header.Get(headerSecret)
	if secret == "" {
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	}
	if subtle.ConstantTimeCompare([]byte(secret), []byte(d.secret)) != 1 {
		return helpdesk.Event{}, helpdesk.ErrSignature
	}
	var event helpdesk.Event
	if err := json.Unmarshal(body, &event); err != nil {
		return event, &helpdesk.PayloadError{Problem: "the body is not a webhook of the demo desk"}
	}
	return event, nil
}
