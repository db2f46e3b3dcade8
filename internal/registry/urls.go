package registry

import (
	"net/url"
	"strings"
)

// URLs are the addresses of a service.
type URLs struct{ base string }

// NewURLs returns the addresses of a service at this URL.
func NewURLs(base string) URLs { return URLs{strings.TrimRight(base, "/")} }

// Webhook is the URL to which PostHog posts a product's events.
func (u URLs) Webhook(productID string) string { return u.base + "/webhook/" + productID }

// Stream is the URL of a product's event stream.
func (u URLs) Stream(productID string) string { return u.base + "/stream/" + productID }

// LiveActivity is the URL for looking up a user; the user ID may be a
// placeholder in braces.
func (u URLs) LiveActivity(productID, userID string) string {
	if userID != "{user_id}" {
		userID = url.PathEscape(userID)
	}
	return u.base + "/users/" + productID + "/" + userID + "/live-activity"
}

// MCP is the URL of the MCP server.
func (u URLs) MCP() string { return u.base + "/mcp" }

// Base is the host to configure in PostHog's SDKs.
func (u URLs) Base() string { return u.base }
