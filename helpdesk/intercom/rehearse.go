package intercom

import (
	"context"

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
	ended := func(what string, err error) error {
		if isForbidden(err) {
			left = append(left, "The app may not delete "+what+".")
			return nil
		}
		return err
	}
	if r.ConversationID != "" {
		if err := ended("conversation "+r.ConversationID, c.Remove(ctx, r.ConversationID)); err != nil {
			return nil, err
		}
	}
	if r.ContactID != "" {
		err = ended("contact "+r.ContactID, c.remove(ctx, version, "delete contact", "/contacts/"+r.ContactID))
	}
	return left, err
}
