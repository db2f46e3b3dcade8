package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/productfile"
)

// The endpoints for a service's owner. As everywhere, a handler answers 503 if storage is
// unavailable. A change answered with 503 may still have happened; every change can be
// repeated.

// Admin serves the admin endpoints. Every handler except Require expects a request that has
// passed Require. It keeps only the digest of the key.
type Admin struct {
	digest   [sha256.Size]byte
	products *Registry
	signIn   *oauth.Server
	urls     URLs
}

// NewAdmin returns the endpoints for a registry and for the grants of its products' keys.
// They accept only this key, which must not be empty.
func NewAdmin(key string, products *Registry, signIn *oauth.Server, urls URLs) *Admin {
	return &Admin{digest: sha256.Sum256([]byte(key)), products: products, signIn: signIn, urls: urls}
}

// Require passes on only requests with the admin key, in X-Admin-Key or as a bearer token, and
// gives each at most 4 seconds. It compares digests in constant time, so the duration reveals
// neither the key nor its length.
func (a *Admin) Require(next httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		key := cmp.Or(r.Header.Get("X-Admin-Key"), access.BearerToken(r))
		digest := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(digest[:], a.digest[:]) != 1 {
			return httpx.Unauthorized("The admin key is missing or wrong.", "Bearer")
		}
		w.Header().Set("Cache-Control", "no-store") // X-Admin-Key tells a shared cache nothing
		ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
		defer cancel()
		return next(w, r.WithContext(ctx))
	})
}

// adminTimeout limits a request, so that it is answered within 5 seconds even if
// storage hangs. A removal that takes longer continues when the request is repeated.
const adminTimeout = 4 * time.Second

// maxRegistration is the maximum size of a registration, in bytes: it must fit
// into a document.
const maxRegistration = 256 << 10

// registerRequest is the body of POST /admin/products: a product whose credentials are
// generated here. Fields without a JSON name hide the credentials' fields, so a request that
// sets them is refused.
type registerRequest struct {
	productfile.Product
	WebhookSecret, CaptureTokens struct{} `json:"-"`

	Name  string `json:"name"` // the key's name
	Force bool   `json:"force"`
}

// listItem is a product as GET /admin/products shows it.
type listItem struct {
	ProductID       string `json:"product_id"`
	WebhookURL      string `json:"webhook_url"`
	StreamURL       string `json:"stream_url"`
	LiveActivityURL string `json:"live_activity_url"` // with {user_id} to fill in
	MCPURL          string `json:"mcp_url"`
}

func (u URLs) ofProduct(productID string) listItem {
	return listItem{productID, u.Webhook(productID), u.Stream(productID), u.LiveActivity(productID, "{user_id}"), u.MCP()}
}

// registered is the answer to a registration. Only this answer contains the
// secrets.
type registered struct {
	listItem
	Credentials
}

// Register serves POST /admin/products. The answer names only the first mistake. It must not be
// cached, because it contains the secrets.
func (a *Admin) Register(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.ReadBody(w, r, maxRegistration, "")
	if err != nil {
		return err
	}
	defer body.Release()
	var reg registerRequest
	problems := productfile.DecodeBody(body.Bytes(), &reg)
	if problems == nil {
		problems = reg.Product.Validate(a.products.extensions)
	}
	if problem := productfile.CheckKeyName(reg.Name); problem != "" {
		problems = append(problems, problem)
	}
	if problems != nil {
		end := "."
		if strings.HasSuffix(problems[0], "?") { // it suggests a name
			end = ""
		}
		return httpx.BadRequest("The registration is not valid: %s%s", problems[0], end)
	}
	credentials, err := a.products.Register(r.Context(), reg.Product, reg.Name, reg.Force)
	switch {
	case errors.Is(err, ErrFixed):
		return httpx.Errorf(http.StatusConflict,
			"The product %s is in the product file, or is the demo product: it cannot be registered.", reg.ProductID)
	case errors.Is(err, ErrExists):
		return httpx.Errorf(http.StatusConflict,
			`The product %s exists already; "force": true rotates all its secrets.`, reg.ProductID)
	case err != nil:
		return httpx.Unavailable(err)
	}
	a.products.deskOptions.Logger.Info("a product was registered", "product_id", reg.ProductID, "force", reg.Force)
	httpx.WriteJSON(w, http.StatusCreated, registered{a.urls.ofProduct(reg.ProductID), credentials})
	return nil
}

// Remove serves DELETE /admin/products/{product_id}. Removing a lot of data may answer 503
// several times before the 204; each repetition continues with the rest.
func (a *Admin) Remove(w http.ResponseWriter, r *http.Request) error {
	err := a.products.Unregister(r.Context(), r.PathValue("product_id"))
	switch {
	case errors.Is(err, ErrFixed):
		return httpx.Errorf(http.StatusConflict,
			"The product is in the product file, or is the demo product: it cannot be removed here.")
	case errors.Is(err, ErrUnknown):
		return httpx.NotFound("Unknown product.")
	case err != nil:
		return httpx.Unavailable(err)
	}
	a.products.deskOptions.Logger.Info("a product was removed", "product_id", r.PathValue("product_id"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// known returns the product ID in a request's path, or a 404. It first loads the registrations,
// so that it knows a product that another server has just registered.
func (a *Admin) known(r *http.Request) (productID string, err error) {
	productID = r.PathValue("product_id")
	if err := a.products.Load(r.Context()); err != nil {
		return "", httpx.Unavailable(err)
	}
	if _, ok := a.products.Version(productID); !ok {
		return "", httpx.NotFound("Unknown product.")
	}
	return productID, nil
}

// Grants serves GET /admin/grants/{product_id}.
func (a *Admin) Grants(w http.ResponseWriter, r *http.Request) error {
	productID, err := a.known(r)
	if err != nil {
		return err
	}
	grants, err := a.signIn.Grants(r.Context(), productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"grants": grants})
	return nil
}

// EndGrant serves DELETE /admin/grants/{product_id}/{grant_id}: 204, or 404 for a grant that
// has ended.
func (a *Admin) EndGrant(w http.ResponseWriter, r *http.Request) error {
	productID, err := a.known(r)
	if err != nil {
		return err
	}
	ended, err := a.signIn.End(r.Context(), productID, r.PathValue("grant_id"))
	switch {
	case err != nil:
		return httpx.Unavailable(err)
	case !ended:
		return httpx.NotFound("Unknown grant.")
	}
	a.products.deskOptions.Logger.Info("a sign-in was ended", "product_id", productID, "grant_id", r.PathValue("grant_id"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// List serves GET /admin/products: all products, including the file's, sorted by ID,
// without secrets.
func (a *Admin) List(w http.ResponseWriter, r *http.Request) error {
	if err := a.products.Load(r.Context()); err != nil {
		return httpx.Unavailable(err)
	}
	list := []listItem{}
	for _, id := range a.products.IDs() {
		list = append(list, a.urls.ofProduct(id))
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"products": list})
	return nil
}
