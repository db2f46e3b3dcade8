package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/liveactivity/liveactivity"
)

// demoProduct is the product there is when no product file names any.
const demoProduct = "demo"

// demoUser is the user in the printed curl line.
const demoUser = "ada"

// printDemo shows how to reach the demo product. The curl line reports a page
// view and then looks it up.
func printDemo(w io.Writer, urls liveactivity.URLs, product liveactivity.Product, key liveactivity.Key) {
	const now = `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'` // pasted again, it is another page view
	event := `{"event":"$pageview","distinct_id":"` + demoUser + `","timestamp":"` + now +
		`","properties":{"$session_id":"demo-session","$current_url":"https://app.example.com/dashboard"}}`
	curl := []string{
		"curl -sS",
		"-o /dev/null -H 'X-PostHog-Secret: " + product.WebhookSecret + "' -d '" + event + "'", urls.Webhook(demoProduct),
		"--next -sS -H 'Authorization: Bearer " + key.Key + "'", urls.LiveActivity(demoProduct, demoUser),
	}
	token := product.CaptureTokens[0]
	fmt.Fprintf(w, `
There is no product file, so there is one product, %q. Its secrets are new at every start:

  key             %s
  webhook secret  %s
  capture token   %s

  live activity   %s
  event stream    %s
  MCP server      %s
  webhook         %s
  posthog-js      posthog.init('%s', {api_host: '%s'})

To report a page view and see it as live activity, paste this:

%s

`, demoProduct, key.Key, product.WebhookSecret, token,
		urls.LiveActivity(demoProduct, "{user_id}"), urls.Stream(demoProduct), urls.MCP(), urls.Webhook(demoProduct),
		token, urls.Base(), strings.Join(curl, " "))
}
