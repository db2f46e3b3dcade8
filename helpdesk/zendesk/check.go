package zendesk

import (
	"context"
	"errors"
	"net/http"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// Check implements [helpdesk.Checker]. It only reads, and stops if it cannot read the credentials'
// user. The right to set up webhooks is not required: without it the finding is still OK.
func (c *Client) Check(ctx context.Context) []helpdesk.Finding {
	u, err := c.user(ctx)
	if err != nil {
		return []helpdesk.Finding{{Text: unusable(err)}}
	}
	findings := []helpdesk.Finding{u.finding()}
	if u.OnlyPrivateComments {
		findings = append(findings,
			helpdesk.Finding{Text: "The user may write private comments only: notes work, chat replies do not."})
	}
	_, _, err = c.objects(ctx)
	switch {
	case err == nil:
		findings = append(findings, helpdesk.Finding{OK: true, Text: "The user may set up webhooks and triggers."})
	case isStatus(err, http.StatusForbidden):
		findings = append(findings, helpdesk.Finding{OK: true, Text: "The user may not set up webhooks and triggers; " +
			"that takes an administrator, and is not needed once they exist."})
	default:
		findings = append(findings, helpdesk.Finding{Text: "The webhooks and triggers could not be read: " + unusable(err)})
	}
	if len(c.config.SigningSecret) == 0 {
		findings = append(findings, helpdesk.Finding{Text: "Without signing_secret every webhook is accepted, from any " +
			"sender, and chat replies are off."})
	}
	return findings
}

// finding reports whether the user can write.
func (u user) finding() helpdesk.Finding {
	switch {
	case u.Suspended:
		return helpdesk.Finding{Text: "The credentials belong to a suspended user."}
	case u.Role != "agent" && u.Role != "admin":
		return helpdesk.Finding{Text: "The credentials belong to an end user; only agents and administrators can write " +
			"internal notes."}
	case u.Role == "admin":
		return helpdesk.Finding{OK: true, Text: "The credentials work; they are an administrator's."}
	}
	return helpdesk.Finding{OK: true,
		Text: "The credentials work; they are an agent's. Notes reach the tickets that this agent can see."}
}

// unusable explains in a sentence why a request failed. It names the field to correct if one
// is likely wrong, and contains no text from the answer.
func unusable(err error) string {
	failed, _ := errors.AsType[*helpdesk.APIError](err)
	switch {
	case failed == nil:
		return "The request failed."
	case isStatus(err, http.StatusUnauthorized):
		return "Zendesk refuses the credentials."
	case isStatus(err, http.StatusForbidden):
		return "Zendesk accepts the credentials and forbids their use: token access may be off, or the token lacks the " +
			"scopes read and write."
	case isStatus(err, http.StatusNotFound), 0 < failed.Status && failed.Status < http.StatusBadRequest:
		// A failure with a lower status is a redirect, or a page instead of JSON.
		return "There is no Zendesk account at base_url."
	case errors.Is(err, errNoCredentials):
		return "There are no credentials: give email and api_token, or oauth_token, or oauth_client_id and " +
			"oauth_client_secret."
	case failed.Status == 0 && failed.Misconfigured:
		// Zendesk may show a stranger an anonymous user; see user.
		return "The credentials belong to no user of the account."
	case failed.Op == opToken && failed.Misconfigured:
		return "Zendesk gives no token to the OAuth client: check oauth_client_id and oauth_client_secret, and that the " +
			"client may use client credentials."
	case failed.Status == 0:
		return "Zendesk cannot be reached at base_url."
	case failed.Status == http.StatusTooManyRequests:
		return "The account's rate limit is used up; try again in a minute."
	}
	return "Zendesk answers " + http.StatusText(failed.Status) + "."
}

// isStatus reports whether err is an answer with the given status.
func isStatus(err error, status int) bool {
	failed, ok := errors.AsType[*helpdesk.APIError](err)
	return ok && failed.Status == status
}
