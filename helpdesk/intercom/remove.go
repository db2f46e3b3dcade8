package intercom

import (
	"context"
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Redact implements [helpdesk.Redactor]. A missing note is no error, nor is a note without
// text. If the app lacks the right to redact, the error concerns this conversation only.
func (c *Client) Redact(ctx context.Context, conversationID, noteID string) error {
	const op = "redact note"
	if _, err := conversationPath(op, conversationID); err != nil {
		return err
	}
	err := c.post(ctx, version, op, "/conversations/redact", map[string]string{"type": "conversation_part",
		"conversation_id": conversationID, "conversation_part_id": noteID}, nil)
	e, ok := errors.AsType[*helpdesk.APIError](err)
	if ok && (isMissing(e) || e.Code == "conversation_part_not_redactable") {
		return nil // the note is gone, or has no text
	}
	return lacksRight(err)
}

// lacksRight marks a 403 as concerning this conversation only and returns the error. It is for requests
// that need a right of their own: without that right, notes may still be written. It changes the error
// itself.
func lacksRight(err error) error {
	if e, ok := errors.AsType[*helpdesk.APIError](err); ok {
		e.OneConversation = e.Status == http.StatusForbidden
	}
	return err
}

// Remove implements [helpdesk.Remover]. The conversation stays in Intercom's reports. A
// missing conversation is no error. If the app lacks the right to delete, the error concerns this
// conversation only.
func (c *Client) Remove(ctx context.Context, conversationID string) error {
	const op = "delete conversation"
	path, err := conversationPath(op, conversationID)
	if err != nil {
		return err
	}
	return lacksRight(c.remove(ctx, versionRemove, op, path+"?retain_metrics=true"))
}

// remove deletes an object. It is no error if the object is already gone.
func (c *Client) remove(ctx context.Context, version, op, path string) error {
	err := c.do(ctx, version, helpdesk.Request{Op: op, Method: http.MethodDelete, Path: path}, nil)
	if e, ok := errors.AsType[*helpdesk.APIError](err); ok && e.Status == http.StatusNotFound {
		return nil
	}
	return err
}
