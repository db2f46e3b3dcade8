// Package command is the common part of the module's commands: flags that each
// have an environment variable, a joint report of all mistakes, a log, and a
// graceful shutdown on the first signal.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/version"
)

// Main runs a command until it ends or a signal arrives: SIGTERM, SIGINT, or
// SIGHUP unless that was ignored from the start (nohup). A second signal ends the
// process immediately. Main does not return after an error.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	memlimit.Apply()
	signal.Ignore(syscall.SIGPIPE) // otherwise writing to a closed log pipe would end the process
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Common holds the flags that every command has.
type Common struct {
	LogFormat string           `default:"text" env:"LIVEACTIVITY_LOG_FORMAT" help:"Log format on stderr: text or json."`
	LogLevel  string           `default:"info" env:"LIVEACTIVITY_LOG_LEVEL" help:"Log level: debug, info, warn or error."`
	Version   kong.VersionFlag `help:"Print the version and exit."`
}

// Logger returns the logger that the flags configure, and makes it slog's default. The logger
// is usable even if there is an error, which names the flags.
func (c Common) Logger(w io.Writer) (*slog.Logger, error) {
	var errs []error
	var least slog.Level
	if err := least.UnmarshalText([]byte(c.LogLevel)); err != nil {
		errs = append(errs, errors.New("--log-level: must be debug, info, warn or error"))
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		errs = append(errs, errors.New("--log-format: must be text or json"))
	}
	opts := &slog.HandlerOptions{Level: least}
	var handler slog.Handler = slog.NewTextHandler(w, opts)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(w, opts)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	return log, errors.Join(errs...)
}

// ErrHelp means that the requested help was printed.
var ErrHelp = errors.New("help")

// Parse reads arguments and environment variables into flags, a pointer to a struct in the form
// of package kong, whose tags may refer to texts of help as ${name}. The caller adds invalid
// values to the returned Mistakes, which is nil if there is an error. After --help or
// --version, which are printed, the error is ErrHelp. An argument takes precedence over the
// environment, and that over a default.
func Parse(
	flags any, help kong.Vars, name, description string, args []string, stdout, stderr io.Writer,
) (*Mistakes, error) {
	exited := false
	parser, err := kong.New(flags, kong.Name(name), kong.Description(description),
		kong.Vars{"version": version.Version()}, help,
		kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited:
		return nil, ErrHelp
	case err != nil:
		says := hyphen.ReplaceAllString(err.Error(), "$1: needs = before a value that begins with -")
		return nil, fmt.Errorf("%s (--help shows all flags)", withoutValue.ReplaceAllString(says, "$1: needs a value"))
	}
	return &Mistakes{variables: variables(parsed)}, nil
}

// withoutValue matches kong's message for a flag that is last or followed by another
// flag, and hyphen the one for a flag followed by a value such as -1.
var (
	withoutValue = regexp.MustCompile(`^(--[a-z-]+): expected .* value but got .*$`)
	hyphen       = regexp.MustCompile(`^(--[a-z-]+): expected .* value but got "-[^-].*$`)
)

// variables maps each flag that was set by an environment variable to that
// variable.
func variables(parsed *kong.Context) map[string]string {
	from := map[string]string{}
	for _, flag := range parsed.Flags() {
		for _, name := range flag.Envs {
			if _, ok := os.LookupEnv(name); ok {
				from["--"+flag.Name] = name
			}
		}
	}
	for _, part := range parsed.Path {
		if part.Flag != nil {
			delete(from, "--"+part.Flag.Name) // arguments take precedence
		}
	}
	return from
}

// Mistakes collects invalid flags. Each is named as it was set: by the flag or by its
// environment variable. Only one goroutine may use it.
type Mistakes struct {
	variables map[string]string // for flags that were set by one
	errs      []error
}

// Check adds an error under the name of its flag. It ignores nil.
func (m *Mistakes) Check(flag string, err error) {
	if err != nil {
		m.Add(fmt.Errorf("%s: %w", flag, err))
	}
}

// Given returns the value of an optional flag, or "" if it is omitted. An empty
// value is a mistake: an unset variable must not silently disable something.
func (m *Mistakes) Given(flag string, value *string) string {
	if value == nil {
		return ""
	}
	if *value == "" {
		m.Check(flag, errors.New("must not be empty; leave it out instead"))
	}
	return *value
}

// Require adds a mistake if a flag has no value. The last argument describes the flag in the
// message.
func (m *Mistakes) Require(flag, value, what string) {
	if value == "" {
		m.Check(flag, errors.New("is missing; it is "+what))
	}
}

// Add adds errors that begin with their flags' names. It ignores nil.
func (m *Mistakes) Add(errs ...error) { m.errs = append(m.errs, errs...) }

// Err returns the mistakes as the error to exit with, or nil.
func (m *Mistakes) Err() error {
	err := errors.Join(m.errs...)
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot start (--help shows all flags):\n%w", m.Named(err))
}

// Named returns an error that names flags as they were set, or nil for nil. It changes lines
// that begin with "--flag: " or "--one, --two: "; the error's causes are lost.
func (m *Mistakes) Named(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(subject.ReplaceAllStringFunc(err.Error(), func(names string) string {
		return flag.ReplaceAllStringFunc(names, func(name string) string { return cmp.Or(m.variables[name], name) })
	}))
}

// subject matches the flags at the beginning of a line, and flag one of them.
var (
	subject = regexp.MustCompile(`(?m)^--[a-z-]+(?:, --[a-z-]+)*: `)
	flag    = regexp.MustCompile(`--[a-z-]+`)
)

// Duration returns the value of a flag that is a number of seconds or a Go duration, above
// zero. It returns 0 after a mistake.
func (m *Mistakes) Duration(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && seconds < math.MaxInt64/1e9 {
		d, err = time.Duration(seconds*1e9), nil
	}
	if err != nil || d <= 0 {
		m.Check(flag, errors.New("must be a number of seconds or a duration such as 4h, above zero"))
		return 0
	}
	return d
}

// Count returns the value of a flag that is an integer above zero. It returns 0 after
// a mistake.
func (m *Mistakes) Count(flag, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		m.Check(flag, errors.New("must be an integer above zero"))
		return 0
	}
	return n
}

// maxMilliseconds is a day, far beyond any sensible wait.
const maxMilliseconds = 24 * 60 * 60 * 1000

// Milliseconds returns the value of a flag that is a number of milliseconds, from 0 to a
// day. It returns 0 after a mistake.
func (m *Mistakes) Milliseconds(flag, text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxMilliseconds {
		m.Check(flag, fmt.Errorf("must be a number of milliseconds from 0 to %d", maxMilliseconds))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
