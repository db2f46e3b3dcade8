package intercom

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// message is the request body of a write.
type message struct {
	Type        string `json:"type"`
	AdminID     string `json:"admin_id"`
	MessageType string `json:"message_type"`
	Body        string `json:"body"`
}

// offer is a message with replies to choose from.
type offer struct {
	message
	Options []replyOption `json:"reply_options"`
}

type replyOption struct {
	Text string `json:"text"`
	UUID string `json:"uuid"`
}

// message returns a message by the admin. Without a configured admin it may make a request,
// whose error is not ambiguous.
func (c *Client) message(ctx context.Context, messageType, text string) (message, error) {
	adminID, err := c.adminID(ctx)
	return message{Type: "admin", AdminID: adminID, MessageType: messageType, Body: toHTML(text)}, err
}

// Note implements [helpdesk.Desk]. The answer is the whole conversation, in which it finds the
// note's ID.
func (c *Client) Note(ctx context.Context, conversationID, text string) (noteID string, err error) {
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

// postNote posts a note to the endpoint for parts, or to the one for replies if the first takes
// none. The first endpoint's refusal had no effect, so the second request repeats nothing. Only
// a success of the second request makes it the default: if the conversation is gone, both
// return 404.
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
// does not take notes.
func refusesNotes(err error) bool {
	e, ok := errors.AsType[*helpdesk.APIError](err)
	return ok && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound ||
		e.Status == http.StatusUnprocessableEntity)
}

// Reply implements [helpdesk.Replier].
func (c *Client) Reply(ctx context.Context, conversationID, text string) (commentID string, err error) {
	m, err := c.message(ctx, "comment", text)
	if err != nil {
		return "", err
	}
	isReply := func(p part) bool { return p.by(m.AdminID) && p.Type != partNote }
	answer, err := c.reply(ctx, version, "reply", conversationID, m)
	return answer.written(func(p part) bool { return isReply(p) && shows(p.Body, text) }, isReply), err
}

// Offer implements [helpdesk.Offerer]. Each label gets a new ID, since Intercom
// requires one.
func (c *Client) Offer(ctx context.Context, conversationID string, o helpdesk.Offer) (offerID string, err error) {
	if len(o.Labels) > helpdesk.MaxLabels {
		return "", fmt.Errorf("intercom: an offer of %d labels: there must be at most %d", len(o.Labels), helpdesk.MaxLabels)
	}
	m, err := c.message(ctx, "quick_reply", o.Body)
	if err != nil {
		return "", err
	}
	body := offer{message: m, Options: []replyOption{}}
	for _, label := range o.Labels {
		body.Options = append(body.Options, replyOption{Text: label, UUID: uuid.NewString()})
	}
	answer, err := c.reply(ctx, versionOffer, "offer", conversationID, body)
	return answer.written(
		func(p part) bool { return p.by(m.AdminID) && p.Type == partOffer },
		func(p part) bool { return p.by(m.AdminID) && p.Type != partNote && shows(p.Body, o.Body) }), err
}

// reply writes a part that the contact sees, and returns the conversation with it.
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

// post makes a request that writes.
func (c *Client) post(ctx context.Context, version, op, path string, body, answer any) error {
	return c.do(ctx, version, helpdesk.Request{Op: op, Method: http.MethodPost, Path: path, Body: body}, answer)
}

// confirm returns the error of a write to a conversation. A 404 may concern something else, so
// confirm then reads the conversation. Without the right to read, the 404 counts. If the read fails
// otherwise without a clear result, confirm returns its error, which is not ambiguous: nothing was
// written.
func (c *Client) confirm(ctx context.Context, conversationID string, err error) error {
	var e *helpdesk.APIError
	if !errors.As(err, &e) || e.Status != http.StatusNotFound || e.Misconfigured {
		return err
	}
	_, readErr := c.conversation(ctx, "look for conversation", conversationID)
	switch {
	case readErr == nil:
		return err // the conversation exists
	case helpdesk.IsGone(readErr), isForbidden(readErr):
		e.Gone = true
		return err
	}
	return harmless(readErr)
}

// isForbidden reports whether the app lacks the right to make a request.
func isForbidden(err error) bool {
	e, ok := errors.AsType[*helpdesk.APIError](err)
	return ok && e.Status == http.StatusForbidden
}

// isMissing reports whether Intercom itself answered that there is no such
// object.
func isMissing(e *helpdesk.APIError) bool {
	return e.Status == http.StatusNotFound && !errors.Is(e, errForeign)
}
