package servercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/posthogapi"
)

// posthogFlags are the flags of posthog provision.
type posthogFlags struct {
	Config      string `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Required."`
	Product     string `placeholder:"ID" help:"The product that PostHog reports to. Required."`
	PublicURL   string `env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The server's URL for PostHog. Required."`
	PostHogHost string `name:"posthog-host" env:"POSTHOG_HOST" placeholder:"URL" help:"PostHog's own URL. Required."`
	Project     string `placeholder:"N" help:"The number of the PostHog project, as in its URL. Required."`
	DryRun      bool   `help:"Only print the changes."`
	Remove      bool   `help:"Remove the destination."`
	command.Common
}

// apply creates, updates or removes the destination with that name or, with DryRun, only
// reports the outcome. It prints the events that the destination cannot send.
func (f *posthogFlags) apply(ctx context.Context, api *posthogapi.API, name string, product liveactivity.Product,
	stdout io.Writer,
) (posthogapi.Outcome, error) {
	if f.Remove {
		return api.Remove(ctx, name, f.DryRun)
	}
	events, patterns := reported(product.Events)
	for _, pattern := range patterns {
		fmt.Fprintf(stdout, "events %q: PostHog sends no events by the beginning of their name; "+
			"add them in its page by hand\n", pattern)
	}
	return api.Provision(ctx, posthogapi.Destination{Name: name, Secret: product.WebhookSecret, Events: events,
		URL: strings.TrimRight(f.PublicURL, "/") + "/webhook/" + url.PathEscape(f.Product)}, f.DryRun)
}

// reported returns the events that a product's destination sends: those that matter for every
// product, and those that the product lists. A destination does not support patterns, so they
// are returned separately.
func reported(listed liveactivity.EventRules) (names, patterns []string) {
	names = []string{"$pageview", "$screen", "$autocapture", "$identify", "$set", "$create_alias"}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if strings.HasSuffix(name, "*") {
			patterns = append(patterns, name)
		} else if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, patterns
}

const postHogDescription = "" +
	"Creates the webhook destination by which a PostHog project reports to a product, or updates " +
	"it where the address or the secret has changed. It can be run again. The environment variable POSTHOG_API_KEY " +
	"holds a personal API key with the scopes hog_function:read and hog_function:write. Example: " +
	"POSTHOG_API_KEY=phx_… liveactivity-server posthog provision --config products.json --product acme " +
	"--public-url https://live.example.com --posthog-host https://eu.posthog.com --project 12345"

// provisionPostHog is the command that sets up the webhook destination in a PostHog project.
// It reads the key only from the environment, since other users of the machine can read
// arguments.
func provisionPostHog(ctx context.Context, f posthogFlags, c call) error {
	key := os.Getenv("POSTHOG_API_KEY")
	if key == "" {
		c.wrong.Add(errors.New("POSTHOG_API_KEY: is missing; it is a personal API key of PostHog"))
	}
	c.wrong.Require("--product", f.Product, "the id of a product of the file")
	if !f.Remove {
		c.checkURL("--public-url", f.PublicURL, "https://live.example.com")
	}
	c.wrong.Require("--project", f.Project, "the number of the PostHog project")
	api, err := posthogapi.New(f.PostHogHost, f.Project, key)
	c.wrong.Check("--posthog-host", err)
	file, err := c.load(f.Config, f.Product)
	if err != nil {
		return err
	}
	product := file.Products[0]
	if product.WebhookSecret == "" && !f.Remove {
		return fmt.Errorf("--product: the product %s has no webhook_secret for PostHog to send", f.Product)
	}
	name := posthogapi.Name(f.Product)
	outcome, err := f.apply(ctx, api, name, product, c.stdout)
	if err != nil {
		return err
	}
	would := ""
	if f.DryRun && outcome != posthogapi.Present && outcome != posthogapi.Absent {
		would = "would be "
	}
	fmt.Fprintf(c.stdout, "destination %q: %s%s\n", name, would, outcome)
	return nil
}
