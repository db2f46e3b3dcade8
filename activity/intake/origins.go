package intake

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// maxRefused is the number of refused origins that are remembered, so that each is logged once; one
// that was forgotten may be logged again. maxOrigin is the number of logged bytes of an origin.
const (
	maxRefused = 2048
	maxOrigin  = 256
)

// refusals counts refused requests from origins that a product does not list, and logs each origin
// once.
type refusals struct {
	count  *prometheus.CounterVec
	logged *lru.Cache[refusal, struct{}]
}

type refusal struct{ productID, origin string }

// CheckOrigin refuses a request with a 403 if its Origin is not in the product's list. It then
// removes the headers set by allowOrigin, so the page cannot read the response. Requests without an
// Origin header, and products without a list, pass.
func (in *Intake) CheckOrigin(w http.ResponseWriter, r *http.Request, productID string) error {
	from := r.Header.Get("Origin")
	if from == "" {
		return nil
	}
	err := access.CheckCurrent(in.products, productID, func() error {
		product, err := in.product(productID)
		if allowed := product.AllowedOrigins; len(allowed) > 0 && !origin.Allows(allowed, from) {
			return errOrigin
		}
		return err
	})
	if !errors.Is(err, errOrigin) {
		return err
	}
	for _, name := range corsHeaders {
		w.Header().Del(name)
	}
	in.refused.count.WithLabelValues(productID).Inc()
	from = strings.Clone(from[:min(len(from), maxOrigin)])
	if known, _ := in.refused.logged.ContainsOrAdd(refusal{productID, from}, struct{}{}); !known {
		in.opts.Logger.Warn("refused a page that the product's allowed_origins lack", "product_id", productID, "origin", from)
	}
	return err
}

var errOrigin = httpx.Errorf(http.StatusForbidden, "Pages of this origin may not report to the product.")

// corsHeaders are the headers that let a page read a response.
var corsHeaders = []string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
}

// Route is a path that SDKs call.
type Route struct {
	Method string
	Serve  httpx.Handler
}

// ServeHTTP serves a request. The zero Route answers 404, and other methods get a 405. Pages of any
// origin pass preflights and may read responses; whether a page may send events to a product is
// decided later, when the token is known.
func (to Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(to.serve).ServeHTTP(w, r)
}

func (to Route) serve(w http.ResponseWriter, r *http.Request) error {
	allowOrigin(w.Header(), r)
	switch {
	case r.Method == http.MethodOptions && (to.Serve != nil || r.Header.Get("Origin") != ""):
		httpx.Preflight(w, cmp.Or(to.Method, "GET, POST")+", OPTIONS", r.Header.Get("Access-Control-Request-Headers"))
		return nil
	case to.Serve == nil:
		return httpx.NotFound("There is nothing at this path.")
	case r.Method != to.Method && !(to.Method == http.MethodGet && r.Method == http.MethodHead):
		return httpx.MethodNotAllowed(to.Method + ", OPTIONS")
	}
	return to.Serve(w, r)
}

// allowOrigin lets the calling page read the response. It states the origin instead of "*", because
// old versions of posthog-js send credentials.
func allowOrigin(header http.Header, r *http.Request) {
	header.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
		header.Set("Access-Control-Expose-Headers", "Retry-After")
	}
}
