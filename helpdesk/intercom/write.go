package intercom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// message is the body of a request that writes.
type message struct {
	Type        string `json:"type"`
	AdminID     string `json:"admin_id"`
	MessageType string `json:"message_type"`
	Body        string `json:"body"`
}

// offer is a message with the replies to choose from.
type offer struct {
	message
	Options []replyOption `json:"reply_options"`
}

type replyOption struct {
	Text string `json:"text"`
	UUID string `json:"uuid"`
}

// message returns a message of the admin's.
func (c *Client) message(ctx context.Context, messageType, text string) (message, error) {
	adminID, err := c.adminID(ctx)
	return message{Type: "admin", AdminID: adminID, MessageType: messageType, Body: toHTML(text)}, err
}

// Note implements [helpdesk.Desk].
func (c *Client) Note(ctx context.Context, conversationID, text string) (noteID string, err error) {
	write := func() (string, error) { return c.writeNote(ctx, conversationID, text) }
	return c.api.WriteOnce(write, func(since time.Time) (string, bool, error) {
		return c.FindNote(ctx, conversationID, text, "", since)
	})
}

func (c *Client) writeNote(ctx context.Context, conversationID, text string) (noteID string, err error) {
	const op = "write note"
	path, err := conversationPath(op, conversationID)
	if err != nil {
		return "", err
	}
	m, err := c.message(ctx, "note", text)
	if err != nil {
		return "", err
	}
	answer, err := c.postNote(ctx, op, path, m)
	if err != nil {
		return "", c.confirm(ctx, conversationID, err)
	}
	isNote := func(p part) bool { return p.Type == partNote && p.by(m.AdminID) }
	return answer.written(func(p part) bool { return isNote(p) && shows(p.Body, text) }, isNote,
		func(p part) bool { return p.Type == partNote }), nil
}

// postNote posts a note to the endpoint for parts, or for replies where that one
// takes none.
func (c *Client) postNote(ctx context.Context, op, path string, m message) (answer conversation, err error) {
	if !c.notesByReply.Load() {
		if err = c.post(ctx, version, op, path+"/parts", m, &answer); !refusesNotes(err) {
			return answer, err
		}
	}
	err = c.post(ctx, version, op, path+"/reply", m, &answer)
	if err == nil && c.notesByReply.CompareAndSwap(false, true) {
		c.logger.Info("Intercom takes notes as replies only: from now on they are written so")
	}
	return answer, err
}

// Render implements [helpdesk.Renderer].
func (c *Client) Render(text string) string { return toHTML(text) }

// Fits implements [helpdesk.Desk].
func (c *Client) Fits(text string) bool { return len(toHTML(text)) <= MaxNoteSize }

// refusesNotes reports whether the endpoint for parts may have failed because it
// takes no notes.
func refusesNotes(err error) bool {
	var e *helpdesk.APIError
	return errors.As(err, &e) && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound ||
		e.Status == http.StatusUnprocessableEntity)
}

// Reply implements [helpdesk.Replier].
func (c *Client) Reply(ctx context.Context, conversationID, text string) (commentID string, err error) {
	m, err := c.message(ctx, "comment", text)
	if err != nil {
		return "", err
	}
	isReply := func(p part) bool { return p.by(m.AdminID) && p.Type != partNote }
	write := func() (string, error) {
		answer, err := c.reply(ctx, version, "reply", conversationID, m)
		return answer.written(func(p part) bool { return isReply(p) && shows(p.Body, text) }, isReply), err
	}
	return c.api.WriteOnce(write, func(since time.Time) (string, bool, error) {
		return c.findReply(ctx, conversationID, text, since)
	})
}

// Offer implements [helpdesk.Offerer].
func (c *Client) Offer(ctx context.Context, conversationID string, o helpdesk.Offer) (offerID string, err error) {
	if len(o.Labels) > helpdesk.MaxLabels {
		return "", fmt.Errorf("intercom: an offer of %d labels: there must be at most %d", len(o.Labels),
			helpdesk.MaxLabels)
	}
	m, err := c.message(ctx, "quick_reply", o.Body)
	if err != nil {
		return "", err
	}
	body := offer{message: m, Options: []replyOption{}}
	for _, label := range o.Labels {
		body.Options = append(body.Options, replyOption{Text: label, UUID: uuid.NewString()})
	}
	write := func() (string, error) {
		answer, err := c.reply(ctx, versionOffer, "offer", conversationID, body)
		return answer.written(
			func(p part) bool { return p.by(m.AdminID) && p.Type == partOffer },
			func(p part) bool { return p.by(m.AdminID) && p.Type != partNote && shows(p.Body, o.Body) }), err
	}
	return c.api.WriteOnce(write, func(since time.Time) (string, bool, error) {
		return c.FindOffer(ctx, conversationID, o, since)
	})
}

// reply writes a part that the contact sees.
func (c *Client) reply(ctx context.Context, version, op, conversationID string,
	body any) (answer conversation, err error) {
	path, err := conversationPath(op, conversationID)
	if err != nil {
		return conversation{}, err
	}
	if err = c.post(ctx, version, op, path+"/reply", body, &answer); err != nil {
		return conversation{}, c.confirm(ctx, conversationID, err)
	}
	return answer, nil
}

func (c *Client) post(ctx context.Context, version, op, path string, body, answer any) error {
	return c.do(ctx, version, helpdesk.Request{Op: op, Method: http.MethodPost, Path: path, Body: body}, answer)
}

// Redact implements [helpdesk.Redactor].
func (c *Client) Redact(ctx context.Context, conversationID, noteID string) error {
	const op = "redact note"
	if _, err := conversationPath(op, conversationID); err != nil {
		return err
	}
	err := c.do(ctx, version, helpdesk.Request{Op: op, Method: http.MethodPost, Path: "/conversations/redact",
		Repeatable: true, Body: redaction{
			Type: "conversation_part", ConversationID: conversationID, PartID: noteID,
		}}, nil)
	var e *helpdesk.APIError
	if errors.As(err, &e) && (e.Status == http.StatusNotFound && !errors.Is(e, errForeign) ||
		e.Code == "conversation_part_not_redactable") {
		return nil // it is gone, or has no text
	}
	return err
}

// redaction is the body of a request that redacts.
type redaction struct {
	Type           string `json:"type"`
	ConversationID string `json:"conversation_id"`
	PartID         string `json:"conversation_part_id"`
}

// Remove implements [helpdesk.Remover]. The conversation stays in Intercom's reports.
func (c *Client) Remove(ctx context.Context, conversationID string) error {
	return c.RemoveWith(ctx, conversationID, nil)
}

// RemoveOptions say how a conversation is deleted.
type RemoveOptions struct {
	// DiscardMetrics deletes the conversation from Intercom's reports, too. It needs the OAuth scope delete_conversations_and_metrics.
	DiscardMetrics bool
}

// RemoveWith deletes a conversation. One that is gone is no error. The options may
// be nil.
func (c *Client) RemoveWith(ctx context.Context, conversationID string, opts *RemoveOptions) error {
	r, err := RemoveRequest(conversationID, opts)
	if err != nil {
		return err
	}
	err = c.do(ctx, versionRemove, r, nil)
	var e *helpdesk.APIError
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// RemoveRequest returns the request that deletes a conversation. The options may be
// nil.
func RemoveRequest(conversationID string, opts *RemoveOptions) (helpdesk.Request, error) {
	const op = "delete conversation"
	path, err := conversationPath(op, conversationID)
	retain := opts == nil || !opts.DiscardMetrics
	return helpdesk.Request{Op: op, Method: http.MethodDelete,
		Path: path + "?retain_metrics=" + strconv.FormatBool(retain), Repeatable: true}, err
}

// confirm returns the error of a request that writes into a conversation. When it
// says that there is no such conversation it is looked for: the 404 may be about
// something else.
func (c *Client) confirm(ctx context.Context, conversationID string, err error) error {
	var e *helpdesk.APIError
	if !errors.As(err, &e) || e.Status != http.StatusNotFound || e.Misconfigured {
		return err
	}
	_, readErr := c.conversation(ctx, "look for conversation", conversationID)
	var read *helpdesk.APIError
	switch {
	case readErr == nil:
		return err // it is there
	case errors.As(readErr, &read) && read.Gone:
		e.Gone = true
		return err
	}
	return harmless(readErr)
}

// gone returns the error of a request that reads a conversation. A 404 of
// Intercom's own says that it was deleted.
func (c *Client) gone(err error) error {
	var e *helpdesk.APIError
	if errors.As(err, &e) && e.Status == http.StatusNotFound && !errors.Is(e, errForeign) {
		e.Gone = true
	}
	return err
}

// FindNote implements [helpdesk.Finder]. It looks through the latest 500 parts.
func (c *Client) FindNote(ctx context.Context, conversationID, text, after string,
	since time.Time) (noteID string, found bool, err error) {
	return c.find(ctx, "look for note", conversationID, after, since, func(p part) bool {
		return p.Type == partNote && shows(p.Body, text)
	})
}

// FindReply implements [helpdesk.Replier]. It looks through the latest 500 parts.
func (c *Client) FindReply(ctx context.Context, conversationID, text string, since time.Time) (found bool, err error) {
	_, found, err = c.findReply(ctx, conversationID, text, since)
	return found, err
}

func (c *Client) findReply(ctx context.Context, conversationID, text string,
	since time.Time) (commentID string, found bool, err error) {
	return c.find(ctx, "look for reply", conversationID, "", since, func(p part) bool {
		return p.Type != partNote && p.Type != partOffer && shows(p.Body, text)
	})
}

// FindOffer implements [helpdesk.Offerer]. It looks through the latest 500 parts.
// Intercom may keep no body of an offer: then any offer is taken for it.
func (c *Client) FindOffer(ctx context.Context, conversationID string, o helpdesk.Offer,
	since time.Time) (offerID string, found bool, err error) {
	return c.find(ctx, "look for offer", conversationID, "", since, func(p part) bool {
		return p.Type != partNote && shows(p.Body, o.Body) || p.Type == partOffer && p.Body == ""
	})
}

// find returns the first of the admin's parts, after the one with the id after or
// made at since or later, of which is is true.
func (c *Client) find(ctx context.Context, op, conversationID, after string, since time.Time,
	is func(part) bool) (partID string, found bool, err error) {
	adminID, err := c.adminID(ctx)
	if err != nil {
		return "", false, err
	}
	read, err := c.conversation(ctx, op, conversationID)
	if err != nil {
		return "", false, err
	}
	for _, p := range read.after(after, c.budget.theirs(since)) {
		if p.by(adminID) && is(p) {
			return string(p.ID), true, nil
		}
	}
	return "", false, nil
}

// IsRequesters implements [helpdesk.Replier]. Intercom's webhooks of messages are
// about contacts' messages only: it is true unless the conversation shows the message
// with another author.
func (c *Client) IsRequesters(ctx context.Context, conversationID, message string) (bool, error) {
	read, err := c.conversation(ctx, "look for message", conversationID)
	if err != nil {
		return false, err
	}
	parts := append(read.Parts.Parts, part{Body: read.Source.Body, Author: read.Source.Author})
	foreign := false
	for _, p := range parts {
		if p.Body == "" || !shows(p.Body, message) {
			continue
		}
		if p.Author.isContact() {
			return true, nil
		}
		foreign = foreign || p.Type != partNote
	}
	return !foreign, nil
}

// Engaged implements [helpdesk.Remover]. Anything that a contact or another
// teammate did counts, and the admin's own messages to the contact. So does a
// conversation with more parts than Intercom shows.
func (c *Client) Engaged(ctx context.Context, conversationID, after string) (bool, error) {
	adminID, err := c.adminID(ctx)
	if err != nil {
		return false, err
	}
	read, err := c.conversation(ctx, "look for messages", conversationID)
	if err != nil {
		return false, err
	}
	if after == "" && (read.opened(adminID) || len(read.Parts.Parts) >= maxParts) {
		return true, nil
	}
	for _, p := range read.after(after, time.Time{}) {
		own := p.by(adminID) && (p.Type != "comment" || p.Body == "")
		if !own && p.Author.Type != "bot" {
			return true, nil
		}
	}
	return false, nil
}
