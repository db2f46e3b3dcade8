package servercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/stream"
)

// tailFlags are the flags of tail.
type tailFlags struct {
	clientFlags
	Since *string `placeholder:"DURATION" help:"Start that long ago, such as 10m; by default now."`
	command.Common
}

const tailDescription = "Prints a product's event stream as sentences, live. Example: " +
	"liveactivity-server tail --config products.json --product acme --since 10m"

// tail is the command that prints the stream in words until ctx ends, which is no error, or
// until output fails. It reconnects automatically, and ends if the server refuses the
// stream.
func tail(ctx context.Context, f tailFlags, c call) error {
	from := f.client(access.Stream, c)
	if from.key == "" {
		c.wrong.Check("--key", errors.New("is missing, and no product file has one with the scope stream"))
	}
	log, err := f.Logger(c.stderr)
	c.wrong.Add(err)
	opts := &stream.ConsumerOptions{Logger: log}
	if since := c.wrong.Given("--since", f.Since); since != "" {
		opts.Since = time.Now().Add(-c.wrong.Duration("--since", since))
	}
	if err := c.wrong.Err(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	print := printer(c.stdout, end)
	consumer, err := stream.NewConsumer(from.url("/stream/", ""), from.key, stream.Handlers{
		Actions: func(_ context.Context, b activity.Batch) error {
			for _, a := range b.Actions {
				print(a.TimestampStart, cmp.Or(a.Email, a.UserID, b.SessionID), a.Sentence())
			}
			return nil
		},
		Summary: func(_ context.Context, s stream.Summary) error {
			print(s.ForwardedAt, cmp.Or(s.Email, s.SessionID), "summary: "+s.Text)
			return nil
		},
		Gap: func(string, string) { print(activity.Seconds(time.Now()), "-", "entries are missing here") },
	}, opts)
	if err != nil {
		return err
	}
	if err := consumer.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// printer returns a function, safe for concurrent use, that prints a line with time, user and
// text. The values are untrusted, so they are made printable. If a line cannot be written, it
// calls failed.
func printer(w io.Writer, failed func()) func(at float64, who, text string) {
	var mu sync.Mutex
	return func(at float64, who, text string) {
		mu.Lock()
		defer mu.Unlock()
		clock := time.UnixMicro(int64(at * 1e6)).Format(time.TimeOnly)
		if _, err := fmt.Fprintf(w, "%s  %s  %s\n", clock, printable(who), printable(text)); err != nil {
			failed()
		}
	}
}
