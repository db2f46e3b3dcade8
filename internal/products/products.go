// Package products is the registry of the products a server serves: those of
// the product file, the demo product, and those registered while it runs.
//
// Registrations are documents of a log's, so they last and are shared as far as
// that does, under a product id that no product has. Servers on one log tell
// each other of a registration by an entry of that product's, and look before
// they refuse a credential that they do not know.
package products

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/config"
	"github.com/liveactivity/liveactivity/stream"
)

// Registry holds products and their keys. It is safe for concurrent use.
type Registry struct {
	keys *access.Keyring

	mu       sync.RWMutex
	products map[string]product
	tokens   map[string]string // capture token → product id

	log     stream.Log
	loading sync.Mutex // guards what follows: one at a time looks at the log
	seen    stream.ID  // the newest registration there was at the last look
	looked  time.Time  // when the last look began
	failure error      // of the last look, when storage could not be reached
}

// product is a product and where it comes from.
type product struct {
	config.Product
	version document.Version // of its registration; zero for a product that is not registered
}

// Credentials are what a new product is reached with. They are told once.
type Credentials struct {
	WebhookSecret string
	Key           string // of both scopes
	CaptureToken  string
}

func newCredentials() Credentials {
	return Credentials{
		WebhookSecret: "whs_" + rand.Text(),
		Key:           "lak_" + rand.Text(),
		CaptureToken:  "phc_" + rand.Text(),
	}
}

// ErrExists says that there is a product of that id already.
var ErrExists = errors.New("products: there is a product of that id already")

// ErrFixed says that a product is that of the product file, or the demo product.
var ErrFixed = errors.New("products: the product is no registered one")

// ErrUnreadable says that a registration is damaged. The others are served.
var ErrUnreadable = errors.New("products: a registration cannot be read")

// New returns an empty registry that keeps its keys in a new keyring, and its
// registrations in memory until Attach names a better place.
func New() *Registry {
	r := &Registry{keys: access.NewKeyring(), products: map[string]product{}, tokens: map[string]string{},
		log: stream.NewMemoryLog(stream.Retention{})}
	r.keys.OnUnknown(r.refresh)
	return r
}

// FromFile returns a registry of a product file, which must be valid.
func FromFile(file config.File) (*Registry, error) {
	r := New()
	for _, p := range file.Products {
		r.put(product{Product: p})
	}
	for _, k := range file.Keys {
		scopes := make([]access.Scope, len(k.Scopes))
		for i, s := range k.Scopes {
			scopes[i] = access.Scope(s)
		}
		if err := r.keys.Add(k.Key, k.ExternalID, scopes...); err != nil {
			return nil, fmt.Errorf("products: key of %s: %w", k.ExternalID, err)
		}
	}
	return r, nil
}

// AddFixed adds a product with fresh secrets that is not registered: it lives
// as long as the registry.
func (r *Registry) AddFixed(p config.Product) (Credentials, error) {
	c := newCredentials()
	p.WebhookSecret, p.CaptureTokens = c.WebhookSecret, []string{c.CaptureToken}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.products[p.ProductID]; ok {
		return Credentials{}, ErrExists
	}
	r.put(product{Product: p})
	return c, r.keys.Add(c.Key, p.ProductID)
}

// Keys returns the keyring of all products.
func (r *Registry) Keys() *access.Keyring { return r.keys }

func (r *Registry) put(p product) {
	r.products[p.ProductID] = p
	for _, token := range p.CaptureTokens {
		r.tokens[token] = p.ProductID
	}
}

// remove takes a product's credentials away.
func (r *Registry) remove(p product) {
	r.keys.RemoveProduct(p.ProductID)
	for _, token := range p.CaptureTokens {
		delete(r.tokens, token)
	}
	delete(r.products, p.ProductID)
}

// WebhookSecret implements posthog.Products.
func (r *Registry) WebhookSecret(productID string) (string, bool, error) {
	find := func() (string, bool) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		p, ok := r.products[productID]
		return p.WebhookSecret, ok
	}
	return r.orRefresh(find)
}

// ProductOfToken implements posthog.Products. Tokens are public: they stand in
// every page.
func (r *Registry) ProductOfToken(token string) (string, bool, error) {
	find := func() (string, bool) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		id, ok := r.tokens[token]
		return id, ok
	}
	return r.orRefresh(find)
}

// orRefresh looks again after a refresh if need be.
func (r *Registry) orRefresh(find func() (string, bool)) (string, bool, error) {
	if found, ok := find(); ok {
		return found, true, nil
	}
	if err := r.refresh(); err != nil {
		return "", false, err
	}
	found, ok := find()
	return found, ok, nil
}

// IDs returns the ids of all products, sorted.
func (r *Registry) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.products))
}
