// Command consumer prints the actions of each session of a product as they
// happen. It keeps its place in a file: however it ends, it goes on there when it
// is started again, and misses nothing that the server still has.
//
// Start a server, and the consumer with the key that the server prints:
//
//	go run ./cmd/liveactivity-server
//	go run ./examples/consumer --token KEY
//
// Paste the server's curl line in a third terminal. Then stop the consumer,
// paste the line again, and start the consumer: it prints the actions it missed.
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
	_ = flags.Parse(args) // ends the program when they are wrong

	out := &printer{w: stdout}
	consumer, err := stream.NewConsumer(*url, cmp.Or(*token, os.Getenv("LIVEACTIVITY_STREAM_TOKEN")),
		stream.Handlers{Actions: out.actions, Gap: out.gap},
		&stream.ConsumerOptions{
			Cursor: cursorFile(*file),
			Since:  time.Unix(0, 0), // the first time, begin with all there is
			Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// printer prints batches whole: batches of different sessions arrive concurrently.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

// actions is called again with the same batch when it returns an error.
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

// cursorFile is a [stream.CursorStore] in the file of that name.
type cursorFile string

// Load returns "" before the file exists.
func (f cursorFile) Load(context.Context) (string, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// Save writes another file and gives it the name, so that a process killed
// meanwhile leaves the old cursor or the new one, and never half of one. To
// survive a power failure, too, call Sync on the other file.
func (f cursorFile) Save(_ context.Context, cursor string) error {
	other := string(f) + ".new"
	if err := os.WriteFile(other, []byte(cursor), 0o600); err != nil {
		return err
	}
	return os.Rename(other, string(f))
}
