package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// kind makes Chatwoot desks.
var kind = helpdesk.Kind{Name: "chatwoot", Open: open}

type config struct {
	BaseURL       string `json:"base_url"`
	AccountID     int    `json:"account_id"`
	AccessToken   string `json:"api_access_token" secret:"true"`
	WebhookSecret string `json:"webhook_secret" secret:"true"` // empty for versions that do not sign
}

func open(raw json.RawMessage, opts *helpdesk.Options) (helpdesk.Desk, error) {
	var c config
	mistakes := []error{helpdesk.DecodeConfig(raw, &c)}
	baseURL, problem := helpdesk.CheckBaseURL(c.BaseURL)
	if problem != "" {
		mistakes = append(mistakes, &helpdesk.ConfigError{Field: "base_url", Problem: problem})
	}
	if c.AccountID <= 0 || c.AccessToken == "" {
		mistakes = append(mistakes, &helpdesk.ConfigError{Problem: "must have account_id and api_access_token"})
	}
	d := &desk{secret: c.WebhookSecret, api: helpdesk.API{Desk: "chatwoot",
		BaseURL: baseURL + "/api/v1/accounts/" + strconv.Itoa(c.AccountID)}}
	d.api.Authorize = func(_ context.Context, h http.Header) error {
		h.Set("api_access_token", c.AccessToken)
		return nil
	}
	d.api.Explain = func(e *helpdesk.APIError, _ helpdesk.Request, _ http.Header, body []byte) {
		var said struct{ Error string }
		_ = json.Unmarshal(body, &said)
		e.Message, e.Gone = said.Error, e.Status == http.StatusNotFound && said.Error != ""
	}
	if opts != nil {
		d.api.HTTP = opts.HTTP
	}
	return d, errors.Join(mistakes...)
}

type desk struct {
	api    helpdesk.API
	secret string
}

// message is a Chatwoot message. Its type is a number in the API and a word in
// webhooks.
type message struct {
	ID        int    `json:"id"`
	Content   string `json:"content"`
	Type      any    `json:"message_type"`
	Private   bool   `json:"private"`
	CreatedAt int64  `json:"created_at"`
}

const outgoing = 1.0

func (d *desk) do(ctx context.Context, method, conversationID string, body, answer any) error {
	if n, err := strconv.ParseUint(conversationID, 10, 63); err != nil || n == 0 {
		return &helpdesk.APIError{Desk: "chatwoot", Op: method, Gone: true, Err: errors.New("not the id of a conversation")}
	}
	path := "/conversations/" + conversationID + "/messages"
	return d.api.Do(ctx, helpdesk.Request{Op: method + " messages", Method: method, Path: path, Body: body}, answer)
}

// Capabilities declares the desk's abilities beyond notes.
func (d *desk) Capabilities() helpdesk.Capabilities {
	can := helpdesk.Capabilities{Finder: d, Replier: d, Chats: true}
	if d.secret != "" {
		can.SignedBy = []string{headerSignature}
	}
	return can
}

// Note writes a private note.
func (d *desk) Note(ctx context.Context, conversationID, text string) (string, error) {
	return d.write(ctx, conversationID, text, true)
}

// Reply writes a public message.
func (d *desk) Reply(ctx context.Context, conversationID, text string) (string, error) {
	return d.write(ctx, conversationID, text, false)
}

func (d *desk) write(ctx context.Context, conversationID, text string, private bool) (string, error) {
	var written message
	err := d.do(ctx, http.MethodPost, conversationID, map[string]any{"content": render(text),
		"message_type": "outgoing", "private": private}, &written)
	return strconv.Itoa(written.ID), err
}

// markdown has the characters that Chatwoot would interpret as Markdown.
const markdown = "\\`*_~<>#|!&[]()-"

// render escapes Markdown, so that agents see the text literally.
func render(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(markdown, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Fits applies Chatwoot's limit of 150,000 characters.
func (d *desk) Fits(text string) bool { return len(render(text)) <= 150_000 }

// FindNote looks through the latest messages.
func (d *desk) FindNote(
	ctx context.Context, conversationID, text, after string, since time.Time,
) (string, bool, error) {
	return d.find(ctx, conversationID, func(m message) bool {
		last, _ := strconv.Atoi(after)
		isAfter := m.ID > last && after != "" || after == "" && m.CreatedAt >= since.Unix()
		return m.Private && isAfter && m.Content == render(text)
	})
}

// FindReply looks through the latest messages.
func (d *desk) FindReply(ctx context.Context, conversationID, text string, since time.Time) (bool, error) {
	_, found, err := d.find(ctx, conversationID, func(m message) bool {
		return !m.Private && m.Type == outgoing && m.CreatedAt >= since.Unix() && m.Content == render(text)
	})
	return found, err
}

// IsRequesters is false for messages from the account itself.
func (d *desk) IsRequesters(ctx context.Context, conversationID, text string) (bool, error) {
	_, found, err := d.find(ctx, conversationID, func(m message) bool { return m.Type == outgoing && m.Content == text })
	return !found && err == nil, err
}

func (d *desk) find(ctx context.Context, conversationID string, is func(message) bool) (string, bool, error) {
	var list struct{ Payload []message }
	err := d.do(ctx, http.MethodGet, conversationID, nil, &list)
	for _, m := range list.Payload {
		if is(m) {
			return strconv.Itoa(m.ID), true, nil
		}
	}
	return "", false, err
}

const headerSignature = "X-Chatwoot-Signature"

// Webhook reads conversation_created and message_created.
func (d *desk) Webhook(header http.Header, body []byte, now time.Time) (helpdesk.Event, error) {
	type sender struct{ Email, Identifier string }
	var w struct {
		Event        string
		ID           int64
		Meta         struct{ Sender sender }
		Sender       sender
		Conversation struct{ ID int64 }
		Content      string
		Type         any `json:"message_type"`
	}
	err := json.Unmarshal(body, &w)
	stamp := header.Get("X-Chatwoot-Timestamp")
	switch {
	case stamp == "" && !strings.HasPrefix(w.Event, "conversation_") && !strings.HasPrefix(w.Event, "message_"):
		return helpdesk.Event{}, helpdesk.ErrUnrecognized
	case d.secret != "" && !d.signed(stamp, header.Get(headerSignature), body, now):
		return helpdesk.Event{}, helpdesk.ErrSignature
	case err != nil:
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "the body is not a webhook of Chatwoot's"}
	}
	e, id, from := helpdesk.Event{DeliveryID: header.Get("X-Chatwoot-Delivery")}, w.ID, w.Meta.Sender
	switch {
	case w.Event == "conversation_created":
		e.Type = helpdesk.EventOpened
	case w.Event == "message_created" && w.Type == "incoming":
		e.Type, e.Message, id, from = helpdesk.EventMessage, w.Content, w.Conversation.ID, w.Sender
	default:
		return e, nil
	}
	if id <= 0 {
		return helpdesk.Event{}, &helpdesk.PayloadError{Problem: "the conversation's id is missing"}
	}
	e.ConversationID, e.Contact = strconv.FormatInt(id, 10), helpdesk.Contact{Email: from.Email, UserID: from.Identifier}
	return e, nil
}

func (d *desk) signed(stamp, signature string, body []byte, now time.Time) bool {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	mac := hmac.New(sha256.New, []byte(d.secret))
	_, _ = fmt.Fprintf(mac, "%s.%s", stamp, body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return err == nil && now.Sub(time.Unix(seconds, 0)).Abs() <= 15*time.Minute &&
		hmac.Equal([]byte(signature), []byte(want))
}
