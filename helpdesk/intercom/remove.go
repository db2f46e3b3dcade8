package intercom

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/liveactivity/liveactivity/helpdesk"
)

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
	// DiscardMetrics deletes the conversation from Intercom's reports, too. It needs the OAuth scope
	// delete_conversations_and_metrics.
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
