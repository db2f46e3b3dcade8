// Command consumer prints the actions of each session of a product as they
// happen. It saves its position in a file: however it ends, it continues there
// when it is restarted, and misses nothing that the server still has.
//
// Start a server, and the consumer with the key that the server prints:
//
//	go run ./cmd/liveactivity-server
//	go run ./examples/consumer --token KEY
//
// Paste the server's curl line in a third terminal. Then stop the consumer,
// paste the line again, and restart the consumer: it prints the actions that it
// missed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run consumes the stream until ctx ends or the server refuses it.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("consumer", flag.ExitOnError)
	url := flags.String("stream-url", "http://127.0.0.1:8080/stream/demo", "the product's event stream")
	token := flags.String("token", "", "a key of the product; $LIVEACTIVITY_STREAM_TOKEN without it")
	file := flags.String("cursor-file", "consumer.cursor", "file of the last printed position")
	_ = flags.Parse(args) // exits if they are wrong

	out := &printer{w: stdout}
	consumer, err := stream.NewConsumer(*url, cmp.Or(*token, os.Getenv("LIVEACTIVITY_STREAM_TOKEN")),
		stream.Handlers{Actions: out.actions, Gap: out.gap},
		&stream.ConsumerOptions{
			Cursor: cursorFile(*file),
			Since:  time.Unix(0, 0), // the first time, begin with everything retained
			Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// printer prints each batch as a whole, because batches of different sessions
// arrive concurrently.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

// actions is called again with the same batch if it returns an error.
func (p *printer) actions(_ context.Context, b activity.Batch) error {
	who := cmp.Or(b.Email, b.UserID, "somebody")
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.w, "%s, %s\n%s\n\n", cmp.Or(b.SessionID, "no session"), who, b.Text())
	return err
}

func (p *printer) gap(_, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.w, "the server has lost the entries that follow\n\n")
}

// cursorFile is a [stream.CursorStore] that uses the file with that name.
type cursorFile string

// Load returns "" if the file does not exist yet.
func (f cursorFile) Load(context.Context) (string, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// Save writes another file and renames it, so that a process killed in between
// leaves the old or the new cursor, never half of one. To survive a power
// failure as well, call Sync on the other file.
func (f cursorFile) Save(_ context.Context, cursor string) error {
	other := string(f) + ".new"
	if err := os.WriteFile(other, []byte(cursor), 0o600); err != nil {
		return err
	}
	return os.Rename(other, string(f))
}
