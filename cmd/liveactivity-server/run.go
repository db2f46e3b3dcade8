package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/config"
	"github.com/liveactivity/liveactivity/internal/products"
	"github.com/liveactivity/liveactivity/internal/server"
)

// flags of the command. Every flag has an environment variable. Those that must
// be parsed are taken as text, so that all mistakes are told at once.
type flags struct {
	Addr              string  `default:"127.0.0.1:8080" env:"LIVEACTIVITY_ADDR" help:"Listen address; port 0 picks a free port."`
	Config            string  `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Without it there is one product, demo, with fresh secrets."`
	DataDir           *string `env:"LIVEACTIVITY_DATA_DIR" placeholder:"DIR" help:"Folder of a database that makes everything last. Without it, and without Redis, everything is in memory only."`
	RedisURL          *string `name:"redis-url" env:"LIVEACTIVITY_REDIS_URL" placeholder:"URL" help:"Redis, Redis Cluster or Valkey that makes everything last; servers on the same one act as one service. Not together with --data-dir."`
	RedisPrefix       string  `default:"liveactivity" env:"LIVEACTIVITY_REDIS_PREFIX" help:"What all keys in Redis begin with."`
	ActivityTTL       string  `name:"activity-ttl" default:"14400" env:"ACTIVITY_TTL_S" help:"How long activity is kept, in seconds or as a duration such as 4h."`
	ActivityMaxEvents string  `default:"50" env:"ACTIVITY_MAX_EVENTS" help:"Actions kept per user, and the most a lookup returns."`
	LogMaxBytes       string  `env:"LIVEACTIVITY_LOG_MAX_BYTES" placeholder:"BYTES" help:"Size limit of each product's event log; the oldest events beyond are dropped. The default is 67108864 in memory, and 4294967296 with --data-dir or --redis-url."`
	AdminKey          string  `env:"LIVEACTIVITY_ADMIN_KEY" placeholder:"KEY" help:"Opens the admin endpoints; without it they answer 404."`
	PublicURL         string  `name:"public-url" env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The URL the outside world reaches the server at, for the URLs it prints and registers."`
	Heartbeat         string  `default:"15s" env:"LIVEACTIVITY_HEARTBEAT" help:"How long a stream may be silent before a heartbeat, in seconds or as a duration."`
	command.Common
}

// settings parses the flags and adds everything that is wrong with them.
func (f flags) settings(wrong *command.Mistakes) server.Config {
	c := server.Config{Addr: f.Addr, AdminKey: f.AdminKey, PublicURL: f.PublicURL, RedisPrefix: f.RedisPrefix}
	var err error
	c.DataDir, err = given(f.DataDir)
	wrong.Check("--data-dir", err)
	c.RedisURL, err = given(f.RedisURL)
	wrong.Check("--redis-url", err)
	c.ActivityTTL, err = command.Duration(f.ActivityTTL)
	wrong.Check("--activity-ttl", err)
	maxEvents, err := command.Count(f.ActivityMaxEvents)
	c.MaxEvents = int(maxEvents)
	wrong.Check("--activity-max-events", err)
	if f.LogMaxBytes != "" {
		c.LogMaxBytes, err = command.Count(f.LogMaxBytes)
		wrong.Check("--log-max-bytes", err)
	}
	c.Heartbeat, err = command.Duration(f.Heartbeat)
	wrong.Check("--heartbeat", err)
	return c
}

// given returns the value of a flag that may be left out, but not be empty: a
// variable that is not set must not make a server forget.
func given(value *string) (string, error) {
	if value == nil {
		return "", nil
	}
	if *value == "" {
		return "", errors.New("must not be empty; leave it out to keep everything in memory")
	}
	return *value, nil
}

// run is the command: it returns when ctx ends and everything is finished.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f flags
	const description = "Takes page views, clicks and form submits from PostHog and tells AI agents and help desks what each user just did."
	if err := command.Parse(&f, "liveactivity-server", description, args, stdout, stderr); err != nil {
		return err
	}
	var wrong command.Mistakes
	settings := f.settings(&wrong)
	log, err := f.Logger(stderr)
	wrong.Add(err, settings.Validate())
	registry, demo, err := loadProducts(f.Config)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return err
	}
	if len(registry.IDs()) == 0 && f.AdminKey == "" {
		log.Warn("the product file names no product, and without --admin-key none can be registered")
	}
	service, err := server.New(settings, registry, log)
	if err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	return service.Run(ctx, func(s *server.Server, addr net.Addr) {
		fmt.Fprintf(stdout, "listening on http://%s\n", addr)
		if demo != nil {
			printDemo(stdout, s.URLs(), *demo)
		}
	})
}

// demoProduct is the product there is when no product file names any.
const demoProduct = "demo"

// loadProducts reads the product file or, without one, makes the demo product.
func loadProducts(path string) (*products.Registry, *products.Credentials, error) {
	if path == "" {
		registry := products.New()
		demo, err := registry.AddFixed(config.Product{ProductID: demoProduct})
		return registry, &demo, err
	}
	file, err := config.Load(path, os.LookupEnv)
	if err != nil {
		return nil, nil, err
	}
	registry, err := products.FromFile(file)
	return registry, nil, err
}

// demoUser is whom the printed curl line reports on.
const demoUser = "ada"

// printDemo tells how to reach the demo product. The curl line reports a page
// view and then looks it up.
func printDemo(w io.Writer, urls server.URLs, c products.Credentials) {
	const now = `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'` // pasted again, it is another page view
	event := `{"event":"$pageview","distinct_id":"` + demoUser + `","timestamp":"` + now +
		`","properties":{"$session_id":"demo-session","$current_url":"https://app.example.com/dashboard"}}`
	curl := []string{
		"curl -sS",
		"-o /dev/null -H 'X-PostHog-Secret: " + c.WebhookSecret + "' -d '" + event + "'", urls.Webhook(demoProduct),
		"--next -sS -H 'Authorization: Bearer " + c.Key + "'", urls.LiveActivity(demoProduct, demoUser),
	}
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

`, demoProduct, c.Key, c.WebhookSecret, c.CaptureToken,
		urls.LiveActivity(demoProduct, "{user_id}"), urls.Stream(demoProduct), urls.MCP(), urls.Webhook(demoProduct),
		c.CaptureToken, urls.Base(), strings.Join(curl, " "))
}
