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

	"github.com/liveactivity/liveactivity/activity"
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
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/agentview"
	"github.com/liveactivity/liveactivity/internal/flow"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/observe"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/person"
	"github.com/liveactivity/liveactivity/internal/presence"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/internal/serve"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// Service is the whole service. Its methods are safe for concurrent use.
type Service struct {
	// The fields up to metrics are set by New and never change. The channels are closed once, when a
	// stage is reached, and never sent to.
	products *registry.Registry
	engine   eventlog.Log
	urls     URLs
	views    []View
	replies  bool
	log      *slog.Logger

	lookup    *recent.Lookup
	recorder  *eventlog.Recorder
	intake    *intake.Intake
	meter     *flow.Meter
	dir       *directory.Directory
	connector *connector.Connector
	presence  *presence.View
	people    *person.People
	agents    *agentview.View
	streams   *eventlog.Handler
	mux       *httpx.Mux
	handler   http.Handler        // the mux, observed
	metrics   prometheus.Gatherer // nil if the options have one
	series    *metrics.Registry   // of all parts

	ran      atomic.Bool
	began    time.Time         // of Run
	readBack chan struct{}     // closed when the log has read itself back
	stages   []<-chan struct{} // all of which are closed when lookups can be answered
	stop     sync.Once
	stopping chan struct{} // closed when the service begins to stop
	stopBy   time.Time     // set before stopping is closed
	lastPing pingResult
}

// New returns a service; opts may be nil. It starts no goroutines. The handler accepts events
// immediately; lookups wait for Run, unless the log is new and in memory.
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
		readBack: make(chan struct{}), stopping: make(chan struct{}),
		lastPing: pingResult{turn: make(chan struct{}, 1)},
	}
	var err error
	if s.products, err = registry.New(File{Products: o.Products, Keys: o.Keys}, o.extensions(),
		s.log, s.engine); err != nil {
		return nil, err
	}
	if !isNew {
		s.stages = []<-chan struct{}{s.products.Loaded(), s.readBack}
	}
	// The meter queries the products, and parts of the routes use the meter.
	s.meter = s.newMeter()
	if s.handler, err = s.routes(&o); err != nil {
		return nil, err
	}
	return s, nil
}

// parts are values that only the routes use.
type parts struct {
	ingest    *posthog.Handler
	webhook   http.Handler
	segment   *segment.Handler
	amplitude *amplitude.Handler
	mcp       http.Handler
	signIn    *oauth.Server
	observer  *observe.Observer
}

// serveSDK serves the paths that no pattern matches. PostHog's SDKs may use a path prefix, other SDKs a
// trailing slash, and pages must be able to read a 404.
func (p *parts) serveSDK(w http.ResponseWriter, r *http.Request) {
	switch vendor, _, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/"); vendor {
	case "segment", "rudderstack", "jitsu":
		p.segment.ServeHTTP(w, r)
	case "amplitude":
		p.amplitude.ServeHTTP(w, r)
	default:
		p.ingest.ServeSDK(w, r)
	}
}

// parts creates the parts of the service, with their metrics in reg. The error joins the mistakes of
// all parts; after an error none of the parts may be used.
func (s *Service) parts(o *Options, reg prometheus.Registerer) (p parts, err error) {
	wrong := options.Mistakes{Package: "liveactivity"}
	metrics.Register(&wrong, reg, &logCollector{}).add(s)
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
	s.dir, err = directory.New(s.engine.Documents(), o.Retention.TTL)
	wrong.Add(err)
	s.intake, err = intake.New(s.recorder, s.products, &intake.Options{
		SessionOf: func(ctx context.Context, productID string, e *activity.Event) (string, error) {
			return s.dir.Find(ctx, s.engine.Activity(), productID, e)
		},
		IsOwn: directory.IsOwn, Erase: s.eraseUser, Metrics: reg, Meter: s.meter.Count, Logger: s.log})
	wrong.Add(err)
	p.ingest, p.segment, p.amplitude = posthog.New(s.intake), segment.New(s.intake), amplitude.New(s.intake)
	p.webhook = s.intake.Webhook(segment.Source, amplitude.Source, posthog.Source)
	s.connector, err = connector.New(s.engine, s.products, &connector.Options{
		TTL: o.Retention.TTL, Model: o.Model, Reply: o.Reply, Guide: o.Guide, Meter: s.meter.Count, Tracer: o.Tracer,
		Logger: s.log, Metrics: reg})
	wrong.Add(err)
	s.presence, err = presence.New(s.engine, s.products.Version, s.stopping,
		&sessions.MemoryOptions{TTL: o.Retention.TTL, MaxBytes: o.Retention.StateMaxBytes / 8})
	wrong.Add(err)
	if s.connector != nil && s.presence != nil {
		s.people = &person.People{Log: s.engine, Directory: s.dir, Desks: s.connector, List: s.presence.List}
		s.agents = &agentview.View{Store: store, Now: s.engine.Now, Directory: s.dir, Desks: s.connector,
			Product: s.agentSettings, First: s.presence.First, TTL: cmp.Or(o.Retention.TTL, activity.DefaultTTL),
			MaxEvents: cmp.Or(o.MaxEvents, recent.DefaultMaxEvents)}
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

// routeName returns the name of a served request's route, for metrics and the access log.
func routeName(r *http.Request) string {
	switch pattern := httpx.Route(r); {
	case pattern != "":
		return pattern
	case posthog.IsSDKPath(r.URL.Path):
		return "SDK below a path"
	}
	return "none"
}

// Handler returns the handler of all endpoints, at the paths in docs/reference.md. Unknown paths get a
// 404, so it can be mounted at "/" beside other pages. Streams need the Flush of the ResponseWriter, so one
// that a middleware wraps needs a method Unwrap.
func (s *Service) Handler() http.Handler { return s.handler }

// Metrics returns the metrics served at /metrics, or nil if Options.Metrics is set.
func (s *Service) Metrics() prometheus.Gatherer { return s.metrics }

// URLs returns the addresses of the service.
func (s *Service) URLs() URLs { return s.urls }

// Keys returns the keys of the service's products, for other handlers of the program.
func (s *Service) Keys() *access.Keyring { return s.products.Keys() }

// LiveActivity returns at most limit of a user's newest actions, oldest first, like the endpoint of that
// name. If the service has not caught up with its log within 5 seconds, it returns ErrNotReady.
func (s *Service) LiveActivity(ctx context.Context, productID, userID string, limit int) (recent.LiveActivity, error) {
	if err := s.awaitCatchUp(ctx); err != nil {
		return recent.LiveActivity{}, err
	}
	return s.lookup.Get(ctx, productID, userID, limit)
}

// Run does the background work of the service until ctx ends or the log fails: it catches up with the
// log, follows registrations at other services, runs the views, and frees expired data. Then it
// closes the log, and returns once every stream and view has received all of it, at most 8 seconds
// after the start of the stop or, if later, once the options' desks and functions return. Call Run once.
//
// For a graceful stop, call Shutdown of the http.Server first, while the log is still open, and then
// end ctx.
func (s *Service) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("liveactivity: a service runs once")
	}
	s.began = time.Now()
	// running ends when a stop begins or the log fails. following, the context of the views,
	// ends once they have received the rest of the log.
	group, running := errgroup.WithContext(ctx)
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	followed := make(chan struct{})
	group.Go(func() error {
		err := s.engine.Run(running, func(p eventlog.Progress) {
			if p.Done {
				close(s.readBack)
			}
		})
		if running.Err() == nil {
			return err
		}
		return nil
	})
	background := func(work func()) {
		group.Go(func() error {
			work()
			return nil
		})
	}
	background(func() { s.products.Run(running) })
	background(func() { s.tidy(running) })
	background(func() { s.meter.Run(running) })
	background(func() {
		defer close(followed)
		s.runViews(running, following)
	})
	background(func() {
		<-running.Done()
		s.drain(followed)
		stopFollowing()
	})
	return group.Wait()
}

// Serve serves the service on a listener until ctx ends or the log fails, and closes the listener. Then
// it finishes the requests in flight, sends every stream the rest of the log, closes the log and
// returns, at most 8 seconds after the start of the stop. After a graceful stop it returns nil. Call
// Serve once.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	return s.ServeHandler(ctx, listener, s.Handler())
}

// ServeHandler is like Serve, with another handler, such as a mux with [Service.Handler] at "/" beside
// the program's own pages.
func (s *Service) ServeHandler(ctx context.Context, listener net.Listener, handler http.Handler) error {
	wrong := options.Mistakes{Package: "liveactivity"}
	wrong.Require(listener != nil, "listener", "must not be nil")
	wrong.Require(handler != nil, "handler", "must not be nil")
	if err := wrong.Err(); err != nil {
		return err
	}
	service := serve.Service{Handler: handler, Stopping: s.Stopping, Run: []func(context.Context) error{s.Run}}
	return serve.Serve(ctx, listener, service, s.log)
}

// Stopping marks the start of a stop: from now on /readyz answers 503, and no request waits for the
// service to catch up. Call it before Shutdown of the http.Server, or leave it to Run.
func (s *Service) Stopping() {
	s.stop.Do(func() {
		s.stopBy = time.Now().Add(serve.ShutdownTime)
		s.log.Info("stopping")
		close(s.stopping)
	})
}

// drain closes the log and returns once its readers have read all of it, or at stopBy. followed is
// closed when the views have ended. The order matters: readers end at the end of a closed log, and
// the last counts are shared after everything that counts.
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
		s.log.Warn("the last counts were not shared with other servers", "err", err)
	}
	total := s.meter.Total()
	s.log.Info("stopped", "ran", time.Since(s.began).Round(time.Millisecond).String(),
		"accepted", total.Accepted, "ignored", total.Ignored, "duplicate", total.Duplicate, "actions", total.Actions,
		"notes", total.Notes, "summaries", total.Summaries, "offers", total.Offers,
		"readers", readers, "readers_cut_off", cut)
}

// readers returns the number of open streams.
func (s *Service) readers() (n int) {
	for _, id := range s.products.IDs() {
		n += s.streams.Readers(id)
	}
	return n
}

// tidyEvery is the interval at which expired data is freed.
const tidyEvery = time.Minute

// tidy frees expired data every tidyEvery, once lookups can be answered, until ctx ends. It logs
// failures.
func (s *Service) tidy(ctx context.Context) {
	for schedule.Sleep(ctx, tidyEvery) == nil {
		if !s.isCaughtUp() {
			continue
		}
		s.presence.Expire()
		if err := s.engine.Expire(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("expired data was not removed", "err", err)
		}
	}
}

// isClosed reports whether a channel that is never sent to is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
