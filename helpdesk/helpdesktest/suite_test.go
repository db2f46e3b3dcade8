package helpdesktest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/suitetest"
)

// broken is a desk with a mistake.
type broken struct {
	*intercom.Client
	mistake string
}

func (b broken) Note(ctx context.Context, id, text string) (string, error) {
	if b.mistake == "cuts notes" {
		text = text[:min(len(text), 2000)]
	}
	noteID, err := b.Client.Note(ctx, id, text)
	var failed *helpdesk.APIError
	errors.As(err, &failed)
	switch {
	case b.mistake == "writes twice" && err == nil:
		return b.Client.Note(ctx, id, text)
	case b.mistake == "retries" && failed != nil && failed.Status == http.StatusServiceUnavailable:
		return b.Client.Note(ctx, id, text)
	case b.mistake == "hides its errors" && err != nil:
		return "", errors.New("the note was not written")
	case b.mistake == "tells its token" && err != nil:
		failed.Message += helpdesktest.IntercomAccessToken
	case b.mistake == "is never ambiguous" && failed != nil:
		failed.Ambiguous = false
	case b.mistake == "forgets how long to wait" && failed != nil:
		failed.Wait = 0
	case b.mistake == "waits for a deleted conversation" && failed != nil:
		failed.Gone, failed.Status = false, http.StatusServiceUnavailable
	}
	return noteID, err
}

func (b broken) Webhook(header http.Header, body []byte, now time.Time) (helpdesk.Event, error) {
	e, err := b.Client.Webhook(header, body, now)
	var malformed *helpdesk.PayloadError
	switch {
	case b.mistake == "takes unsigned webhooks" && errors.Is(err, helpdesk.ErrSignature):
		return helpdesk.Event{Type: helpdesk.EventIgnored}, nil
	case b.mistake == "reads unsigned bodies" && !json.Valid(body) && errors.Is(err, helpdesk.ErrSignature):
		return e, &helpdesk.PayloadError{Problem: "no JSON"}
	case b.mistake == "takes everybody's webhooks" && errors.Is(err, helpdesk.ErrUnrecognized):
		return e, helpdesk.ErrSignature
	case b.mistake == "quotes the body" && errors.As(err, &malformed):
		return e, &helpdesk.PayloadError{Problem: string(body)}
	}
	return e, err
}

func (b broken) Capabilities() helpdesk.Capabilities {
	can := b.Client.Capabilities()
	can.Finder, can.Replier, can.Remover, can.Redactor, can.Offerer = b, b, b, b, b
	if b.mistake == "names another header" {
		can.SignedBy = []string{"X-Signature"}
	}
	return can
}

func (b broken) FindNote(ctx context.Context, id, text, after string, since time.Time) (string, bool, error) {
	switch b.mistake {
	case "finds old notes":
		since = time.Time{}
	case "compares the first lines":
		text, _, _ = strings.Cut(text, "\n")
	}
	return b.Client.FindNote(ctx, id, text, after, since)
}

func (b broken) IsRequesters(ctx context.Context, id, message string) (bool, error) {
	is, err := b.Client.IsRequesters(ctx, id, message)
	return is || b.mistake == "answers itself", err
}

func (b broken) Engaged(ctx context.Context, id, after, offered string) (bool, error) {
	engaged, err := b.Client.Engaged(ctx, id, after, offered)
	return engaged && b.mistake != "overlooks the contact" &&
		(after != "" || b.mistake != "overlooks the first message"), err
}

func (b broken) Remove(ctx context.Context, id string) error {
	return b.hides("a failed removal", b.Client.Remove(ctx, id))
}

func (b broken) Redact(ctx context.Context, id, noteID string) error {
	return b.hides("a failed redaction", b.Client.Redact(ctx, id, noteID))
}

func (b broken) hides(failure string, err error) error {
	if b.mistake == "hides "+failure {
		return nil
	}
	return err
}

func (b broken) Offer(ctx context.Context, id string, offer helpdesk.Offer) (string, error) {
	if b.mistake == "swaps labels" && len(offer.Labels) > 1 {
		offer.Labels[0], offer.Labels[1] = offer.Labels[1], offer.Labels[0]
	}
	return b.Client.Offer(ctx, id, offer)
}

func TestDesk(t *testing.T) {
	helpdesktest.TestDesk(t, func(t *testing.T) *helpdesktest.Account {
		fake := helpdesktest.NewIntercom(&helpdesktest.IntercomOptions{InMemory: true})
		opened := musttest.New(intercom.Kind.Open(fake.Config(), &helpdesk.Options{HTTP: fake.Client()}))
		const target, message = "https://live.example.com", "Where?"
		conversation, created := fake.Created(target, helpdesktest.IntercomContact{Email: "jane@acme.example"}, "Hello")
		replied := fake.Replied(target, conversation, message)
		var bodies [2]bytes.Buffer
		for i, r := range []*http.Request{created, replied} {
			musttest.New(bodies[i].ReadFrom(r.Body))
		}
		return &helpdesktest.Account{
			Desk: broken{opened.(*intercom.Client), suitetest.Mistake()}, Server: fake.Server,
			Secrets:        []string{helpdesktest.IntercomAccessToken},
			ConversationID: conversation, Message: message,
			Notes:  func() []string { return fake.Notes(conversation) },
			Write:  func(message string) { fake.Replied(target, conversation, message) },
			Delete: func() { fake.DeleteConversation(conversation) },
			Opened: bodies[0].Bytes(), Wrote: bodies[1].Bytes(),
			Sign: func(body []byte) http.Header { return fake.Webhook(target, body).Header },
		}
	})
}

func TestDesk_findsEachMistake(t *testing.T) {
	suitetest.FindsEach(t, "TestDesk", map[string]string{
		"writes twice":                     "Note",
		"retries":                          "Note_says_that_the_account_is_away",
		"hides its errors":                 "Note_says",
		"tells its token":                  "Note_says",
		"is never ambiguous":               "Note_says_that_a_lost_answer",
		"forgets how long to wait":         "Note_says_how_long",
		"waits for a deleted conversation": "Note_says_that_a_deleted",
		"cuts notes":                       "Fits",
		"takes unsigned webhooks":          "Webhook_refuses",
		"reads unsigned bodies":            "Webhook_refuses_a_changed",
		"names another header":             "Webhook_reads",
		"takes everybody's webhooks":       "Webhook_leaves",
		"quotes the body":                  "Webhook_survives",
		"finds old notes":                  "FindNote_finds_nothing",
		"answers itself":                   "IsRequesters",
		"compares the first lines":         "FindNote_finds_nothing",
		"overlooks the contact":            "Engaged",
		"overlooks the first message":      "Engaged",
		"swaps labels":                     "Offer_shows",
		"hides a failed redaction":         "Redact_needs",
		"hides a failed removal":           "Remove",
	})
}
