package intercom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Check implements [helpdesk.Checker]. Whether the app may write cannot be seen
// without writing.
func (c *Client) Check(ctx context.Context) []helpdesk.Finding {
	var findings []helpdesk.Finding
	find := func(ok bool, format string, args ...any) {
		findings = append(findings, helpdesk.Finding{OK: ok, Text: fmt.Sprintf(format, args...)})
	}
	if c.config.ClientSecret == "" {
		find(false, "client_secret is missing: all webhooks are refused, and conversations are not linked by them; it is under Basic information of the app in Intercom's Developer Hub")
	}
	me, err := c.me(ctx)
	if err != nil {
		find(false, "the access token does not work: %s", words(err))
		return findings
	}
	find(true, "the access token works: it is that of %s in the workspace %s", me.Name, me.App.Name)
	findings = append(findings, c.checkAdmin(ctx, me))
	for _, may := range []struct{ what, path string }{
		{"read conversations", "/conversations?per_page=1"},
		{"read contacts", "/contacts?per_page=1"},
	} {
		if err := c.get(ctx, may.what, may.path, nil); err != nil {
			find(false, "the app cannot %s: %s", may.what, words(err))
		} else {
			find(true, "the app can %s", may.what)
		}
	}
	return findings
}

// checkAdmin says whether the admin who writes exists, and may.
func (c *Client) checkAdmin(ctx context.Context, writer admin) helpdesk.Finding {
	if adminID := c.config.AdminID; adminID != "" {
		writer = admin{}
		if err := c.get(ctx, "read admin", "/admins/"+url.PathEscape(adminID), &writer); err != nil {
			return helpdesk.Finding{Text: "admin_id is not that of a teammate who can be read: " + words(err)}
		}
	}
	if seat := writer.HasInboxSeat; seat != nil && !*seat {
		return helpdesk.Finding{Text: writer.Name + ", in whose name notes are written, has no Inbox seat"}
	}
	return helpdesk.Finding{OK: true, Text: "notes are written in the name of " + writer.Name}
}

// words says why a request failed, to someone who can change the configuration.
func words(err error) string {
	var e *helpdesk.APIError
	if !errors.As(err, &e) {
		return err.Error()
	}
	why := e.Error()
	switch e.Status {
	case http.StatusUnauthorized:
		why += " (is it that of the app, and base_url that of the workspace's region?)"
	case http.StatusForbidden:
		why += " (does the app have the permission?)"
	}
	return why
}
