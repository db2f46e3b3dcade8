package zendesk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// refusal completes the error of a ticket that took no comment. Zendesk reports
// a closed ticket in the account's language, and a 403 can concern the ticket or
// the user, so refusal reads the ticket.
//
//	the ticket is closed, deleted or         Gone
//	  does not exist
//	it can be read, and the user may not     OneConversation: private ones may be allowed
//	  write a public comment
//	it cannot be read at the moment          the error of the read, not ambiguous
//	it cannot be read for lack of rights,    OneConversation
//	  and the user can
//	anything else                            the refusal as it is
//
// These requests are made only for a 403 or 422.
func (c *Client) refusal(ctx context.Context, ticketID string, public bool, err error) error {
	var failed *helpdesk.APIError
	if !errors.As(err, &failed) || failed.Gone ||
		failed.Status != http.StatusUnprocessableEntity && failed.Status != http.StatusForbidden {
		return err
	}
	ticket, err := c.ticket(ctx, ticketID)
	var unread *helpdesk.APIError
	switch {
	case err == nil:
		failed.Gone = ticket.Status == "closed" || ticket.Status == "deleted"
		failed.OneConversation = public && failed.Status == http.StatusForbidden
	case !errors.As(err, &unread):
	case unread.Temporary():
		unread.Ambiguous = false // the comment was refused
		return unread
	case unread.Status == http.StatusForbidden:
		failed.OneConversation = c.isTicketsOnly(ctx, err)
	default:
		failed.Gone = unread.Gone
	}
	return failed
}

// isTicketsOnly reports whether an error is a 403 for a ticket, and the credentials' user can be read: then
// the user may not see the ticket.
func (c *Client) isTicketsOnly(ctx context.Context, err error) bool {
	if !isStatus(err, http.StatusForbidden) {
		return false
	}
	_, err = c.user(ctx)
	return err == nil
}

// ofTicket marks an error as concerning this ticket only if isTicketsOnly, and returns the error. It
// changes the error itself.
func (c *Client) ofTicket(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*helpdesk.APIError](err); ok && c.isTicketsOnly(ctx, err) {
		failed.OneConversation = true
	}
	return err
}

// interpret completes an error from Zendesk's answer. It uses the status, and Zendesk's code and
// message if the status is ambiguous.
func interpret(e *helpdesk.APIError, header http.Header, body []byte) {
	e.RequestID = cmp.Or(header.Get("X-Zendesk-Request-Id"), header.Get("X-Request-Id"))
	problem := parseProblem(body)
	e.Code, e.Message = problem.code, problem.message
	switch e.Status {
	case http.StatusNotFound:
		// An account that does not exist, a path below a wrong base URL, and a gateway without a route
		// are 404 too.
		e.Gone = !problem.foreign && problem.code != "InvalidEndpoint"
		e.Misconfigured = !e.Gone
	case http.StatusUnprocessableEntity:
		e.Gone = strings.Contains(strings.ToLower(e.Message), "closed prevents ticket update")
	case http.StatusTooManyRequests:
		limits := readLimits(header)
		e.OneConversation = limits.isTickets(e.Wait, string(body))
		if e.Wait == 0 {
			e.Wait = limits.wait(e.OneConversation)
		}
	}
}

// problem is Zendesk's own description of an error, empty if it gives none.
type problem struct {
	code, message string
	foreign       bool // the body is not JSON, or looks like a gateway's
}

// maxMessage is the maximum length kept of the vendor's message, in bytes.
const maxMessage = 300

// parseProblem reads the error formats of Zendesk's APIs. It joins all descriptions into one line
// of at most maxMessage bytes.
func parseProblem(body []byte) (p problem) {
	var answer struct {
		Error       json.RawMessage `json:"error"` // a string or {title, message}
		Description string          `json:"description"`
		Details     map[string][]struct {
			Description string `json:"description"`
		} `json:"details"`
		Errors  []struct{ Code, Title, Detail string } `json:"errors"`
		Message string                                 `json:"message"` // from gateways
	}
	err := json.Unmarshal(body, &answer)
	var long struct{ Title, Message string }
	if json.Unmarshal(answer.Error, &p.code) != nil && json.Unmarshal(answer.Error, &long) == nil {
		p = problem{code: long.Title, message: long.Message}
	}
	words := []string{p.message, answer.Description}
	for _, details := range answer.Details {
		for _, detail := range details {
			words = append(words, detail.Description)
		}
	}
	for _, e := range answer.Errors {
		p.code = e.Code
		words = append(words, e.Title, e.Detail)
	}
	p.foreign = err != nil || answer.Message != "" && p.code == ""
	p.message = strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if len(p.message) > maxMessage {
		p.message = strings.ToValidUTF8(p.message[:maxMessage], "")
	}
	return p
}
