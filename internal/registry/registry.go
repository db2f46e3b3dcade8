// Package registry holds the products that a service serves: the ones configured at
// startup, and the ones registered at runtime.
package registry

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/flat"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// A product's origin determines its behavior. A product of the file has version zero, is never
// replaced and never stale. A registered product has the version of its document. A
// registration goes through these states, each a compare-and-set of the document with a notice
// in the log:
//
//	document       served  leaves it by
//	none           no      Register → registered
//	registered     yes     Register with force → registered; Unregister → removed
//	removed        no      drop of its data, then delete → none; Register, after the drop → registered
//
// The document marked as removed stays until the product's data are gone, so the next
// Unregister or Register of that ID completes an interrupted removal.

// Registry holds products and their keys. It is safe for concurrent use.
//
// A registration is a document and an entry of the log, committed together under a
// product ID that no product has, so it is as durable and as shared as the log.
// Services on one log learn of each other's registrations by following the entries, and
// read the entries once more before they refuse an unknown credential.
type Registry struct {
	keys *access.Keyring

	mu       sync.RWMutex
	products map[string]*product // never modified, only replaced
	tokens   map[string]string   // capture token → product ID

	extensions  productfile.Extensions
	deskOptions *helpdesk.Options // for every desk; its Logger is the registry's, too
	log         eventlog.Log
	taken       uint64        // counts registrations put; see product.taken; guarded by mu
	changed     schedule.Wake // see Changed
	loading     chan struct{} // holds a value during a look at the log; never filled with mu held
	refreshedAt time.Time     // when refresh last looked; guarded by loading
	refreshErr  error         // result of that look; guarded by loading
	listed      bool          // whether all registrations have been listed; guarded by loading
	loaded      chan struct{} // closed at the first such listing
	seen        eventlog.ID   // the newest entry applied since; guarded by loading
	lost        eventlog.ID   // the bounds' Lost at that listing; guarded by loading
}

// product is a product and its origin. It does not change once it is in the registry.
type product struct {
	productfile.Product
	connected connector.Product // with open desks
	reports   intake.Product
	version   document.Version // of its registration; zero if it is not registered
	since     document.Version // of its first registration
	taken     uint64           // Registry.taken when this process put it
}

// Credentials give access to a registered product. Only the caller that
// registers it ever sees them.
type Credentials struct {
	WebhookSecret string `json:"webhook_secret"`
	Key           string `json:"key"` // for both scopes
	CaptureToken  string `json:"capture_token"`
}

// newCredentials returns credentials of at least 128 random bits each. Their prefixes
// tell people and secret scanners which is which.
func newCredentials() Credentials {
	return Credentials{WebhookSecret: "whs_" + rand.Text(), Key: "lak_" + rand.Text(), CaptureToken: "phc_" + rand.Text()}
}

// NewProduct returns a product with fresh secrets, and a key for it with all
// scopes.
func NewProduct(productID string) (productfile.Product, productfile.Key) {
	c := newCredentials()
	p := productfile.Product{ProductID: productID, WebhookSecret: c.WebhookSecret, CaptureTokens: []string{c.CaptureToken}}
	return p, productfile.Key{Key: c.Key, ExternalID: productID}
}

// ErrExists is returned if there is already a product with that ID.
var ErrExists = errors.New("registry: there is a product of that id already")

// ErrFixed is returned for a product of the product file, or the demo product.
var ErrFixed = errors.New("registry: not a registered product")

// ErrUnknown is returned for an unknown product.
var ErrUnknown = errors.New("registry: unknown product")

// New returns a registry of the products and keys of a file, which must be valid. It opens
// their desks and omits desks that cannot be opened. It keeps registrations in the documents
// of log, and serves existing ones after Load. logger may be nil for slog.Default(). New reads nothing
// and starts nothing.
func New(file productfile.File, with productfile.Extensions, logger *slog.Logger, log eventlog.Log) (*Registry, error) {
	r := &Registry{keys: access.NewKeyring(), extensions: with, products: map[string]*product{},
		deskOptions: &helpdesk.Options{Logger: cmp.Or(logger, slog.Default())}, tokens: map[string]string{}, log: log,
		loading: make(chan struct{}, 1), loaded: make(chan struct{}), changed: schedule.NewWake()}
	r.keys.OnUnknown(r.refresh)
	for _, p := range file.Products {
		opened, _ := r.open(p)
		r.put(opened)
	}
	for _, k := range file.Keys {
		if err := r.keys.Add(k.Key, k.ExternalID, k.Scopes...); err != nil {
			return nil, fmt.Errorf("registry: key of %s: %w", k.ExternalID, err)
		}
		r.keys.SetName(sha256.Sum256([]byte(k.Key)), k.Name)
	}
	return r, nil
}

// Keys returns the keyring of all products. It refreshes the registry before it refuses an
// unknown key.
func (r *Registry) Keys() *access.Keyring { return r.keys }

// open returns a product with its desks, and the problems of the desks that could not be
// opened, which it omits.
func (r *Registry) open(p productfile.Product) (product, []string) {
	desks, wrong := r.extensions.Open(p.IntegrationConfig.Desks, r.deskOptions)
	sources := make(map[string]*intake.Source, len(p.Sources))
	for i := range p.Sources {
		sources[p.Sources[i].Name] = flat.New(&p.Sources[i])
	}
	return product{Product: p, connected: connected(p, desks, r.extensions.Triggers),
		reports: intake.Product{WebhookSecret: p.WebhookSecret, AllowedOrigins: p.AllowedOrigins,
			IdentitySecrets: p.Identity.Secrets, RespectGPC: p.RespectGPC, Events: intake.NewEvents(p.Events),
			Sources: sources}}, wrong
}

// put begins to serve a product, except for capture tokens that another product has already. mu
// must be held, or the registry not yet shared, and an earlier product with that ID must have been
// removed.
func (r *Registry) put(p product) {
	if p.version != 0 {
		r.taken++
		p.taken = r.taken
	}
	r.products[p.ProductID] = &p
	for _, token := range p.CaptureTokens {
		if _, taken := r.tokens[token]; !taken {
			r.tokens[token] = p.ProductID
		}
	}
	r.changed.Signal()
}

// remove revokes a product's credentials and stops serving it. mu must be held.
func (r *Registry) remove(p *product) {
	r.keys.RemoveProduct(p.ProductID)
	for _, token := range p.CaptureTokens {
		if r.tokens[token] == p.ProductID {
			delete(r.tokens, token)
		}
	}
	delete(r.products, p.ProductID)
	r.changed.Signal()
}

// Changed returns a channel that receives a value when products are added or removed, unless
// one is pending. It is for one receiver, which then compares [Registry.IDs], since one value
// may stand for several changes.
func (r *Registry) Changed() <-chan struct{} { return r.changed }

// product returns a product, or an empty one if there is none. The caller must not
// modify it.
func (r *Registry) product(productID string) (p *product, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p, ok = r.products[productID]; !ok {
		p = &noProduct
	}
	return p, ok
}

var noProduct product

// ProductOfID implements intake.Products.
func (r *Registry) ProductOfID(productID string) (intake.Product, bool, error) {
	return orRefresh(r, func() (intake.Product, bool) {
		p, ok := r.product(productID)
		return p.reports, ok
	})
}

// Refresh is for access.CheckCurrent. A product of the product file is never stale. It blocks
// for at most about a second if storage hangs.
func (r *Registry) Refresh(productID string) error {
	if r.isFixed(productID) {
		return nil
	}
	return r.refresh()
}

// ProductOfToken implements intake.Products. Tokens are public: every page
// contains one.
func (r *Registry) ProductOfToken(token string) (string, bool, error) {
	return orRefresh(r, func() (string, bool) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		id, ok := r.tokens[token]
		return id, ok
	})
}

// Configuration returns a product's configuration, or the zero value. The caller must not
// modify it.
func (r *Registry) Configuration(productID string) productfile.Product {
	p, _ := r.product(productID)
	return p.Product
}

// VerifiedOnly reports whether a product ignores claimed identities.
func (r *Registry) VerifiedOnly(productID string) bool {
	p, _ := r.product(productID)
	return p.Identity.Unverified == productfile.UnverifiedNone
}

// Product implements connector.Products.
func (r *Registry) Product(productID string) (connector.Product, bool, error) {
	return orRefresh(r, func() (connector.Product, bool) {
		p, ok := r.product(productID)
		return p.connected, ok
	})
}

// Version returns the version of a product's registration, which changes when the product
// is registered again. It is zero for a product that is not registered, and false for one
// that is not served.
func (r *Registry) Version(productID string) (document.Version, bool) {
	p, ok := r.product(productID)
	return p.version, ok
}

// Since is like Version, but returns the version of the product's first registration, which stays
// when it is registered again with force.
func (r *Registry) Since(productID string) (document.Version, bool) {
	p, ok := r.product(productID)
	return p.since, ok
}

// beforeRegistration is the generation of a write whose product was registered, or became known,
// after the write began: the write is refused if the product was ever dropped.
const beforeRegistration document.Version = 1

// Generations returns, for [document.WithGenerations], the current generations of products:
// writes that begin now belong to the registrations that this process knows. A write whose
// product is registered later, or again, may belong to an earlier registration, so it is
// refused if the product was ever dropped. The returned function is safe for concurrent use.
func (r *Registry) Generations() func(productID string) document.Version {
	r.mu.RLock()
	defer r.mu.RUnlock()
	now := r.taken
	return func(productID string) document.Version {
		if p, ok := r.product(productID); ok && p.taken <= now {
			return p.version
		}
		return beforeRegistration
	}
}

// orRefresh calls find, and calls it again after a refresh if the first call finds nothing.
// An error means that the registrations are unknown, so ok says nothing.
func orRefresh[T any](r *Registry, find func() (T, bool)) (found T, ok bool, err error) {
	if found, ok = find(); ok {
		return found, true, nil
	}
	if err := r.refresh(); err != nil {
		return found, false, err
	}
	found, ok = find()
	return found, ok, nil
}

// isFixed reports whether a product is from the file, or the demo product.
func (r *Registry) isFixed(productID string) bool {
	p, ok := r.product(productID)
	return ok && p.version == 0
}

// IDs returns the IDs of all products, sorted.
func (r *Registry) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.products))
}
