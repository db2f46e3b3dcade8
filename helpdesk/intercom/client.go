package intercom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// Client writes to a workspace's conversations and reads its webhooks. It is a [helpdesk.Desk].
// Its methods are safe for concurrent use. Apart from the configuration it remembers the rate
// limit, its admin, Intercom's clock and the endpoint for notes; a new Client learns them again.
type Client struct {
	config Config
	api    *helpdesk.API
	logger *slog.Logger
	skew   atomic.Int64 // Intercom's clock minus ours, as a time.Duration

	// notesByReply is true once notes have to be written through the endpoint for replies. It is
	// never reset.
	notesByReply atomic.Bool

	admin atomic.Value // the ID, as a string, of the author of all writes, once known
}

// Capabilities implements [helpdesk.Desk].
func (c *Client) Capabilities() helpdesk.Capabilities {
	return helpdesk.Capabilities{Renderer: c, Finder: c, Pacer: c, Contacts: c, Redactor: c, Replier: c, Offerer: c,
		Remover: c, Checker: c, Rehearser: c, SignedBy: []string{HeaderSignature, HeaderSignatureSHA1},
		Warnings: c.config.warnings()}
}

// The values of the header Intercom-Version.
const (
	version       = "2.11"     // for all requests except these:
	versionOffer  = "Unstable" // Preview in newer documentation, by which the older name stays valid
	versionRemove = "2.15"
)

// New returns the client of a workspace. It connects to nothing. Its error joins all
// mistakes, each a [*helpdesk.ConfigError].
func New(config Config, opts *helpdesk.Options) (*Client, error) {
	opts = cmp.Or(opts, &helpdesk.Options{})
	if err := config.Validate(); err != nil {
		return nil, err
	}
	baseURL, _ := helpdesk.CheckBaseURL(config.baseURL())
	c := &Client{config: config, logger: cmp.Or(opts.Logger, slog.Default())}
	c.api = &helpdesk.API{Desk: Name, BaseURL: baseURL, HTTP: opts.HTTP, Authorize: c.authorize, Explain: explain,
		Limits: c.limits}
	return c, nil
}

// authorize sets the access token of a request. Without one it returns the same error as
// Intercom for a wrong token, and no request is made.
func (c *Client) authorize(_ context.Context, header http.Header) error {
	if c.config.AccessToken == "" {
		return &helpdesk.APIError{Desk: Name, Op: "authorize", Status: http.StatusUnauthorized, Err: errNoToken}
	}
	header.Set("Authorization", "Bearer "+c.config.AccessToken)
	return nil
}

// The reasons why nothing can be written.
var (
	errNoToken = errors.New("access_token is not configured")
	errNoOwner = errors.New("the access token belongs to no admin, and admin_id is not configured")
)

// explain completes an error from Intercom's body. An unknown admin is a mistake in the
// configuration, whatever the status. So is a 404 whose body comes from something else, such as a
// gateway. A 429 without Retry-After lasts until the window ends.
func explain(e *helpdesk.APIError, _ helpdesk.Request, header http.Header, body []byte) {
	var list struct {
		RequestID string `json:"request_id"`
		Errors    []struct{ Code, Message string }
		Message   string // from gateways
	}
	err := json.Unmarshal(body, &list)
	missing := e.Status == http.StatusNotFound
	if len(body) > 0 && (err != nil || missing && list.Message != "" && len(list.Errors) == 0) {
		e.Err, e.Misconfigured = errForeign, e.Misconfigured || missing
	}
	e.RequestID = list.RequestID
	if len(list.Errors) > 0 {
		e.Code, e.Message = list.Errors[0].Code, list.Errors[0].Message
	}
	e.Misconfigured = e.Misconfigured || e.Code == "admin_not_found"
	if e.Status == http.StatusTooManyRequests && e.Wait == 0 {
		e.Wait = untilReset(time.Now(), header)
	}
}

// errForeign is the cause of a failure that something between Intercom and us
// reported.
var errForeign = errors.New("the answer is not Intercom's")

// do makes a request with the given version of the API. It replaces the request's
// header.
func (c *Client) do(ctx context.Context, version string, r helpdesk.Request, answer any) error {
	r.Header = http.Header{"Intercom-Version": {version}}
	return c.api.Do(ctx, r, answer)
}

// get makes a request that only reads.
func (c *Client) get(ctx context.Context, op, path string, answer any) error {
	return c.do(ctx, version, helpdesk.Request{Op: op, Method: http.MethodGet, Path: path}, answer)
}

// adminID returns the ID of the author of all writes: the configured admin, or else the token's
// owner, which is read only once. Its error is never ambiguous.
func (c *Client) adminID(ctx context.Context) (string, error) {
	known, _ := c.admin.Load().(string)
	if adminID := cmp.Or(c.config.AdminID, known); adminID != "" {
		return adminID, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return "", harmless(err)
	}
	c.admin.Store(string(me.ID))
	return string(me.ID), nil
}

// admin is a teammate.
type admin struct {
	ID           jsontext.ID
	Name         string
	HasInboxSeat *bool `json:"has_inbox_seat"`
	App          struct{ Name string }
}

// me returns the access token's owner. If the token has none, the error is the same as for a
// wrong token.
func (c *Client) me(ctx context.Context) (admin, error) {
	var me admin
	err := c.get(ctx, "identify the admin", "/me", &me)
	if err == nil && me.ID == "" {
		err = &helpdesk.APIError{Desk: Name, Op: "identify the admin", Status: http.StatusUnauthorized, Err: errNoOwner}
	}
	return me, err
}

// harmless marks an error as not ambiguous and returns it. It is for requests
// that change nothing but precede one that would. It changes the error itself.
func harmless(err error) error {
	if e, ok := errors.AsType[*helpdesk.APIError](err); ok {
		e.Ambiguous = false
	}
	return err
}

// conversationPath returns the path of a conversation. IDs come from strangers,
// and an invalid ID is reported as a conversation that is gone. (Intercom uses
// the ID "last" for the latest conversation.)
func conversationPath(op, id string) (string, error) {
	if !isID(id) || id == "last" || id == "search" || id == "redact" {
		return "", &helpdesk.APIError{Desk: Name, Op: op, Gone: true, Err: errors.New("not the id of a conversation")}
	}
	return "/conversations/" + id, nil
}

var ids = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// isID reports whether an ID is safe as a segment of a path.
func isID(id string) bool { return ids.MatchString(id) }

// Pause implements [helpdesk.Pacer]: it returns how long to wait before the next request to stay
// within the app's rate limit. All conversations share that limit.
func (c *Client) Pause(string) time.Duration { return c.api.Pause() }

// Rate implements [helpdesk.Pacer].
func (c *Client) Rate() (requests int, window time.Duration) { return c.api.Rate(), windowLength }

// Contact implements [helpdesk.ContactReader]. It returns no email address and no user
// ID for a lead, since the visitor could choose both.
func (c *Client) Contact(ctx context.Context, contactID string) (helpdesk.Contact, error) {
	if !isID(contactID) {
		return helpdesk.Contact{}, &helpdesk.APIError{Desk: Name, Op: "read contact", Status: http.StatusNotFound,
			Err: errors.New("not the id of a contact")}
	}
	var contact struct {
		Role, Email string
		ExternalID  jsontext.ID `json:"external_id"`
	}
	err := lacksRight(c.get(ctx, "read contact", "/contacts/"+contactID, &contact))
	if contact.Role == roleLead {
		return helpdesk.Contact{}, err
	}
	return helpdesk.Contact{Email: contact.Email, UserID: string(contact.ExternalID)}, err
}
