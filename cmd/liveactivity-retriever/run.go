package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/llm"
	"github.com/liveactivity/liveactivity/internal/memlimit"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streammetrics"
)

// flags are the command's flags. Every flag has an environment variable. Flags
// that must be parsed are strings, so that all mistakes are reported together.
type flags struct {
	StreamURL   string  `env:"LIVEACTIVITY_STREAM_URL" placeholder:"URL" help:"${stream_url}"`
	Token       string  `env:"LIVEACTIVITY_STREAM_TOKEN" placeholder:"KEY" help:"${token}"`
	Addr        string  `default:"127.0.0.1:8090" env:"LIVEACTIVITY_RETRIEVER_ADDR" help:"${addr}"`
	KeyBy       string  `default:"session_id" env:"LIVEACTIVITY_RETRIEVER_KEY_BY" help:"${key_by}"`
	DebounceMS  string  `default:"0" env:"LIVEACTIVITY_RETRIEVER_DEBOUNCE_MS" help:"${debounce_ms}"`
	Threshold   string  `default:"20" env:"LIVEACTIVITY_RETRIEVER_THRESHOLD" help:"${threshold}"`
	MaxChunks   string  `default:"50" env:"LIVEACTIVITY_RETRIEVER_MAX_CHUNKS" help:"${max_chunks}"`
	MaxSessions string  `default:"100000" env:"LIVEACTIVITY_RETRIEVER_MAX_SESSIONS" help:"${max_sessions}"`
	ActivityTTL string  `default:"14400" env:"ACTIVITY_TTL_S" help:"${activity_ttl}"`
	APIKey      *string `env:"LIVEACTIVITY_RETRIEVER_API_KEY" placeholder:"KEY" help:"${api_key}"`
	LLMModel    *string `env:"LIVEACTIVITY_LLM_MODEL" placeholder:"NAME" help:"${llm_model}"`

	OpenAIKey     string `name:"openai-api-key" hidden:"" env:"OPENAI_API_KEY"`
	OpenAIBaseURL string `name:"openai-base-url" hidden:"" env:"OPENAI_BASE_URL"`
	command.Common
}

// help holds the texts of --help.
var help = kong.Vars{
	"stream_url":   "The product's event stream, such as https://live.example.com/stream/acme. Required.",
	"token":        "A key of the product with the scope stream. Required.",
	"addr":         "Listen address; port 0 picks a free port.",
	"key_by":       "Meaning of the knowledge_id of POST /retrieval: session_id or email.",
	"debounce_ms":  "Pause in a session, in milliseconds, after which its actions become a record; 0 is at once.",
	"threshold":    "Number of actions after which one summary replaces a session's records.",
	"max_chunks":   "Records kept of each session; the oldest are dropped.",
	"max_sessions": "Sessions kept; the least recently used are dropped.",
	"activity_ttl": "How long a record is kept, in seconds or as a duration such as 4h.",
	"api_key":      "The bearer token of requests; without it anyone may ask.",
	"llm_model": "Language model that writes the summaries, at $OPENAI_BASE_URL or OpenAI, with $OPENAI_API_KEY. " +
		"Without it they are put together from the actions.",
}

// settings are the parsed flags.
type settings struct {
	apiKey     string
	keyBy      retriever.KeyBy
	debounce   time.Duration
	store      retriever.StoreOptions
	summarizer stream.SummarizerOptions
}

// settings parses the flags and adds all their mistakes to wrong. After a mistake the
// settings must not be used.
func (f flags) settings(wrong *command.Mistakes) (s settings) {
	wrong.Require("--stream-url", f.StreamURL, "the product's stream, such as https://live.example.com/stream/acme")
	wrong.Require("--token", f.Token, "a key of the product with the scope stream")
	wrong.Check("--addr", serve.CheckAddr(f.Addr))
	var err error
	s.keyBy, err = retriever.ParseKeyBy(f.KeyBy)
	wrong.Check("--key-by", err)
	s.debounce = wrong.Milliseconds("--debounce-ms", f.DebounceMS)
	if s.apiKey = wrong.Given("--api-key", f.APIKey); !options.IsPrintable(s.apiKey) {
		wrong.Check("--api-key", errors.New("must be printable ASCII without spaces"))
		s.apiKey = "" // otherwise it is reported twice, also for the stream
	}
	s.summarizer.Threshold = int(wrong.Count("--threshold", f.Threshold))
	s.store.MaxChunks = int(wrong.Count("--max-chunks", f.MaxChunks))
	s.store.MaxSessions = int(wrong.Count("--max-sessions", f.MaxSessions))
	s.store.TTL = wrong.Duration("--activity-ttl", f.ActivityTTL)
	if model := wrong.Given("--llm-model", f.LLMModel); model != "" {
		s.summarizer.Model, err = llm.New(model, f.OpenAIKey, f.OpenAIBaseURL)
		wrong.Check("--llm-model", err)
	}
	s.shareMemory()
	return s
}

// shareMemory divides the memory that the process may keep between records and histories. A
// history takes up to as much as its records, with a model up to twice as much, and must outlive
// them: a summary of a history that started over would replace records that it does not cover.
func (s *settings) shareMemory() {
	parts := int64(2)
	if s.summarizer.Model != nil {
		parts = 3
	}
	s.store.MaxBytes = memlimit.Kept() / parts
	s.summarizer.MaxBytes = memlimit.Kept() - s.store.MaxBytes
}

const description = "Keeps users' recent actions as records for chatbot platforms such as Dify. " +
	"Reads a product's event stream from its oldest event, and keeps everything in memory."

// run is the command. It returns when ctx ends and everything is finished, or when the server
// refuses the stream. It is ready once it has read the stream's retained entries: until then
// answers may lack records.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f flags
	wrong, err := command.Parse(&f, help, "liveactivity-retriever", description, args, stdout, stderr)
	if err != nil {
		return err
	}
	s := f.settings(wrong)
	log, err := f.Logger(stderr)
	wrong.Add(err)
	reg := serve.NewRegistry()
	service, err := assemble(f, s, log, reg)
	wrong.Check("--stream-url, --token", err)
	if err := wrong.Err(); err != nil {
		return err
	}
	listener, err := serve.Listen("--addr", f.Addr)
	if err != nil {
		return wrong.Named(err)
	}
	addr := listener.Addr()
	warnIfOpen(log, s.apiKey, addr)
	fmt.Fprintf(stdout, "listening on http://%s\n", addr)
	fmt.Fprintf(stdout, "records of a session: %s/events?session_id={session_id}\n", serve.URL(addr))
	fmt.Fprintf(stdout, "Dify's API endpoint:  %s\n", serve.URL(addr))
	return serve.Serve(ctx, listener, service, log)
}

// assemble connects the parts: stream → consumer → writer → store, with a summarizer
// attached, and the handler that serves the store. It starts nothing.
func assemble(f flags, s settings, log *slog.Logger, reg *prometheus.Registry) (all serve.Service, err error) {
	store, err := retriever.NewStore(&s.store)
	if err != nil {
		return all, err
	}
	s.summarizer.Logger = log
	summarizer, err := stream.NewSummarizer(store.Overwrite, &s.summarizer)
	if err != nil {
		return all, err
	}
	writer, err := stream.NewWriter(store.Add, &stream.WriterOptions{
		Debounce: s.debounce, Summarizer: summarizer, Erase: store.Erase, Logger: log})
	if err != nil {
		return all, err
	}
	url, token := cmp.Or(f.StreamURL, "http://missing"), cmp.Or(f.Token, "missing") // which is already reported
	consumer, err := stream.NewConsumer(url, token, stream.Handlers{Deliver: store.Learning(writer.Deliver)},
		&stream.ConsumerOptions{Since: time.Unix(0, 0), Logger: log})
	if err != nil {
		return all, err
	}
	reg.MustRegister(streammetrics.Consumer(consumer), streammetrics.Writer(writer), streammetrics.Summarizer(summarizer))
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liveactivity_retriever_sessions", Help: "Sessions held.",
	}, func() float64 { return float64(store.Sessions()) }))
	h, err := retriever.NewHandler(store, &retriever.HandlerOptions{APIKey: s.apiKey, KeyBy: s.keyBy})
	if err != nil {
		return all, err
	}
	observer, err := observe.New(log, reg)
	if err != nil {
		return all, err
	}
	mux := httpx.NewMux(nil)
	mux.Handle("GET /events", http.HandlerFunc(h.ServeEvents))
	mux.Handle("POST /retrieval", http.HandlerFunc(h.ServeRetrieval))
	serve.Mount(mux, serve.OnceCaughtUp(consumer))
	serve.MountMetrics(mux, reg)
	return serve.Service{Handler: observer.Wrap(httpx.RouteName, forgiveSlashes(mux)),
		Run: []func(context.Context) error{writer.Run, consumer.Run}}, nil
}

// forgiveSlashes serves a path with several leading slashes as if it had one:
// Dify appends the path to its configured endpoint, which may end in a slash.
func forgiveSlashes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "//") {
			r.URL.Path = "/" + strings.TrimLeft(r.URL.Path, "/")
			r.URL.RawPath = "" // no path of this command is escaped
		}
		next.ServeHTTP(w, r)
	})
}

// warnIfOpen logs a warning if anyone on the network may read activity.
func warnIfOpen(log *slog.Logger, apiKey string, addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok && apiKey == "" && !tcp.IP.IsLoopback() {
		log.Warn("without --api-key anyone with access to this address can read the activity of users", "addr", addr.String())
	}
}
