package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/liveactivity/liveactivity/internal/config"
	"github.com/liveactivity/liveactivity/internal/products"
	"github.com/liveactivity/liveactivity/internal/server"
	"github.com/liveactivity/liveactivity/internal/version"
)

// flags of the command. Every flag has an environment variable. Those that must
// be parsed are taken as text, so that all mistakes are told at once.
type flags struct {
	Addr              string           `default:"127.0.0.1:8080" env:"LIVEACTIVITY_ADDR" help:"Listen address; port 0 picks a free port."`
	Config            string           `env:"LIVEACTIVITY_CONFIG" placeholder:"FILE" help:"Product file (JSON). Without it there is one product, demo, with fresh secrets."`
	DataDir           *string          `env:"LIVEACTIVITY_DATA_DIR" placeholder:"DIR" help:"Folder of a database that makes everything last. Without it, and without Redis, everything is in memory only."`
	RedisURL          *string          `name:"redis-url" env:"LIVEACTIVITY_REDIS_URL" placeholder:"URL" help:"Redis, Redis Cluster or Valkey that makes everything last; servers on the same one act as one service. Not together with --data-dir."`
	RedisPrefix       string           `default:"liveactivity" env:"LIVEACTIVITY_REDIS_PREFIX" help:"What all keys in Redis begin with."`
	ActivityTTL       string           `name:"activity-ttl" default:"14400" env:"ACTIVITY_TTL_S" help:"How long activity is kept, in seconds or as a duration such as 4h."`
	ActivityMaxEvents string           `default:"50" env:"ACTIVITY_MAX_EVENTS" help:"Actions kept per user, and the most a lookup returns."`
	LogMaxBytes       string           `env:"LIVEACTIVITY_LOG_MAX_BYTES" placeholder:"BYTES" help:"Size limit of each product's event log; the oldest events beyond are dropped. The default is 67108864 in memory, and 4294967296 with --data-dir or --redis-url."`
	AdminKey          string           `env:"LIVEACTIVITY_ADMIN_KEY" placeholder:"KEY" help:"Opens the admin endpoints; without it they answer 404."`
	PublicURL         string           `name:"public-url" env:"LIVEACTIVITY_PUBLIC_URL" placeholder:"URL" help:"The URL the outside world reaches the server at, for the URLs it prints and registers."`
	Heartbeat         string           `default:"15s" env:"LIVEACTIVITY_HEARTBEAT" help:"How long a stream may be silent before a heartbeat, in seconds or as a duration."`
	LogFormat         string           `default:"text" env:"LIVEACTIVITY_LOG_FORMAT" help:"Format of the log on standard error: text or json."`
	LogLevel          string           `default:"info" env:"LIVEACTIVITY_LOG_LEVEL" help:"Least level that is logged: debug, info, warn or error."`
	Version           kong.VersionFlag `help:"Print the version and exit."`
}

// settings are the flags, parsed.
type settings struct {
	server server.Config
	log    func(io.Writer) *slog.Logger
}

// settings parses the flags and returns everything that is wrong with them.
func (f flags) settings() (settings, error) {
	var errs []error
	check := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	s := settings{server: server.Config{Addr: f.Addr, AdminKey: f.AdminKey, PublicURL: f.PublicURL, RedisPrefix: f.RedisPrefix}}
	var err error
	s.server.DataDir, err = given(f.DataDir)
	check("--data-dir", err)
	s.server.RedisURL, err = given(f.RedisURL)
	check("--redis-url", err)
	s.server.ActivityTTL, err = parseDuration(f.ActivityTTL)
	check("--activity-ttl", err)
	maxEvents, err := parseCount(f.ActivityMaxEvents)
	s.server.MaxEvents = int(maxEvents)
	check("--activity-max-events", err)
	if f.LogMaxBytes != "" {
		s.server.LogMaxBytes, err = parseCount(f.LogMaxBytes)
		check("--log-max-bytes", err)
	}
	s.server.Heartbeat, err = parseDuration(f.Heartbeat)
	check("--heartbeat", err)
	s.log, err = parseLog(f.LogFormat, f.LogLevel)
	errs = append(errs, err, s.server.Validate())
	return s, errors.Join(errs...)
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

// parseDuration reads a number of seconds or a Go duration, above zero.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && seconds < math.MaxInt64/1e9 {
		d, err = time.Duration(seconds*1e9), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("must be a number of seconds or a duration such as 4h, above zero")
	}
	return d, nil
}

// parseCount reads an integer above zero.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, errors.New("must be an integer above zero")
	}
	return n, nil
}

// parseLog returns what makes the logger.
func parseLog(format, level string) (func(io.Writer) *slog.Logger, error) {
	var errs []error
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		errs = append(errs, errors.New("--log-level: must be debug, info, warn or error"))
	}
	if format != "text" && format != "json" {
		errs = append(errs, errors.New("--log-format: must be text or json"))
	}
	opts := &slog.HandlerOptions{Level: least}
	return func(w io.Writer) *slog.Logger {
		if format == "json" {
			return slog.New(slog.NewJSONHandler(w, opts))
		}
		return slog.New(slog.NewTextHandler(w, opts))
	}, errors.Join(errs...)
}

// errHelp says that all that was asked for was printed.
var errHelp = errors.New("help")

// run is the command: it returns when ctx ends and everything is finished.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parse(args, stdout, stderr)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	set, err := f.settings()
	registry, demo, productsErr := loadProducts(f.Config)
	if err = errors.Join(err, productsErr); err != nil {
		return fmt.Errorf("cannot start (--help shows all flags):\n%w", err)
	}
	log := set.log(stderr)
	if len(registry.IDs()) == 0 && f.AdminKey == "" {
		log.Warn("the product file names no product, and without --admin-key none can be registered")
	}
	service, err := server.New(set.server, registry, log)
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

// parse reads the flags and the environment.
func parse(args []string, stdout, stderr io.Writer) (f flags, err error) {
	exited := false
	parser, err := kong.New(&f,
		kong.Name("liveactivity-server"),
		kong.Description("Takes page views, clicks and form submits from PostHog and tells AI agents and help desks what each user just did."),
		kong.Vars{"version": version.Version},
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
	)
	if err != nil {
		return f, err
	}
	_, err = parser.Parse(args)
	if exited {
		return f, errHelp
	}
	if err != nil {
		return f, fmt.Errorf("%w (--help shows all flags)", err)
	}
	return f, nil
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
