package zendesk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Client is a Zendesk account. It is a [helpdesk.Desk], with the tickets as its conversations.
// Its methods are safe for concurrent use. Apart from the configuration it remembers the rate
// limits, a token and its own user; a new Client learns them again.
type Client struct {
	config Config
	api    *helpdesk.API
	tokens *helpdesk.API                 // requests OAuth tokens, which needs no authorization
	paced  *lru.Cache[string, time.Time] // when the next write to a ticket may happen
	self   atomic.Int64                  // the credentials' user ID; zero if unknown

	turn *semaphore.Weighted // of one goroutine at a time
	// token is the OAuth token, and belongs to the goroutine that has the turn. It is empty before
	// the first one is made, and after Zendesk has refused one.
	token string
}

// Capabilities implements [helpdesk.Desk].
func (c *Client) Capabilities() helpdesk.Capabilities {
	can := helpdesk.Capabilities{Renderer: c, Addresser: c, Finder: c, Pacer: c, Replier: c, Checker: c, Rehearser: c,
		Chats: true}
	if c.config.Redact {
		can.Redactor = c
	}
	if c.config.isMute() {
		can.Warnings = []string{"without email and api_token, or OAuth, nothing is written to Zendesk"}
	}
	if len(c.config.SigningSecret) > 0 {
		can.SignedBy = []string{HeaderSignature}
	}
	return can
}

// explain completes an error from Zendesk's answer. Only a request about a ticket can show that
// it is gone: elsewhere a 404 is a mistake in the configuration. It records the limit of a
// single ticket for Pause.
func (c *Client) explain(e *helpdesk.APIError, r helpdesk.Request, header http.Header, body []byte) {
	interpret(e, header, body)
	if e.Gone && !strings.HasPrefix(r.Path, tickets) && !strings.HasPrefix(r.Path, redactions) {
		e.Gone, e.Misconfigured = false, true
	}
	if e.OneConversation {
		c.delay(r.ConversationID, e.Wait)
	}
}

// get reads a resource. The request counts only against the account's limit.
func (c *Client) get(ctx context.Context, op, path string, answer any) error {
	return c.api.Do(ctx, helpdesk.Request{Op: op, Method: http.MethodGet, Path: path}, answer)
}

// Note writes the text as an internal note and returns the comment's ID.
func (c *Client) Note(ctx context.Context, ticketID, text string) (string, error) {
	return c.write(ctx, "write note", ticketID, text, asNote)
}

// ConversationURL implements [helpdesk.Addresser].
func (c *Client) ConversationURL(ticketID string) (string, bool) {
	return c.api.BaseURL + "/agent/tickets/" + ticketID, isID(ticketID)
}

// Reply writes the text as a public comment and returns its ID. Zendesk sends it
// to the requester.
func (c *Client) Reply(ctx context.Context, ticketID, text string) (string, error) {
	return c.write(ctx, "write reply", ticketID, text, asReply)
}

const asNote, asReply = false, true // for the parameters public

// write writes a comment as the credentials' user. The ID is empty if the answer lacks it. The
// author in the answer saves a request for that user.
func (c *Client) write(ctx context.Context, op, ticketID, text string, public bool) (string, error) {
	if !isID(ticketID) {
		return "", &helpdesk.APIError{Desk: Name, Op: op, Gone: true,
			Err: errors.New("the conversation's id is not a ticket's")}
	}
	var answer struct {
		Audit struct {
			AuthorID int64 `json:"author_id"`
			Events   []struct {
				ID   json.Number `json:"id"`
				Type string      `json:"type"`
			} `json:"events"`
		} `json:"audit"`
	}
	err := c.update(ctx, op, ticketID, object{"comment": object{"html_body": render(text), "public": public}}, &answer)
	if err != nil {
		return "", c.refusal(ctx, ticketID, public, err)
	}
	if author := answer.Audit.AuthorID; author > 0 {
		c.self.Store(author)
	}
	for _, event := range answer.Audit.Events {
		if event.Type == "Comment" {
			return event.ID.String(), nil
		}
	}
	return "", nil // written, but Zendesk did not return its ID
}

// object is the JSON of a request.
type object map[string]any

// update changes fields of a ticket.
func (c *Client) update(ctx context.Context, op, ticketID string, fields object, answer any) error {
	return c.api.Do(ctx, helpdesk.Request{Op: op, Method: http.MethodPut, Path: ticketPath(ticketID) + ".json",
		ConversationID: ticketID, Body: object{"ticket": fields}}, answer)
}

// ticket holds the fields of a ticket that are used.
type ticket struct {
	Status      string `json:"status"`
	RequesterID int64  `json:"requester_id"`
}

// ticket reads a ticket.
func (c *Client) ticket(ctx context.Context, ticketID string) (ticket, error) {
	var answer struct {
		Ticket ticket `json:"ticket"`
	}
	err := c.get(ctx, "read ticket", ticketPath(ticketID)+".json", &answer)
	return answer.Ticket, err
}

// The paths of requests about one ticket, for which a 404 means that it is
// gone; see explain.
const (
	tickets    = "/api/v2/tickets/"
	redactions = "/api/v2/comment_redactions/"
)

// ticketPath returns the path of a ticket, without the extension .json.
func ticketPath(ticketID string) string { return tickets + url.PathEscape(ticketID) }

var ids = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// isID reports whether s can be the ID of a ticket or a comment. IDs come from strangers, and
// nothing else may become part of a path.
func isID(s string) bool { return ids.MatchString(s) }

// me returns the ID of the credentials' user. It reads it once.
func (c *Client) me(ctx context.Context) (int64, error) {
	if id := c.self.Load(); id != 0 {
		return id, nil
	}
	u, err := c.user(ctx)
	return u.ID, err
}

// user holds the fields of a user that are used.
type user struct {
	ID                  int64  `json:"id"`
	Role                string `json:"role"` // end-user, agent or admin
	Suspended           bool   `json:"suspended"`
	OnlyPrivateComments bool   `json:"only_private_comments"`
}

// user reads the credentials' user. Zendesk may answer with an anonymous user
// instead of refusing the credentials.
func (c *Client) user(ctx context.Context) (user, error) {
	var answer struct {
		User user `json:"user"`
	}
	const op = "read own user"
	if err := c.get(ctx, op, "/api/v2/users/me.json", &answer); err != nil {
		return user{}, err
	}
	if answer.User.ID <= 0 {
		return user{}, &helpdesk.APIError{Desk: Name, Op: op, Misconfigured: true,
			Err: errors.New("the credentials belong to no user")}
	}
	c.self.Store(answer.User.ID)
	return answer.User, nil
}
