package liveactivity

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/amplitude"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/posthog"
	"github.com/liveactivity/liveactivity/activity/segment"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/console"
	"github.com/liveactivity/liveactivity/internal/contracts"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/registry"
	"github.com/liveactivity/liveactivity/internal/serve"
)

// routes creates the parts of the service, mounts every endpoint, and returns the handler. Metrics are
// registered with the options' registry, or else with one that the service serves itself.
func (s *Service) routes(o *Options) (http.Handler, error) {
	reg, ownRegistry := o.Metrics, serve.NewRegistry()
	if reg == nil {
		reg = ownRegistry
	}
	s.series = &metrics.Registry{Registerer: reg}
	p, err := s.parts(o, s.series)
	if err != nil {
		return nil, err
	}
	mux := httpx.NewMux(http.HandlerFunc(p.serveSDK))
	for _, pattern := range posthog.SDKPatterns() {
		mux.Handle(pattern, http.HandlerFunc(p.ingest.ServeSDK))
	}
	for _, pattern := range segment.Patterns() {
		mux.Handle(pattern, p.segment)
	}
	for _, pattern := range amplitude.Patterns() {
		mux.Handle(pattern, p.amplitude)
	}
	page := console.Handler()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /console/{file}", page)
	mux.Handle("POST /webhook/{product_id}", p.webhook)
	mux.Handle("POST /webhook/{product_id}/{source}", p.webhook)
	s.mountReaders(mux)
	p.signIn.Mount(mux.Handle)
	mux.Handle("/mcp", s.whenCaughtUp(p.mcp))
	mux.Handle("/mcp/{$}", s.whenCaughtUp(p.mcp))
	s.mountDesks(mux, o.extensions().Desks)
	serve.Mount(mux, s.ready)
	if o.Metrics == nil {
		s.metrics = ownRegistry
		serve.MountMetrics(mux, ownRegistry)
	}
	if o.AdminKey != "" {
		s.mountAdmin(mux, registry.NewAdmin(o.AdminKey, s.products, p.signIn, s.urls), o.extensions().Desks)
	}
	mux.Handle("GET /openapi.json", contracts.Handler(contracts.OpenAPI(s.urls.Base())))
	mux.Handle("GET /asyncapi.json", contracts.Handler(contracts.AsyncAPI(s.urls.Base())))
	s.mux = mux
	return s.inGenerations(p.observer.Wrap(routeName, mux)), nil
}

// mountReaders mounts the endpoints that return activity, each behind the keys of its product. The
// stream checks keys itself; one of a single session is also a read of one person.
func (s *Service) mountReaders(mux *httpx.Mux) {
	keys := s.products.Keys()
	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP,
		s.audited("live-activity", s.whenCaughtUp(s.lookup))))
	mux.Handle("GET /context/{product_id}", keys.Require(access.MCP, s.audited("context",
		s.whenCaughtUp(httpx.Handler(s.serveContext)))))
	mux.Handle("GET /sessions/{product_id}", keys.Require(access.MCP, httpx.Handler(s.serveSessions)))
	mux.Handle("GET /sessions/{product_id}/{session_id}", keys.Require(access.MCP,
		s.audited("session", httpx.Handler(s.serveSession))))
	mux.Handle("GET /flow/{product_id}", keys.Require(access.MCP, httpx.Handler(s.serveFlow)))
	ofSession := keys.Require(access.Stream, s.audited("stream", s.streams))
	mux.Handle("GET /stream/{product_id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("session_id") != "" {
			ofSession.ServeHTTP(w, r)
			return
		}
		s.streams.ServeHTTP(w, r)
	}))
}

// mountAdmin mounts the endpoints that require the admin key.
func (s *Service) mountAdmin(mux *httpx.Mux, admin *registry.Admin, desks []helpdesk.Kind) {
	mux.Handle("POST /admin/products", admin.Require(admin.Register))
	mux.Handle("GET /admin/products", admin.Require(admin.List))
	mux.Handle("DELETE /admin/products/{product_id}", admin.Require(admin.Remove))
	mux.Handle("GET /admin/grants/{product_id}", admin.Require(admin.Grants))
	mux.Handle("DELETE /admin/grants/{product_id}/{grant_id}", admin.Require(admin.EndGrant))
	for _, person := range []string{"/users/{product_id}/{user_id}", "/users/{product_id}"} {
		mux.Handle("GET "+person+"/export", admin.Require(s.serveExport))
		mux.Handle("DELETE "+person, admin.Require(s.serveErase))
	}
	for _, kind := range desks {
		labels := s.connector.ServeLabels(kind.Name)
		mux.Handle("POST /"+kind.Name+"/proactive/{product_id}",
			admin.Require(func(w http.ResponseWriter, r *http.Request) error {
				labels.ServeHTTP(w, r)
				return nil
			}))
	}
}

// audited logs each request, with the name of its key, as a read of one person, before next serves it.
func (s *Service) audited(door string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := s.Keys().NameOf(sha256.Sum256([]byte(access.BearerToken(r))))
		access.Audit(r.Context(), s.log, name, r.PathValue("product_id"), door)
		next.ServeHTTP(w, r)
	})
}

// inGenerations binds the writes of a request to the registrations known at its start, so that no write
// succeeds after the product was removed.
func (s *Service) inGenerations(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(document.WithGenerations(r.Context(), s.products.Generations())))
	})
}

// withGeneration returns a context that binds writes to the product's present registration, unless ctx is
// bound already.
func (s *Service) withGeneration(ctx context.Context, productID string) context.Context {
	if document.Generation(ctx, productID) != 0 {
		return ctx
	}
	return document.WithGenerations(ctx, s.products.Generations())
}

// mountDesks mounts the endpoints for help desks and for the pages of their users.
func (s *Service) mountDesks(mux *httpx.Mux, desks []helpdesk.Kind) {
	const webhook = " /chatbot-webhook/{product_id}"
	mux.Handle("POST"+webhook, http.HandlerFunc(s.connector.ServeWebhook))
	// Desks check that the address exists.
	mux.Handle("HEAD"+webhook, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, kind := range desks {
		mux.Handle("POST /"+kind.Name+"/chat/{product_id}", s.connector.ServeChat(kind.Name))
	}
	mux.Handle("POST /sessions/link", http.HandlerFunc(s.connector.ServeLink))
	mux.Handle("OPTIONS /sessions/link", http.HandlerFunc(s.connector.ServeLinkPreflight))
}

// productOf returns a product. Its error is ErrUnknownProduct, or the storage's if that alone could tell.
func (s *Service) productOf(productID string) (connector.Product, error) {
	product, ok, err := s.products.Product(productID)
	if err == nil && !ok {
		err = ErrUnknownProduct
	}
	return product, err
}
