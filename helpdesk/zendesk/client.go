package zendesk

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Client is a Zendesk account. It is a [helpdesk.Desk], with the tickets as its
// conversations. Its methods are safe for concurrent use.
type Client struct {
	api         helpdesk.API
	credentials *credentials
	secrets     []string
	tolerance   time.Duration
	pace        *pace
	self        atomic.Int64 // the id of the user whose credentials these are; zero if unknown
}

// Capabilities implements [helpdesk.Desk].
func (c *Client) Capabilities() helpdesk.Capabilities {
	return helpdesk.Capabilities{Renderer: c, Addresser: c, Finder: c, Pacer: c, Replier: c, Chatter: c, Checker: c}
}

// Verifies implements [helpdesk.Chatter].
func (c *Client) Verifies() bool { return len(c.secrets) > 0 }

// redactor is the desk of an account whose user may redact.
type redactor struct{ *Client }

// Capabilities implements [helpdesk.Desk].
func (r redactor) Capabilities() helpdesk.Capabilities {
	can := r.Client.Capabilities()
	can.Redactor = r
	return can
}

// Redact implements [helpdesk.Redactor].
func (r redactor) Redact(ctx context.Context, ticketID, commentID string) error {
	return r.RedactComment(ctx, ticketID, commentID)
}

// do makes a request. The ticket may be empty.
func (c *Client) do(ctx context.Context, ticketID string, r helpdesk.Request, answer any) error {
	var used string
	api := c.api
	api.Authorize = func(ctx context.Context, header http.Header) (err error) {
		used, err = c.credentials.header(ctx)
		header.Set("Authorization", used)
		return err
	}
	api.Refused = func(ctx context.Context) bool { return c.credentials.refused(ctx, used) }
	api.Observe = func(status int, header http.Header) { c.pace.observe(ticketID, status, header, time.Now()) }
	api.Explain = func(e *helpdesk.APIError, header http.Header, body []byte) {
		explain(e, header, body)
		if e.Gone && !strings.HasPrefix(r.Path, tickets) && !strings.HasPrefix(r.Path, redactions) {
			e.Gone, e.Misconfigured = false, true
		}
	}
	return api.Do(ctx, r, answer)
}

// get reads a resource.
func (c *Client) get(ctx context.Context, op, path string, answer any) error {
	return c.do(ctx, "", helpdesk.Request{Op: op, Method: http.MethodGet, Path: path, Repeatable: true}, answer)
}

// Note writes the text as an internal note and returns the comment's id.
func (c *Client) Note(ctx context.Context, ticketID, text string) (string, error) {
	return c.comment(ctx, "write note", ticketID, text, false)
}

// ConversationURL implements [helpdesk.Addresser].
func (c *Client) ConversationURL(ticketID string) (string, bool) {
	return c.api.BaseURL + "/agent/tickets/" + ticketID, isID(ticketID)
}

// Reply writes the text as a public comment and returns its id. Zendesk sends it
// to the requester.
func (c *Client) Reply(ctx context.Context, ticketID, text string) (string, error) {
	return c.comment(ctx, "write reply", ticketID, text, true)
}

// comment writes a comment and returns its ID.
func (c *Client) comment(ctx context.Context, op, ticketID, text string, public bool) (string, error) {
	write := func() (string, error) { return c.write(ctx, op, ticketID, text, public) }
	return c.api.WriteOnce(write, func(since time.Time) (string, bool, error) {
		return c.find(ctx, ticketID, text, public, "", since)
	})
}

// write writes a comment once.
func (c *Client) write(ctx context.Context, op, ticketID, text string, public bool) (string, error) {
	if !isID(ticketID) {
		return "", &helpdesk.APIError{Desk: Name, Op: op, Gone: true,
			Err: errors.New("the conversation's id is not a ticket's")}
	}
	type comment struct {
		HTMLBody string `json:"html_body"`
		Public   bool   `json:"public"`
	}
	type ticket struct {
		Comment comment `json:"comment"`
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
	err := c.do(ctx, ticketID, helpdesk.Request{Op: op, Method: http.MethodPut, Path: ticketPath(ticketID) + ".json",
		Body: map[string]ticket{"ticket": {comment{render(text), public}}}}, &answer)
	if err != nil {
		return "", c.refusal(ctx, ticketID, err)
	}
	if author := answer.Audit.AuthorID; author > 0 {
		c.self.Store(author)
	}
	for _, event := range answer.Audit.Events {
		if event.Type == "Comment" {
			return event.ID.String(), nil
		}
	}
	return "", nil // written, though Zendesk did not say under which ID
}

// refusal completes the error of a ticket that took no comment. That a ticket is
// closed is said in the language of the account, and a 403 can be about the
// ticket or about the user, so the ticket is read.
func (c *Client) refusal(ctx context.Context, ticketID string, err error) error {
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
	case !errors.As(err, &unread):
	case unread.Temporary():
		unread.Ambiguous = false // the comment was refused
		return unread
	case unread.Status == http.StatusForbidden:
		_, err = c.user(ctx)
		failed.OneConversation = err == nil
	default:
		failed.Gone = unread.Gone
	}
	return failed
}

// ticket holds the fields of a ticket that matter here.
type ticket struct {
	Status      string `json:"status"`
	RequesterID int64  `json:"requester_id"`
}

func (c *Client) ticket(ctx context.Context, ticketID string) (ticket, error) {
	var answer struct {
		Ticket ticket `json:"ticket"`
	}
	err := c.get(ctx, "read ticket", ticketPath(ticketID)+".json", &answer)
	return answer.Ticket, err
}

const (
	tickets    = "/api/v2/tickets/"
	redactions = "/api/v2/comment_redactions/"
)

func ticketPath(ticketID string) string { return tickets + url.PathEscape(ticketID) }

var ids = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// isID reports whether s can be the id of a ticket or a comment.
func isID(s string) bool { return ids.MatchString(s) }

// Comment is a comment of a ticket.
type Comment struct {
	ID       int64     `json:"id"`
	AuthorID int64     `json:"author_id"`
	Public   bool      `json:"public"`
	HTML     string    `json:"html_body"`
	Text     string    `json:"plain_body"`
	Body     string    `json:"body"`       // as Zendesk shows it where it shows no HTML
	At       time.Time `json:"created_at"` // to the second
}

// Comments returns the comments of a ticket from the newest to the oldest. Of
// messaging tickets Zendesk lists the internal notes only. After an error there
// are no more.
func (c *Client) Comments(ctx context.Context, ticketID string) iter.Seq2[Comment, error] {
	return func(yield func(Comment, error) bool) {
		query := url.Values{"page[size]": {"100"}, "sort": {"-created_at"}}
		for {
			var page struct {
				Comments []Comment `json:"comments"`
				cursor
			}
			path := ticketPath(ticketID) + "/comments.json?" + query.Encode()
			if err := c.get(ctx, "read comments", path, &page); err != nil {
				yield(Comment{}, err)
				return
			}
			for _, comment := range newestFirst(page.Comments) {
				if !yield(comment, nil) {
					return
				}
			}
			if !page.next(query) {
				return
			}
		}
	}
}

// newestFirst turns a page round that Zendesk did not sort.
func newestFirst(page []Comment) []Comment {
	if len(page) > 0 && page[0].At.Before(page[len(page)-1].At) {
		slices.Reverse(page)
	}
	return page
}

// cursor is where a page of a list ends.
type cursor struct {
	Meta struct {
		HasMore     bool   `json:"has_more"`
		AfterCursor string `json:"after_cursor"`
	} `json:"meta"`
}

// next sets the query for the next page, and reports whether there is one.
func (c cursor) next(query url.Values) bool {
	more := c.Meta.HasMore && c.Meta.AfterCursor != "" && c.Meta.AfterCursor != query.Get("page[after]")
	query.Set("page[after]", c.Meta.AfterCursor)
	return more
}

// FindNote implements [helpdesk.Finder].
func (c *Client) FindNote(ctx context.Context, ticketID, text, after string, since time.Time) (string, bool, error) {
	return c.find(ctx, ticketID, text, false, after, since)
}

// FindReply implements [helpdesk.Replier].
func (c *Client) FindReply(ctx context.Context, ticketID, text string, since time.Time) (bool, error) {
	_, found, err := c.find(ctx, ticketID, text, true, "", since)
	return found, err
}

// maxSkew is how far Zendesk's clock may be behind this one.
const maxSkew = 5 * time.Second

func (c *Client) find(ctx context.Context, ticketID, text string, public bool, after string,
	since time.Time) (id string, found bool, err error) {
	self, err := c.me(ctx)
	if err != nil {
		return "", false, err
	}
	earliest := since.Add(-maxSkew).Truncate(time.Second)
	text = bare(text)
	for comment, err := range c.Comments(ctx, ticketID) {
		if err != nil {
			return "", false, err
		}
		id := strconv.FormatInt(comment.ID, 10)
		if after != "" && id == after || after == "" && comment.At.Before(earliest) {
			break
		}
		if comment.Public == public && comment.AuthorID == self && comment.says(text) {
			return id, true, nil
		}
	}
	return "", false, nil
}

// IsRequesters reports whether a message was written by the requester: it is
// not if the newest public comment that says the same has another author. Zendesk
// does not list the public comments of messaging tickets; there the condition of
// the trigger is all there is.
func (c *Client) IsRequesters(ctx context.Context, ticketID, message string) (bool, error) {
	ticket, err := c.ticket(ctx, ticketID)
	if err != nil {
		return false, err
	}
	const recent = 100 // the trigger fired a moment ago
	seen := 0
	message = bare(message)
	for comment, err := range c.Comments(ctx, ticketID) {
		if err != nil {
			return false, err
		}
		if comment.Public && comment.says(message) {
			return comment.AuthorID == ticket.RequesterID, nil
		}
		if seen++; seen == recent {
			break
		}
	}
	return true, nil
}

// me returns the id of the user whose credentials these are.
func (c *Client) me(ctx context.Context) (int64, error) {
	if id := c.self.Load(); id != 0 {
		return id, nil
	}
	u, err := c.user(ctx)
	return u.ID, err
}

// user holds the fields of a user that matter here.
type user struct {
	ID                  int64  `json:"id"`
	Role                string `json:"role"` // end-user, agent or admin
	Suspended           bool   `json:"suspended"`
	OnlyPrivateComments bool   `json:"only_private_comments"`
}

// user reads the owner of the credentials. Zendesk may show a stranger an
// anonymous user instead of refusing.
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

// RedactComment takes the text of a comment away for good. One that is gone is no
// error.
func (c *Client) RedactComment(ctx context.Context, ticketID, commentID string) error {
	number, err := strconv.ParseInt(ticketID, 10, 64)
	if err != nil || !isID(commentID) {
		return nil // there is no such comment
	}
	body := ""
	for comment, err := range c.Comments(ctx, ticketID) {
		if err != nil {
			return unlessGone(err)
		}
		if strconv.FormatInt(comment.ID, 10) == commentID {
			body = comment.HTML
			break
		}
	}
	if body == "" {
		return nil
	}
	err = c.do(ctx, "", helpdesk.Request{Op: "redact comment", Method: http.MethodPut, Path: redactions + commentID,
		Repeatable: true,
		Body:       map[string]any{"ticket_id": number, "html_body": redacted(body)}}, nil)
	var failed *helpdesk.APIError
	if errors.As(err, &failed) {
		failed.OneConversation = failed.Status == http.StatusForbidden // notes may still be written
	}
	return unlessGone(err)
}

func unlessGone(err error) error {
	if helpdesk.IsGone(err) {
		return nil
	}
	return err
}

// Pause implements [helpdesk.Pacer].
func (c *Client) Pause(ticketID string) time.Duration { return c.pace.pause(ticketID, time.Now()) }

// explain completes an error from Zendesk's answer.
func explain(e *helpdesk.APIError, header http.Header, body []byte) {
	e.RequestID = header.Get("X-Zendesk-Request-Id")
	if e.RequestID == "" {
		e.RequestID = header.Get("X-Request-Id")
	}
	problem, isJSON := parseProblem(body)
	e.Code, e.Message = problem.code, problem.message
	switch e.Status {
	case http.StatusNotFound:
		// An account that does not exist, and a path below a wrong base URL, are 404 too.
		e.Gone = isJSON && e.Code != "InvalidEndpoint"
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

type problem struct{ code, message string }

// maxMessage is how much of the vendor's words is kept, in bytes.
const maxMessage = 300

// parseProblem reads the forms of error that Zendesk's APIs have.
func parseProblem(body []byte) (p problem, isJSON bool) {
	var answer struct {
		Error       json.RawMessage `json:"error"` // a string or {title, message}
		Description string          `json:"description"`
		Details     map[string][]struct {
			Description string `json:"description"`
		} `json:"details"`
		Errors []struct{ Code, Title, Detail string } `json:"errors"`
	}
	isJSON = json.Unmarshal(body, &answer) == nil
	var long struct{ Title, Message string }
	if json.Unmarshal(answer.Error, &p.code) != nil && json.Unmarshal(answer.Error, &long) == nil {
		p = problem{long.Title, long.Message}
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
	p.message = strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if len(p.message) > maxMessage {
		p.message = strings.ToValidUTF8(p.message[:maxMessage], "")
	}
	return p, isJSON
}
