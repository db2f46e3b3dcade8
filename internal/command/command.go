// Package command is what the module's commands have in common: flags that each
// have an environment variable, mistakes that are all told at once, a log, and
// an end on the first signal.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/liveactivity/liveactivity/internal/version"
)

// Main runs a command until it ends or a signal comes; a second signal ends the
// process at once. It does not return after an error.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Common are the flags that every command has.
type Common struct {
	LogFormat string           `default:"text" env:"LIVEACTIVITY_LOG_FORMAT" help:"Format of the log on standard error: text or json."`
	LogLevel  string           `default:"info" env:"LIVEACTIVITY_LOG_LEVEL" help:"Least level that is logged: debug, info, warn or error."`
	Version   kong.VersionFlag `help:"Print the version and exit."`
}

// Logger returns the logger that the flags ask for.
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
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), errors.Join(errs...)
	}
	return slog.New(slog.NewTextHandler(w, opts)), errors.Join(errs...)
}

// ErrHelp says that all that was asked for was printed.
var ErrHelp = errors.New("help")

// Parse reads the arguments and the environment into flags, a pointer to a
// struct as package kong wants it.
func Parse(flags any, name, description string, args []string, stdout, stderr io.Writer) error {
	exited := false
	parser, err := kong.New(flags,
		kong.Name(name),
		kong.Description(description),
		kong.Vars{"version": version.Version},
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
	)
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	switch {
	case exited:
		return ErrHelp
	case err != nil:
		return fmt.Errorf("%w (--help shows all flags)", err)
	}
	return nil
}

// Mistakes collects what is wrong with flags. Its zero value has nothing.
type Mistakes []error

// Check adds an error, if it is one, under the name of its flag.
func (m *Mistakes) Check(flag string, err error) {
	if err != nil {
		*m = append(*m, fmt.Errorf("%s: %w", flag, err))
	}
}

// Add adds errors that name their flags; nil is none.
func (m *Mistakes) Add(errs ...error) { *m = append(*m, errs...) }

// Err returns the mistakes as the error to end with, or nil.
func (m Mistakes) Err() error {
	if err := errors.Join(m...); err != nil {
		return fmt.Errorf("cannot start (--help shows all flags):\n%w", err)
	}
	return nil
}

// Duration reads a number of seconds or a Go duration, above zero.
func Duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && seconds < math.MaxInt64/1e9 {
		d, err = time.Duration(seconds*1e9), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("must be a number of seconds or a duration such as 4h, above zero")
	}
	return d, nil
}

// Count reads an integer above zero.
func Count(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, errors.New("must be an integer above zero")
	}
	return n, nil
}

// maxMilliseconds is a day, far beyond any sensible wait.
const maxMilliseconds = 24 * 60 * 60 * 1000

// Milliseconds reads a number of milliseconds, not below zero.
func Milliseconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxMilliseconds {
		return 0, fmt.Errorf("must be a number of milliseconds from 0 to %d", maxMilliseconds)
	}
	return time.Duration(n) * time.Millisecond, nil
}
