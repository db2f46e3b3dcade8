package zendesk

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Comment is a comment of a ticket.
type Comment struct {
	ID       int64     `json:"id"`
	AuthorID int64     `json:"author_id"`
	Public   bool      `json:"public"`
	HTML     string    `json:"html_body"`
	Text     string    `json:"plain_body"`
	Body     string    `json:"body"`       // the fallback where Zendesk shows no HTML
	At       time.Time `json:"created_at"` // to the second
}

// Comments returns the comments of a ticket from the newest to the oldest. For messaging tickets
// Zendesk lists only the internal notes. An error ends the sequence. Comments are read in pages
// of 100 as the loop reaches them; a loop that ends early reads no further page.
func (c *Client) Comments(ctx context.Context, ticketID string) iter.Seq2[Comment, error] {
	return func(yield func(Comment, error) bool) {
		path, query := ticketPath(ticketID)+"/comments.json", url.Values{"sort": {"-created_at"}}
		err := c.list(ctx, "read comments", path, query, func(p *page) (more bool) {
			if n := len(p.Comments); n > 0 && p.Comments[0].At.Before(p.Comments[n-1].At) { // it was not sorted
				slices.Reverse(p.Comments)
			}
			for _, comment := range p.Comments {
				if !yield(comment, nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(Comment{}, err)
		}
	}
}

// page is one page of a list, with one kind of object.
type page struct {
	Comments []Comment `json:"comments"`
	Webhooks []Webhook `json:"webhooks"`
	Triggers []Trigger `json:"triggers"`
	Meta     struct {
		HasMore     bool   `json:"has_more"`
		AfterCursor string `json:"after_cursor"`
	} `json:"meta"`
}

// list calls see with each page of a list until see returns false. It modifies the query. A
// cursor that does not move ends the list, so that it always terminates.
func (c *Client) list(ctx context.Context, op, path string, query url.Values, see func(*page) (more bool)) error {
	query.Set("page[size]", "100")
	for {
		var p page
		if err := c.get(ctx, op, path+"?"+query.Encode(), &p); err != nil || !see(&p) {
			return err
		}
		next := p.Meta.AfterCursor
		if !p.Meta.HasMore || next == "" || next == query.Get("page[after]") {
			return nil
		}
		query.Set("page[after]", next)
	}
}

// FindNote implements [helpdesk.Finder].
func (c *Client) FindNote(ctx context.Context, ticketID, text, after string, since time.Time) (string, bool, error) {
	return c.find(ctx, ticketID, text, asNote, after, since)
}

// FindReply implements [helpdesk.Replier].
func (c *Client) FindReply(ctx context.Context, ticketID, text string, since time.Time) (bool, error) {
	_, found, err := c.find(ctx, ticketID, text, asReply, "", since)
	return found, err
}

// maxSkew is how far Zendesk's clock may be behind this one.
const maxSkew = 5 * time.Second

// find looks for a comment by the credentials' user with this text, starting at the newest.
// It stops at the comment with the ID after or, if that is empty, at one made before since.
// Comments have times in full seconds, and since is moved back by maxSkew.
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
			return "", false, c.ofTicket(ctx, err)
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

// IsRequesters implements [helpdesk.Replier]. It is false if the newest public
// comment with the same text, among the latest 100 comments, has another author.
// Zendesk does not list the public comments of messaging tickets; for those, only the
// trigger's condition keeps agents' messages away, and the connector recognizes its
// own replies.
func (c *Client) IsRequesters(ctx context.Context, ticketID, message string) (bool, error) {
	ticket, err := c.ticket(ctx, ticketID)
	if err != nil {
		return false, c.ofTicket(ctx, err)
	}
	const recent = 100 // comments; the trigger has just fired
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

// Redact implements [helpdesk.Redactor]. It works even if the configuration does not enable it,
// but the credentials need the right to redact. Without that right the error concerns this
// conversation only. Redact reads the comment first, because the request must contain its HTML
// with the parts to redact marked.
func (c *Client) Redact(ctx context.Context, ticketID, commentID string) error {
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
	err = c.api.Do(ctx, helpdesk.Request{Op: "redact comment", Method: http.MethodPut, Path: redactions + commentID,
		Body: object{"ticket_id": number, "html_body": redacted(body)}}, nil)
	if failed, ok := errors.AsType[*helpdesk.APIError](err); ok {
		failed.OneConversation = failed.Status == http.StatusForbidden // notes may still be written
	}
	return unlessGone(err)
}

// unlessGone returns nil for an error meaning that the ticket or the comment is gone.
func unlessGone(err error) error {
	if helpdesk.IsGone(err) {
		return nil
	}
	return err
}
