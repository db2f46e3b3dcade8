package intercom

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Check implements [helpdesk.Checker]. It only reads, so it cannot find out whether the app may
// write, and it stops if it cannot read the token's owner.
func (c *Client) Check(ctx context.Context) []helpdesk.Finding {
	var findings []helpdesk.Finding
	if c.config.ClientSecret == "" {
		findings = append(findings, helpdesk.Finding{Text: "Without client_secret every webhook is refused. It is under " +
			"Basic information of the app in Intercom's Developer Hub."})
	}
	me, err := c.me(ctx)
	if err != nil {
		return append(findings, helpdesk.Finding{Text: unusable(err)})
	}
	findings = append(findings, helpdesk.Finding{OK: true, Text: "The access token works; it belongs to " + me.Name +
		" in the workspace " + me.App.Name + "."}, c.checkAdmin(ctx, me))
	for _, may := range []struct{ what, path string }{
		{"read conversations", "/conversations?per_page=1"}, {"read contacts", "/contacts?per_page=1"}} {
		if err := c.get(ctx, may.what, may.path, nil); err != nil {
			findings = append(findings, helpdesk.Finding{Text: "The app cannot " + may.what + ": " + unusable(err)})
		} else {
			findings = append(findings, helpdesk.Finding{OK: true, Text: "The app can " + may.what + "."})
		}
	}
	return findings
}

// checkAdmin reports whether the writing admin exists and may write. That admin is the
// configured one, or else writer, the token's owner.
func (c *Client) checkAdmin(ctx context.Context, writer admin) helpdesk.Finding {
	if adminID := c.config.AdminID; adminID != "" {
		writer = admin{}
		if err := c.get(ctx, "read admin", "/admins/"+url.PathEscape(adminID), &writer); err != nil {
			return helpdesk.Finding{Text: "The teammate with this admin_id cannot be read: " + unusable(err)}
		}
	}
	if seat := writer.HasInboxSeat; seat != nil && !*seat {
		return helpdesk.Finding{Text: "Notes are written in the name of " + writer.Name + ", who has no Inbox seat."}
	}
	return helpdesk.Finding{OK: true, Text: "Notes are written in the name of " + writer.Name + "."}
}

// unusable explains in a sentence why a request failed. It names the field to correct if one
// is likely wrong, and contains no text from the answer.
func unusable(err error) string {
	failed, _ := errors.AsType[*helpdesk.APIError](err)
	switch {
	case failed == nil:
		return "The request failed."
	case errors.Is(err, errNoToken):
		return "There is no access_token."
	case errors.Is(err, errNoOwner):
		return "The access token belongs to no teammate; configure admin_id."
	case failed.Status == 0:
		return "Intercom cannot be reached at base_url."
	case failed.Status == http.StatusUnauthorized:
		return "Intercom refuses the access token; it may have been replaced, or base_url may belong to another region."
	case failed.Status == http.StatusForbidden:
		return "Intercom accepts the access token and forbids this: the app lacks the permission, or the workspace the " +
			"plan."
	case failed.Code == "admin_not_found":
		return "There is no such teammate."
	case failed.Status == http.StatusNotFound, failed.Status < http.StatusBadRequest:
		// A failure with a lower status is a redirect, or a page instead of JSON.
		return "There is no Intercom at base_url."
	case failed.Status == http.StatusTooManyRequests:
		return "The app's rate limit is used up; try again in ten seconds."
	}
	return "Intercom answers " + http.StatusText(failed.Status) + "."
}
