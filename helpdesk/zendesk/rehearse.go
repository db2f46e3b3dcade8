package zendesk

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// BeginRehearsal implements [helpdesk.Rehearser]: it creates a ticket together with an end user
// as its requester. One request makes both, so after an error neither ID is known.
//
// See https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#create-ticket.
func (c *Client) BeginRehearsal(ctx context.Context, email, message string) (helpdesk.Rehearsal, error) {
	var answer struct {
		Ticket struct {
			ID          json.Number `json:"id"`
			RequesterID json.Number `json:"requester_id"`
		} `json:"ticket"`
	}
	err := c.api.Do(ctx, helpdesk.Request{Op: "create ticket", Method: http.MethodPost, Path: "/api/v2/tickets.json",
		Body: object{"ticket": object{"subject": message, "comment": object{"body": message},
			"requester": object{"name": email, "email": email}}}}, &answer)
	return helpdesk.Rehearsal{ConversationID: answer.Ticket.ID.String(),
		ContactID: answer.Ticket.RequesterID.String()}, err
}

// Notes implements [helpdesk.Rehearser].
func (c *Client) Notes(ctx context.Context, ticketID string) (texts []string, err error) {
	for comment, err := range c.Comments(ctx, ticketID) {
		if err != nil {
			return nil, err
		}
		if !comment.Public {
			texts = append(texts, comment.Text)
		}
	}
	return texts, nil
}

// EndRehearsal implements [helpdesk.Rehearser]. A ticket that the credentials may not
// delete is solved instead. A requester cannot be deleted while the ticket is neither
// closed nor deleted.
//
// See https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#delete-ticket
// and https://developer.zendesk.com/api-reference/ticketing/users/users/#delete-user.
func (c *Client) EndRehearsal(ctx context.Context, r helpdesk.Rehearsal) (left []string, err error) {
	if r.ConversationID != "" {
		err := c.remove(ctx, "delete ticket", ticketPath(r.ConversationID)+".json")
		if isStatus(err, http.StatusForbidden) {
			left = append(left, "The credentials may not delete ticket "+r.ConversationID+"; it is solved.")
			err = c.solve(ctx, r.ConversationID)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.ContactID == "" {
		return left, nil
	}
	err = c.remove(ctx, "delete user", "/api/v2/users/"+r.ContactID+".json")
	if isStatus(err, http.StatusForbidden) || isStatus(err, http.StatusUnprocessableEntity) {
		return append(left, "The credentials may not delete end user "+r.ContactID+"."), nil
	}
	return left, err
}

// remove deletes an object. It is no error if the object is already gone.
func (c *Client) remove(ctx context.Context, op, path string) error {
	err := c.api.Do(ctx, helpdesk.Request{Op: op, Method: http.MethodDelete, Path: path}, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// solve solves a ticket and assigns it to the credentials' user, since a solved
// ticket needs an assignee.
func (c *Client) solve(ctx context.Context, ticketID string) error {
	self, err := c.me(ctx)
	if err != nil {
		return err
	}
	return c.update(ctx, "solve ticket", ticketID, object{"status": "solved", "assignee_id": self}, nil)
}
