package demo

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Demo is one product's page and desk. Its methods are safe for concurrent use.
type Demo struct {
	product Product
	door    string // the secret in the page's URL
	desk    desk
}

// Product identifies the demo product, with the credentials that the page uses.
type Product struct {
	ID    string `json:"product"`
	Key   string `json:"key"`
	Token string `json:"token"` // for the SDK endpoints
}

// New returns the demo of a product whose integration_config has the desk.
func New(product Product) *Demo {
	return &Demo{product: product, door: rand.Text(), desk: desk{secret: rand.Text()}}
}

// Path returns the page's path on the server, with the secret that opens it.
func (d *Demo) Path() string { return "/demo/?" + doorField + "=" + d.door }

// Kind returns the kind of the demo's desk. It always opens the same desk.
func (d *Demo) Kind() helpdesk.Kind {
	return helpdesk.Kind{Name: Name, Open: func(json.RawMessage, *helpdesk.Options) (helpdesk.Desk, error) {
		return &d.desk, nil
	}}
}

// Handler returns a service's handler with the demo at /demo/, as long as the keys open the
// product: once the demo product has been replaced, the service answers there instead. Only a
// browser that has opened the demo gets more than files without secrets and the page that
// explains how to open it.
func (d *Demo) Handler(service http.Handler, keys *access.Keyring) http.Handler {
	mux := httpx.NewMux(service) // like any desk's, its endpoints are the service's
	for _, page := range []string{"/demo", "/demo/{$}", "/demo/shop", "/demo/shop/{path...}"} {
		mux.Handle("GET "+page, httpx.Handler(d.servePage))
	}
	mux.Handle("GET /demo/static/{file}", httpx.Handler(serveFile))
	mux.Handle("GET /demo/config", d.inside(d.serveConfig))
	mux.Handle("GET /demo/desk/conversations", d.inside(d.serveList))
	mux.Handle("POST /demo/desk/conversations", d.inside(own(d.takeMessage(service))))
	mux.Handle("POST /demo/desk/conversations/{id}/messages", d.inside(own(d.takeMessage(service))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isDemo := r.URL.Path == "/demo" || strings.HasPrefix(r.URL.Path, "/demo/")
		if isDemo && keys.Check(d.product.Key, d.product.ID, access.MCP) == nil {
			mux.ServeHTTP(w, r)
			return
		}
		service.ServeHTTP(w, r)
	})
}

// inside passes on requests from a browser that has opened the page's URL on
// this machine.
func (d *Demo) inside(next httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if !isLocal(r) || !d.isOpen(r) {
			return httpx.Errorf(http.StatusForbidden, "Open the demo at the address that the server printed; /demo/ tells more.")
		}
		w.Header().Set("Cache-Control", "no-store")
		return next(w, r)
	})
}

// own passes on requests made by the demo's own page. The cookie is SameSite=Strict, but pages
// on other ports of this machine are on the same site.
func own(next httpx.Handler) httpx.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Header.Get("Origin") != "http://"+r.Host {
			return httpx.Errorf(http.StatusForbidden, "Only the demo's own page may write here.")
		}
		return next(w, r)
	}
}

// serveConfig serves the key and the token for the page.
func (d *Demo) serveConfig(w http.ResponseWriter, _ *http.Request) error {
	httpx.WriteJSON(w, http.StatusOK, d.product)
	return nil
}

// serveList serves all of the desk's conversations. The page polls: a single visitor's are small.
func (d *Demo) serveList(w http.ResponseWriter, _ *http.Request) error {
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"conversations": d.desk.list()})
	return nil
}
