package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/bridge"
	"github.com/liveactivity/liveactivity/internal/command"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streammetrics"
)

// flags are the command's flags. Every flag has an environment variable.
type flags struct {
	Addr  string   `default:"127.0.0.1:8070" env:"LIVEACTIVITY_BRIDGE_ADDR" help:"${addr}"`
	Pages []string `name:"allowed-origin" env:"LIVEACTIVITY_BRIDGE_ALLOWED_ORIGINS" placeholder:"ORIGIN" help:"${pages}"`

	StreamURL   string `env:"LIVEACTIVITY_STREAM_URL" placeholder:"URL" help:"${stream_url}"`
	Token       string `env:"LIVEACTIVITY_STREAM_TOKEN" placeholder:"KEY" help:"${token}"`
	ActivityTTL string `default:"14400" env:"ACTIVITY_TTL_S" help:"${activity_ttl}"`
	command.Common
}

// help holds the texts of --help.
var help = kong.Vars{
	"addr": "Listen address; port 0 picks a free port.",
	"pages": "Origin of pages that may use the bridge, such as https://portal.example.com or " +
		"https://*.example.com for all subdomains; can be repeated. " +
		"The bridge's own origin always may.",
	"stream_url": "A product's event stream, such as https://live.example.com/stream/acme; the widget then knows its " +
		"actions, too.",
	"token":        "A key of that product with the scope stream.",
	"activity_ttl": "How long an action is kept, in seconds or as a duration such as 4h.",
}

const description = "Gives a chat widget its user's recent actions, and serves a small vendor portal to try it. " +
	"Keeps everything in memory."

// run is the command. It returns when ctx ends and everything is finished, or when the server
// refuses the stream. With a stream, it is ready once it has read the stream's retained
// entries.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f flags
	wrong, err := command.Parse(&f, help, "liveactivity-bridge", description, args, stdout, stderr)
	if err != nil {
		return err
	}
	options := f.options(wrong)
	log, err := f.Logger(stderr)
	wrong.Add(err)
	b, err := bridge.New(&options)
	if wrong.Err() == nil { // otherwise the flag is already reported
		wrong.Add(err)
	}
	reg := serve.NewRegistry()
	var beside []func(context.Context) error
	ready := func(*http.Request) error { return nil }
	if f.StreamURL != "" {
		token := cmp.Or(f.Token, "missing") // which is already reported
		consumer, err := stream.NewConsumer(f.StreamURL, token, stream.Handlers{Actions: b.Add, Erase: b.Erase},
			&stream.ConsumerOptions{Since: time.Unix(0, 0), Logger: log})
		wrong.Check("--stream-url, --token", err)
		if err == nil {
			ready = serve.OnceCaughtUp(consumer)
			reg.MustRegister(streammetrics.Consumer(consumer))
			beside = append(beside, consumer.Run)
		}
	}
	observer, err := observe.New(log, reg)
	wrong.Add(err)
	if err := wrong.Err(); err != nil {
		return err
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liveactivity_bridge_sessions", Help: "Sessions held.",
	}, func() float64 { return float64(b.Sessions()) }))
	mux := httpx.NewMux(nil)
	b.Register(mux)
	serve.Mount(mux, ready)
	serve.MountMetrics(mux, reg)
	listener, err := serve.Listen("--addr", f.Addr)
	if err != nil {
		return wrong.Named(err)
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	fmt.Fprintf(stdout, "open %s/ in a browser to see the vendor portal and its chat widget\n", serve.URL(listener.Addr()))
	return serve.Serve(ctx, listener, serve.Service{Handler: observer.Wrap(httpx.RouteName, mux), Run: beside}, log)
}

// options parses the flags and adds all their mistakes to wrong. bridge.New checks the rest.
func (f flags) options(wrong *command.Mistakes) bridge.Options {
	wrong.Check("--addr", serve.CheckAddr(f.Addr))
	for _, allowed := range f.Pages {
		if !origin.IsWeb(strings.Replace(allowed, "://*.", "://", 1)) {
			wrong.Check("--allowed-origin", fmt.Errorf("%q is not an origin such as https://portal.example.com", allowed))
		}
	}
	if f.StreamURL == "" && f.Token != "" {
		wrong.Check("--token", errors.New("is of no use without --stream-url"))
	}
	if f.StreamURL != "" {
		wrong.Require("--token", f.Token, "a key of the product with the scope stream")
	}
	return bridge.Options{AllowedOrigins: f.Pages, TTL: wrong.Duration("--activity-ttl", f.ActivityTTL)}
}
