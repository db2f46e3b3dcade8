package servercmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/demo"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/proactive"
)

// demoProduct is the product that is served without a product file.
const demoProduct = "demo"

// addDemo adds the demo product to the options, with its own desk, which answers even
// without a language model. Its secrets are newly generated. The calling program's desks
// stay.
func (s *settings) addDemo() *demo.Demo {
	product, key := liveactivity.NewProduct(demoProduct)
	d := demo.New(demo.Product{ID: product.ProductID, Key: key.Key, Token: product.CaptureTokens[0]})
	product.Identity.Unverified = "replies"
	product.IntegrationConfig = demoConfig()
	product.IntegrationConfig.Desks = map[string]json.RawMessage{demo.Name: json.RawMessage("{}")}
	s.Products, s.Keys = []liveactivity.Product{product}, []liveactivity.Key{key}
	s.Desks = append(slices.Clone(productfile.NewExtensions(s.Desks, nil).Desks), d.Kind())
	if s.Model == nil && s.Reply == nil {
		s.Reply = demo.Reply
	}
	return d
}

// demoConfig is the configuration of the demo product. Its times are short, so that a visitor
// sees everything within two minutes.
func demoConfig() liveactivity.IntegrationConfig {
	return liveactivity.IntegrationConfig{
		Notes: &liveactivity.Notes{DebounceMS: new(1000), IntervalS: new(5), SummaryThreshold: new(15),
			PreLinkWindowS: new(15 * 60)},
		Proactive: &proactive.Config{
			Enabled:             true,
			Body:                "Not sure which one? I can compare them for you.",
			ReplyOptionLabels:   []string{"Compare them", "Ask a person"},
			InteractionTimeoutS: new(30),
			CooldownS:           new(20),
			AssistanceIdleS:     new(5), // after a message, until the next offer
			IdleTeardown:        proactive.KeepOnIdle,
		},
	}
}

// printDemo prints how to reach the demo product. The curl line reports a page view and
// then reads it back.
func printDemo(w io.Writer, listening net.Addr, urls liveactivity.URLs,
	product liveactivity.Product, key liveactivity.Key, page string,
) {
	const now = `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'` // each paste is another page view
	event := `{"event":"$pageview","distinct_id":"ada","timestamp":"` + now +
		`","properties":{"$session_id":"demo-session","$current_url":"https://app.example.com/dashboard"}}`
	curl := []string{
		"curl -sS",
		"-o /dev/null -H 'X-PostHog-Secret: " + product.WebhookSecret + "' -d '" + event + "'", urls.Webhook(demoProduct),
		"--next -sS -H 'Authorization: Bearer " + key.Key + "'", urls.LiveActivity(demoProduct, "ada"),
	}
	token := product.CaptureTokens[0]
	if demo.OpensAt(listening) {
		fmt.Fprintf(w, "\nTo see it work, open this on this machine: a shop, a help desk and the console.\n\n  %s%s\n",
			serve.URL(listening), page)
	} else {
		fmt.Fprint(w, "\nTo see it work, start with --addr 127.0.0.1:8080 and open the address it prints: "+
			"a shop, a help desk and the console.\n")
	}
	fmt.Fprintf(w, `
There is no product file, so there is one product, %q. Its secrets are new at every start:

  key             %s
  webhook secret  %s
  capture token   %s

  console         %s/
  live activity   %s
  event stream    %s
  MCP server      %s
  webhook         %s
  posthog-js      posthog.init('%s', {api_host: '%s', capture_pageview: 'history_change'})

To report a page view and see it as live activity, paste this:

%s

`, demoProduct, key.Key, product.WebhookSecret, token,
		urls.Base(), urls.LiveActivity(demoProduct, "{user_id}"), urls.Stream(demoProduct), urls.MCP(),
		urls.Webhook(demoProduct), token, urls.Base(), strings.Join(curl, " "))
}
