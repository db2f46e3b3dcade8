package liveactivity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/activity/amplitude"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/activity/segment"
	"github.com/liveactivity/liveactivity/activity/sessions"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/agentview"
	"github.com/liveactivity/liveactivity/internal/flow"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/outage"
	"github.com/liveactivity/liveactivity/internal/person"
	"github.com/liveactivity/liveactivity/internal/presence"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// Service is the whole of liveactivity as one value. Its methods are safe for concurrent use.
//
// New sets the fields up to metrics, and nothing changes them. The channels are closed once and
// never sent to: a stage that was reached stays so.
type Service struct {
	products *registry.Registry
	engine   eventlog.Log
	urls     URLs
	views    []View
	replies  bool
	log      *slog.Logger

	lookup    *recent.Lookup
	recorder  *eventlog.Recorder
	meter     *flow.Meter
	connector *connector.Connector
	presence  *presence.View
	people    *person.People
	agents    *agentview.View
	streams   *eventlog.Handler
	mux       *httpx.Mux
	handler   http.Handler         // the mux, observed
	metrics   *prometheus.Registry // nil where the options have one

	ran      atomic.Bool
	began    time.Time // of Run
	progress atomic.Pointer[eventlog.Progress]
	readBack chan struct{} // closed when the log has read itself back
	caughtUp chan struct{} // closed when lookups can be answered
	stop     sync.Once
	stopping chan struct{} // closed when the service begins to stop
	stopBy   time.Time     // set before stopping is closed
	storage  finding
}

// New returns a service; opts may be nil. It starts nothing: the handler takes
// events at once, and lookups wait for Run, unless the log is new and in memory.
func New(opts *Options) (*Service, error) {
	o := *cmp.Or(opts, &Options{})
	if err := o.Validate(); err != nil {
		return nil, err
	}
	engine, isNew := o.Log, o.Log == nil
	if isNew {
		var err error
		if engine, err = memorylog.New(&memorylog.Options{Retention: o.Retention, MaxEvents: o.MaxEvents}); err != nil {
			return nil, err
		}
	}
	s := &Service{
		engine: engine, urls: registry.NewURLs(cmp.Or(o.PublicURL, o.LocalURL)), views: o.Views,
		replies:  o.Model != nil || o.Reply != nil,
		log:      cmp.Or(o.Logger, slog.Default()),
		readBack: make(chan struct{}), caughtUp: make(chan struct{}), stopping: make(chan struct{}),
		storage: finding{turn: make(chan struct{}, 1)},
	}
	if isNew {
		close(s.caughtUp)
	}
	var err error
	if s.products, err = registry.New(File{Products: o.Products, Keys: o.Keys}, o.extensions(),
		&helpdesk.Options{Logger: s.log}, s.engine, s.drop); err != nil {
		return nil, err
	}
	// The meter asks the products, and the routes' parts count with the meter.
	s.meter = s.newMeter(isNew)
	if s.handler, err = s.routes(&o); err != nil {
		return nil, err
	}
	return s, nil
}

// parts are values that only the routes refer to.
type parts struct {
	ingest    *posthog.Handler
	webhook   http.Handler
	named     http.Handler // webhooks of a product's own sources
	segment   *segment.Handler
	amplitude *amplitude.Handler
	mcp       http.Handler
	signIn    *oauth.Server
	observer  *observe.Observer
}

// serveSDK serves the paths that no pattern matches: PostHog's SDKs may have been given a path,
// the SDKs of others one that ends in a slash, and the pages of all must be able to read a 404.
// It always answers.
func (p *parts) serveSDK(w http.ResponseWriter, r *http.Request) bool {
	switch vendor, _, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/"); vendor {
	case "segment", "rudderstack", "jitsu":
		p.segment.ServeHTTP(w, r)
	case "amplitude":
		p.amplitude.ServeHTTP(w, r)
	default:
		p.ingest.ServeSDK(w, r)
	}
	return true
}

// parts makes the parts of the service, with their metrics in reg. A part that cannot be made
// is nil, and its mistakes are in the error, with all other mistakes; then no part is used.
func (s *Service) parts(o *Options, reg prometheus.Registerer) (p parts, err error) {
	wrong := options.Mistakes{Package: "liveactivity"}
	metrics.Register(&wrong, reg, &logCollector{}).add(s.engine)
	store := tracing.Store(s.engine.Activity(), o.Tracer)
	s.lookup, err = recent.NewLookup(store, o.MaxEvents)
	wrong.Add(err)
	s.streams, err = eventlog.NewHandler(s.engine, &eventlog.HandlerOptions{Keys: s.products.Keys(),
		Heartbeat: o.Heartbeat, Logger: s.log, Metrics: reg})
	wrong.Add(err)
	s.recorder, err = eventlog.NewRecorder(s.engine, &eventlog.RecorderOptions{
		TTL: o.Retention.TTL, Metrics: reg, Meter: s.meter.Count, Tracer: o.Tracer,
		VerifiedOnly: s.products.VerifiedOnly})
	wrong.Add(err)
	finder, err := directory.NewFinder(s.engine.Activity(), s.engine.Documents(), o.Retention.TTL)
	wrong.Add(err)
	in, err := intake.New(s.recorder, s.products, &intake.Options{
		SessionOf: finder.Find, Erase: s.eraseUser, Metrics: reg, Meter: s.meter.Count, Logger: s.log})
	wrong.Add(err)
	p.ingest, p.segment, p.amplitude = posthog.New(in), segment.New(in), amplitude.New(in)
	p.webhook, p.named = in.Webhook(segment.Source, amplitude.Source, posthog.Source), in.NamedWebhook(s.products.Source)
	s.connector, err = connector.New(s.engine, s.products, &connector.Options{
		TTL: o.Retention.TTL, Model: o.Model, Reply: o.Reply, Guide: o.Guide, Meter: s.meter.Count, Tracer: o.Tracer,
		Logger: s.log, Metrics: reg})
	wrong.Add(err)
	s.presence, err = presence.New(s.engine, s.products.Version, s.stopping,
		&sessions.MemoryOptions{TTL: o.Retention.TTL, MaxBytes: o.Retention.StateMaxBytes / 8})
	wrong.Add(err)
	dir, err := directory.New(s.engine.Documents(), o.Retention.TTL)
	wrong.Add(err)
	if s.connector != nil && s.presence != nil {
		s.people = person.New(s.engine, dir, s.connector, s.presence.List)
		s.agents = agentview.New(store, dir, s.connector, s.ofAgents, o.Retention.TTL, o.MaxEvents)
		s.views = append(slices.Clone(s.views), s.presence.Follow, s.followDesks)
	}
	p.signIn, err = oauth.New(o.PublicURL, s.products.Keys(), s.engine.Documents(), &oauth.Options{Logger: s.log})
	wrong.Add(err)
	if wrong.Err() == nil && o.PublicURL != "" && !p.signIn.On() {
		s.log.Warn("MCP clients cannot sign in: the public URL is neither https nor a loopback address")
	}
	p.mcp, err = mcptool.NewHandler(s.lookup, s.products.Keys(), &mcptool.Options{Sessions: s.Sessions,
		Context: s.agentAnswer, Listen: s.listen, SignIn: p.signIn, Logger: s.log})
	wrong.Add(err)
	p.observer, err = observe.New(s.log, reg)
	wrong.Add(err)
	return p, wrong.Err()
}

// routeName names a request that was served, for metrics and the access log.
func routeName(r *http.Request) string {
	switch pattern := httpx.Route(r); {
	case pattern != "":
		return pattern
	case posthog.IsSDKPath(r.URL.Path):
		return "SDK below a path"
	}
	return "none"
}

// Handler returns every endpoint of the service, at the paths that docs/reference.md
// lists. Unknown paths get a 404, so that it can be mounted at
// "/" beside pages of one's own.
func (s *Service) Handler() http.Handler { return s.handler }

// Metrics returns the metrics that are served at /metrics; nil where Options.Metrics has them.
func (s *Service) Metrics() prometheus.Gatherer {
	if s.metrics == nil {
		return nil
	}
	return s.metrics
}

// URLs returns the addresses of the service.
func (s *Service) URLs() URLs { return s.urls }

// Keys returns the keys that open the service's products, for handlers of one's
// own beside it.
func (s *Service) Keys() *access.Keyring { return s.products.Keys() }

// LiveActivity returns the newest actions of a user, at most limit and oldest
// first, like the endpoint of that name. It waits up to 5 seconds for the service
// to catch up with its log, then it returns ErrNotReady.
func (s *Service) LiveActivity(
	ctx context.Context, productID, userID string, limit int) (recent.LiveActivity, error,
) {
	if err := s.awaitCatchUp(ctx); err != nil {
		return recent.LiveActivity{}, err
	}
	return s.lookup.Get(ctx, productID, userID, limit)
}

// finding is whether storage could be written to when it was last asked.
type finding struct {
	turn chan struct{} // of capacity 1; its holder may use the rest
	at   time.Time
	err  error
}

const (
	pingTimeout = 2 * time.Second // how long storage may take to show that it is there
	pingHolds   = time.Second     // how long a finding holds, so that many calls cost no more than one
)

// ping returns whether storage can be written to, or could be less than a second ago. A caller
// who hangs up ends no ping, for others may wait for it.
func (s *Service) ping(ctx context.Context) error {
	s.storage.turn <- struct{}{} // every holder ends soon after pingTimeout
	defer func() { <-s.storage.turn }()
	if time.Since(s.storage.at) < pingHolds {
		return s.storage.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	s.storage.err = s.engine.Ping(ctx)
	s.storage.at = time.Now()
	return s.storage.err
}

// ready answers /readyz: the service serves lookups, takes events, and is not about to stop.
func (s *Service) ready(r *http.Request) error {
	if isClosed(s.stopping) {
		return serve.NotReady("The server is stopping.", nil)
	}
	if !isClosed(s.caughtUp) {
		return serve.NotReady("The server is still reading its log.", nil)
	}
	if err := s.ping(r.Context()); err != nil {
		return serve.NotReady("The storage cannot be written to.", err)
	}
	return nil
}

// Run does the service's work beside its requests, until ctx ends or the log
// fails: it catches up with the log, takes over what other services on the log
// register, runs the views, and frees what has expired. Then it closes the log
// and returns when every stream and view was given all of it, at the latest 8
// seconds after the stop began. It runs once.
//
// To stop in order call Shutdown of the http.Server first, so that requests in
// flight still find the log open, and then end ctx.
func (s *Service) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("liveactivity: a service runs once")
	}
	s.began = time.Now()
	// running ends when a stop begins, or the log fails. following, under which the views run,
	// ends once they were given the rest of the log.
	group, running := errgroup.WithContext(ctx)
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	followed := make(chan struct{})
	group.Go(func() error {
		if err := s.engine.Run(running, s.report); running.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		s.products.Run(running, func(err error) {
			s.log.Log(running, outage.Level(err, slog.LevelWarn), "registrations cannot be read", "err", err)
		})
		return nil
	})
	group.Go(func() error {
		s.catchUp(running)
		s.tidy(running)
		return nil
	})
	group.Go(func() error {
		s.meter.Run(running)
		return nil
	})
	group.Go(func() error {
		defer close(followed)
		s.runViews(running, following)
		return nil
	})
	group.Go(func() error {
		<-running.Done()
		s.drain(followed)
		stopFollowing()
		return nil
	})
	return group.Wait()
}

// Serve serves the service on a listener until ctx ends or its log fails, and closes
// the listener. Then it finishes the requests in flight, sends every stream the rest of
// the log, closes the log and returns, at the latest 8 seconds after the stop began. A
// stop in order returns nil. A service is served once.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	return s.ServeHandler(ctx, listener, s.Handler())
}

// ServeHandler is Serve with another handler, such as a mux that has [Service.Handler]
// at "/" beside the pages of the program.
func (s *Service) ServeHandler(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serve.Serve(ctx, listener, serve.Service{
		Handler: handler, Stopping: s.Stopping, Run: []func(context.Context) error{s.Run},
	}, s.log)
}

// Stopping says that a stop begins: from now on /readyz answers 503, and nothing
// waits for the service to catch up. Call it before Shutdown of the http.Server,
// or leave it to Run.
func (s *Service) Stopping() {
	s.stop.Do(func() {
		s.stopBy = time.Now().Add(serve.ShutdownTime)
		s.log.Info("stopping")
		close(s.stopping)
	})
}

// drain closes the log, and returns when its readers have read all of it, or at stopBy.
// followed is closed when the views have ended. The order matters: readers end by reading the
// end of a closed log, and the last figures are shared after everything that counts.
func (s *Service) drain(followed <-chan struct{}) {
	s.Stopping()
	ctx, cancel := context.WithDeadline(context.Background(), s.stopBy)
	defer cancel()
	readers := s.readers()
	if err := s.engine.Close(); err != nil {
		s.log.Warn("the log was not closed", "err", err)
	}
	cut := 0
	if err := s.streams.Wait(ctx); err != nil {
		cut = s.readers()
		s.log.Warn("streams were cut off", "err", err)
	}
	select {
	case <-followed:
	case <-ctx.Done():
		s.log.Warn("views were cut off")
	}
	if err := s.meter.Leave(ctx); err != nil {
		s.log.Warn("the last figures were not shared", "err", err)
	}
	total := s.meter.Total()
	s.log.Info("stopped", "ran", time.Since(s.began).Round(time.Millisecond).String(),
		"accepted", total.Accepted, "ignored", total.Ignored, "duplicate", total.Duplicate, "actions", total.Actions,
		"notes", total.Notes, "summaries", total.Summaries, "offers", total.Offers,
		"readers", readers, "readers_cut_off", cut)
}

// readers returns how many streams are open.
func (s *Service) readers() (n int) {
	for _, id := range s.products.IDs() {
		n += s.streams.Readers(id)
	}
	return n
}

// tidyEvery is how often expired data is freed.
const tidyEvery = time.Minute

// tidy frees expired data every tidyEvery until ctx ends. A failure is logged, and the next
// time tries again.
func (s *Service) tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.presence.Expire()
			if err := s.engine.Expire(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("expired data was not removed", "err", err)
			}
		}
	}
}

// isClosed reports whether a channel, to which nothing is sent, is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
