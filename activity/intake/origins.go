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

// maxRefused is how many refused origins are remembered, so that each is logged once. One
// that is forgotten may be logged again. maxOrigin is how much of one is logged.
const (
	maxRefused = 2048
	maxOrigin  = 256
)

// refusals counts the requests refused from pages of origins that a product does not list, and
// logs each origin once.
type refusals struct {
	count  *prometheus.CounterVec
	logged *lru.Cache[refusal, struct{}]
}

type refusal struct{ productID, origin string }

// CheckOrigin refuses a request for the product, 403, from a page of an origin that is not in
// the product's list, if it has one. It takes back the headers of allowOrigin, so the page
// cannot read the answer. A request without an Origin header passes.
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
		in.opts.Logger.Warn("refused a page that the product's allowed_origins lack",
			"product_id", productID, "origin", from)
	}
	return err
}

var errOrigin = httpx.Errorf(http.StatusForbidden, "Pages of this origin may not report to the product.")

// corsHeaders are those that let a page read an answer.
var corsHeaders = []string{
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers",
}

// Route is a path that SDKs call.
type Route struct {
	Method string
	Serve  httpx.Handler
}

// ServeHTTP serves a call: of the zero Route a 404, of another method a 405. Pages of any origin
// may read the answer, and are told so before they call; whether one may report to a product is
// decided later, as the token comes with the call.
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

// allowOrigin lets the calling page read the answer. Old versions of posthog-js send
// credentials, so the origin is named instead of "*".
func allowOrigin(header http.Header, r *http.Request) {
	header.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
		header.Set("Access-Control-Expose-Headers", "Retry-After")
	}
}
