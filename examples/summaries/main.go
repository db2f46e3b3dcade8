// Command summaries keeps notes on the actions of each session of a product,
// like a help desk's conversation or an agent's memory. Every few actions a
// language model summarizes them, and the summary replaces the notes. The
// command prints each note, and each summary with the remaining notes.
//
// Start a server, and this program with the key that the server prints:
//
//	go run ./cmd/liveactivity-server
//	go run ./examples/summaries --token KEY --threshold 3
//
// Then paste the server's curl line in a third terminal, three times. That needs
// no model: without one the summary is composed from the actions. For a better
// summary set OPENAI_API_KEY, or OPENAI_BASE_URL, such as Ollama's
// http://127.0.0.1:11434/v1, or both.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sashabaranov/go-openai"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run keeps notes until ctx ends or the server refuses the stream.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("summaries", flag.ExitOnError)
	url := flags.String("stream-url", "http://127.0.0.1:8080/stream/demo", "the product's event stream")
	token := flags.String("token", "", "a key of the product; $LIVEACTIVITY_STREAM_TOKEN without it")
	debounce := flags.Duration("debounce", time.Second, "how long a session must be quiet before a note is written")
	threshold := flags.Int("threshold", stream.DefaultThreshold, "after so many actions a session is summed up")
	model := flags.String("llm-model", "gpt-4o-mini", "the language model")
	_ = flags.Parse(args) // exits if they are wrong

	logger := slog.New(slog.NewTextHandler(stderr, nil))
	n := &notebook{w: stdout, notes: map[string][]activity.BatchAction{}}
	summarizer, err := stream.NewSummarizer(n.overwrite, &stream.SummarizerOptions{
		Threshold: *threshold,
		Model:     newModel(os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL"), *model),
		Logger:    logger,
	})
	if err != nil {
		return err
	}
	writer, err := stream.NewWriter(n.write, &stream.WriterOptions{Debounce: *debounce, Summarizer: summarizer,
		Erase: n.erase, Logger: logger})
	if err != nil {
		return err
	}
	consumer, err := stream.NewConsumer(*url, cmp.Or(*token, os.Getenv("LIVEACTIVITY_STREAM_TOKEN")),
		stream.Handlers{Deliver: writer.Deliver},
		&stream.ConsumerOptions{Since: time.Unix(0, 0), Logger: logger}) // notes are in memory: begin with everything
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return writer.Run(ctx) })
	group.Go(func() error { return consumer.Run(ctx) })
	return group.Wait()
}

// newModel returns a model at an endpoint with OpenAI's chat completions API,
// or nil if there is neither a key nor a URL.
func newModel(apiKey, baseURL, name string) func(context.Context, string) (string, error) {
	if apiKey == "" && baseURL == "" {
		return nil
	}
	config := openai.DefaultConfig(apiKey)
	config.BaseURL = cmp.Or(baseURL, config.BaseURL)
	client := openai.NewClientWithConfig(config)
	return func(ctx context.Context, prompt string) (string, error) {
		answer, err := client.CreateChatCompletion(ctx, openai.ChatCompletionRequest{
			Model:    name,
			Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}},
		})
		if err != nil {
			return "", err
		}
		if len(answer.Choices) == 0 {
			return "", errors.New("the model gave no answer")
		}
		return answer.Choices[0].Message.Content, nil
	}
}

// notebook holds, for each session, the actions since its last summary.
type notebook struct {
	mu    sync.Mutex
	w     io.Writer
	notes map[string][]activity.BatchAction
}

// write is called with a session's actions once the session is quiet. If it
// fails it changes nothing, because it is called again.
func (n *notebook) write(_ context.Context, b activity.Batch) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := fmt.Fprintf(n.w, "note on %s\n%s\n\n", b.SessionID, b.Text()); err != nil {
		return err
	}
	n.notes[b.SessionID] = append(n.notes[b.SessionID], b.Actions...)
	return nil
}

// overwrite replaces the previous summary and the oldest notes with a new
// summary. Newer notes may remain, since a session continues while a model is
// working.
func (n *notebook) overwrite(_ context.Context, s stream.Summary) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	notes := n.notes[s.SessionID]
	left := notes[min(s.Replaces, len(notes)):]
	if _, err := fmt.Fprintf(n.w, "summary of %s, in place of %d actions\n%s\n%s\n", s.SessionID, s.Replaces, s.Text,
		list(left)); err != nil {
		return err
	}
	n.notes[s.SessionID] = left
	return nil
}

// erase forgets the sessions of an erased person, as the summarizer does.
func (n *notebook) erase(_ context.Context, e stream.Erasure) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range e.SessionIDs {
		delete(n.notes, id)
	}
	return nil
}

// list returns a line for each action.
func list(actions []activity.BatchAction) string {
	if len(actions) == 0 {
		return ""
	}
	return activity.Batch{Actions: actions}.Text() + "\n"
}
