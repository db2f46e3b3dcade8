package servercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/nearest"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// Main is the command. It uses the process's arguments and environment, runs until it is done
// or a signal ends it, and exits with status 1 after an error. See [command.Main] for the
// signals.
//
// The calling program can set Desks, Triggers, Guide, Model, Reply and Views; opts may be
// nil. The flags and the product file set all other options, and --llm-model also sets
// Model.
func Main(opts *liveactivity.Options) {
	command.Main(program, func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return Run(ctx, args, stdout, stderr, opts)
	})
}

const program = "liveactivity-server"

// Run is Main for a program that handles signals itself: it returns once ctx has ended and
// everything is finished. It returns [command.ErrHelp] if it has only printed help. It reads
// the process's environment variables. It uses only these fields of opts: Desks, Triggers,
// Guide, Model, Reply and Views.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, opts *liveactivity.Options) error {
	var added liveactivity.Options
	if opts != nil {
		added = liveactivity.Options{Desks: opts.Desks, Triggers: opts.Triggers, Guide: opts.Guide,
			Model: opts.Model, Reply: opts.Reply, Views: opts.Views}
	}
	for _, c := range commands {
		words := strings.Fields(c.name)
		if n := len(words); len(args) >= n && slices.Equal(args[:n], words) {
			return c.run(ctx, args[n:], call{stdout: stdout, stderr: stderr, added: &added})
		}
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		words, _, _ := strings.Cut(strings.Join(args, " "), " -")
		return fmt.Errorf("there is no command %q%s (--help shows all)", words, nearest.Hint(words, commandNames()))
	}
	return server(ctx, args, stdout, stderr, added)
}

// subcommand is a command that ends on its own.
type subcommand struct {
	name string // its words, as typed after the program's name
	run  func(ctx context.Context, args []string, c call) error
}

// call is one call of a subcommand. run receives it with wrong set, adds mistakes in flags
// to it, and reports them together with its Err.
type call struct {
	stdout, stderr io.Writer
	added          *liveactivity.Options // the calling program's; never nil
	wrong          *command.Mistakes     // mistakes in the flags
}

// newSubcommand returns the subcommand with that name, whose flags are an F. It calls run
// with successfully parsed flags, and never for --help.
func newSubcommand[F any](name, description string, run func(ctx context.Context, f F, c call) error) subcommand {
	return subcommand{name, func(ctx context.Context, args []string, c call) (err error) {
		var f F
		if c.wrong, err = command.Parse(&f, nil, program+" "+name, description, args, c.stdout, c.stderr); err != nil {
			return err
		}
		out := &output{Writer: c.stdout}
		c.stdout = out
		return out.result(run(ctx, f, c))
	}}
}

// output is a subcommand's standard output. It records the first failed write. Only one
// goroutine may use it at a time.
type output struct {
	io.Writer
	failed error
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

// result returns the result of a subcommand that ended with err. A failed write is also an
// error, unless the reader has closed the pipe.
func (o *output) result(err error) error {
	switch {
	case err != nil && !errors.Is(err, o.failed):
		return err
	case o.failed == nil || errors.Is(o.failed, syscall.EPIPE):
		return nil
	}
	return fmt.Errorf("the output is not complete: %w", o.failed)
}

var commands = []subcommand{
	newSubcommand("check", checkDescription, check),
	newSubcommand("healthcheck", healthDescription, healthcheck),
	rehearseWith("intercom"),
	newSubcommand("posthog provision", postHogDescription, provisionPostHog),
	newSubcommand("proactive replay", replayDescription, replay),
	newSubcommand("send", sendDescription, send),
	newSubcommand("tail", tailDescription, tail),
	newSubcommand("version", "Prints the version. Example: liveactivity-server version --json", printVersion),
	newSubcommand("zendesk provision", provisionDescription, provision),
	rehearseWith("zendesk"),
}

// commandNames returns the commands as a user types them.
func commandNames() (names []string) {
	for _, c := range commands {
		names = append(names, c.name)
	}
	return names
}

// server is the command that serves. It returns when ctx ends and everything is finished. It
// reports all mistakes in the flags, the product file and the options together, before it
// opens anything. The log is opened first and released last.
func server(ctx context.Context, args []string, stdout, stderr io.Writer, added liveactivity.Options) error {
	var f flags
	description := "Takes page views, clicks and form submits from PostHog and shows each user's recent actions to " +
		"AI agents and help desks. Other commands end by themselves: " +
		strings.Join(commandNames(), ", ") + ". Each lists its flags with --help."
	wrong, err := command.Parse(&f, help, program, description, args, stdout, stderr)
	if err != nil {
		return err
	}
	settings := f.settings(wrong, added)
	settings.Logger, err = f.Logger(stderr)
	wrong.Add(err)
	warnings, err := settings.loadProducts(wrong.Given("--config", f.Config))
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return err
	}
	for _, warning := range warnings {
		settings.Logger.Warn(warning)
	}
	settings.warnWithoutKey()
	if len(settings.Products) == 0 && f.AdminKey == nil {
		settings.Logger.Warn("the product file names no product, and without --admin-key none can be registered")
	}
	release, err := settings.openLog(settings.Logger)
	if err != nil {
		wrong.Add(err)
		return wrong.Err()
	}
	return wrong.Named(errors.Join(settings.serve(ctx, stdout), release()))
}

// loadProducts reads the product file into the options or, without a file, creates the demo
// product. After an error the products may be incomplete.
func (s *settings) loadProducts(path string) (warnings []string, err error) {
	if path == "" {
		s.demo = s.addDemo()
		return nil, nil
	}
	file, warnings, err := loadFile(path, &s.Options)
	s.Products, s.Keys = file.Products, file.Keys
	return warnings, err
}

// loadFile loads the product file of --config. If the file cannot be read, the error names
// that flag.
func loadFile(path string, opts *liveactivity.Options) (file liveactivity.File, warnings []string, err error) {
	file, warnings, err = liveactivity.LoadFile(path, os.LookupEnv, opts)
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		err = fmt.Errorf("--config: %w", err)
	}
	return file, warnings, err
}

// load returns a product file, reduced to the product with that ID if one is given. It prints the
// file's warnings. Its error includes all mistakes in the flags so far. Without an error, a
// requested product exists.
func (c call) load(path, productID string) (file liveactivity.File, err error) {
	if c.wrong.Require("--config", path, "the product file"); path == "" {
		return file, c.wrong.Err()
	}
	file, warnings, err := loadFile(path, c.added)
	for _, warning := range warnings {
		fmt.Fprintln(c.stderr, "warning:", warning)
	}
	c.wrong.Add(err)
	if productID != "" && err == nil {
		isOther := func(p liveactivity.Product) bool { return p.ProductID != productID }
		file.Products = slices.DeleteFunc(file.Products, isOther)
		if len(file.Products) == 0 {
			c.wrong.Check("--product", fmt.Errorf("the file has no product %s", productID))
		}
	}
	return file, c.wrong.Err()
}

// warnWithoutKey logs the products for which the file has no key.
func (s *settings) warnWithoutKey() {
	for _, product := range s.Products {
		if !slices.ContainsFunc(s.Keys, func(k liveactivity.Key) bool { return k.ExternalID == product.ProductID }) {
			s.Logger.Warn("without a key nobody can read the product's activity", "product_id", product.ProductID)
		}
	}
}

// maxPrinted is the maximum number of products printed at startup.
const maxPrinted = 20

// printServed prints the served products, each with its desks, and the URLs to open.
func printServed(w io.Writer, products []liveactivity.Product, urls liveactivity.URLs) {
	for _, product := range products[:min(len(products), maxPrinted)] {
		desks := "no desk"
		if names := slices.Sorted(maps.Keys(product.IntegrationConfig.Desks)); len(names) > 0 {
			desks = strings.Join(names, ", ")
		}
		fmt.Fprintf(w, "product %s: %s\n", product.ProductID, desks)
	}
	if more := len(products) - maxPrinted; more > 0 {
		fmt.Fprintf(w, "and %d more products\n", more)
	}
	fmt.Fprintf(w, "console at %s/\nthe API is described at %s/openapi.json\n", urls.Base(), urls.Base())
}

// serve listens and serves until ctx ends and everything is finished. It listens before it
// creates the service, so that an address in use is found before anything starts, and the
// service knows the port that replaces port 0. It serves the metrics until the service has
// stopped.
func (s *settings) serve(ctx context.Context, stdout io.Writer) error {
	listener, err := serve.Listen("--addr", s.Addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	// With port 0, the actual port is known only now.
	s.LocalURL = serve.URL(listener.Addr())
	metrics, metricsListener, err := s.openMetrics()
	if err != nil {
		return err
	}
	if metrics != nil {
		defer metricsListener.Close()
	}
	service, exported, err := s.newService(ctx)
	if err != nil {
		return err
	}
	defer exported()
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	group, ctx := errgroup.WithContext(ctx)
	if metrics != nil {
		fmt.Fprintf(stdout, "metrics at http://%s/metrics\n", metricsListener.Addr())
		group.Go(func() error { return serve.UntilClosed(metrics, metricsListener) })
	}
	handler := service.Handler()
	if s.demo != nil {
		handler = s.demo.Handler(handler, service.Keys())
		printDemo(stdout, listener.Addr(), service.URLs(), s.Products[0], s.Keys[0], s.demo.Path())
	} else {
		printServed(stdout, s.Products, service.URLs())
	}
	group.Go(func() error {
		if metrics != nil {
			defer metrics.Close() // so that the metrics cover the whole shutdown
		}
		return service.ServeHandler(ctx, listener, handler)
	})
	return group.Wait()
}
