package intercom

import (
	"context"
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// BeginRehearsal implements [helpdesk.Rehearser]: it creates a contact, and a conversation
// begun by the contact. Intercom reports it as conversation.user.created.
//
// The requests are CreateContact and createConversation of
// https://github.com/intercom/Intercom-OpenAPI/blob/main/descriptions/2.11/api.intercom.io.yaml.
func (c *Client) BeginRehearsal(ctx context.Context, email, message string) (r helpdesk.Rehearsal, err error) {
	var contact struct{ ID jsontext.ID }
	err = c.post(ctx, version, "create contact", "/contacts", map[string]string{"role": roleUser, "email": email},
		&contact)
	if err != nil {
		return r, err
	}
	r.ContactID = string(contact.ID)
	var created struct {
		ConversationID jsontext.ID `json:"conversation_id"`
	}
	err = c.post(ctx, version, "create conversation", "/conversations", map[string]any{
		"from": map[string]string{"type": roleUser, "id": r.ContactID}, "body": message}, &created)
	r.ConversationID = string(created.ConversationID)
	return r, err
}

// Notes implements [helpdesk.Rehearser]. It reads the latest 500 parts, in Intercom's order.
func (c *Client) Notes(ctx context.Context, conversationID string) (texts []string, err error) {
	read, err := c.conversation(ctx, "read conversation", conversationID)
	for _, p := range read.Parts.Parts {
		if p.Type == partNote {
			texts = append(texts, bodyText(p.Body))
		}
	}
	return texts, err
}

// EndRehearsal implements [helpdesk.Rehearser]. It deletes the conversation first. After an
// error the contact still exists, and the call can be repeated.
func (c *Client) EndRehearsal(ctx context.Context, r helpdesk.Rehearsal) (left []string, err error) {
	var failed *helpdesk.APIError
	if r.ConversationID != "" {
		err := c.Remove(ctx, r.ConversationID)
		switch {
		case errors.As(err, &failed) && failed.Status == http.StatusForbidden:
			left = append(left, "The app may not delete conversation "+r.ConversationID+".")
		case err != nil:
			return nil, err
		}
	}
	if r.ContactID == "" {
		return left, nil
	}
	err = c.do(ctx, version, helpdesk.Request{Op: "delete contact", Method: http.MethodDelete,
		Path: "/contacts/" + r.ContactID, Repeatable: true}, nil)
	if errors.As(err, &failed) {
		switch failed.Status {
		case http.StatusForbidden:
			return append(left, "The app may not delete contact "+r.ContactID+"."), nil
		case http.StatusNotFound:
			return left, nil
		}
	}
	return left, err
}
