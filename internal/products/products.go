// Package products is the registry of the products a server serves: those of
// the product file, the demo product, and those registered while it runs.
package products

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/config"
)

// Registry holds products and their keys. It is safe for concurrent use.
type Registry struct {
	keys *access.Keyring

	mu       sync.RWMutex
	products map[string]product
	tokens   map[string]string // capture token → product id
}

// product is a product and where it comes from.
type product struct {
	config.Product
	fromFile bool
}

// Credentials are what a new product is reached with. They are told once.
type Credentials struct {
	WebhookSecret string
	Key           string // of both scopes
	CaptureToken  string
}

// ErrExists says that there is a product of that id already.
var ErrExists = errors.New("products: there is a product of that id already")

// ErrInFile says that a product belongs to the product file.
var ErrInFile = errors.New("products: the product belongs to the product file")

// New returns an empty registry that keeps its keys in a new keyring.
func New() *Registry {
	return &Registry{keys: access.NewKeyring(), products: map[string]product{}, tokens: map[string]string{}}
}

// FromFile returns a registry of a product file, which must be valid.
func FromFile(file config.File) (*Registry, error) {
	r := New()
	for _, p := range file.Products {
		r.put(product{Product: p, fromFile: true})
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

// Keys returns the keyring of all products.
func (r *Registry) Keys() *access.Keyring { return r.keys }

// Register adds a product with fresh secrets. When there is one of that id
// already it fails with ErrExists, unless force is set: then the product is
// replaced and its old secrets are void at once. A product of the product file
// is never replaced: its secrets would be back after a restart.
func (r *Registry) Register(p config.Product, force bool) (Credentials, error) {
	c := Credentials{
		WebhookSecret: "whs_" + rand.Text(),
		Key:           "lak_" + rand.Text(),
		CaptureToken:  "phc_" + rand.Text(),
	}
	p.WebhookSecret, p.CaptureTokens = c.WebhookSecret, []string{c.CaptureToken}
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.products[p.ProductID]
	switch {
	case exists && old.fromFile:
		return Credentials{}, ErrInFile
	case exists && !force:
		return Credentials{}, ErrExists
	case exists:
		r.keys.RemoveProduct(p.ProductID)
		for _, token := range old.CaptureTokens {
			delete(r.tokens, token)
		}
	}
	r.put(product{Product: p})
	return c, r.keys.Add(c.Key, p.ProductID)
}

func (r *Registry) put(p product) {
	r.products[p.ProductID] = p
	for _, token := range p.CaptureTokens {
		r.tokens[token] = p.ProductID
	}
}

// WebhookSecret implements posthog.Products.
func (r *Registry) WebhookSecret(productID string) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.products[productID]
	return p.WebhookSecret, ok
}

// ProductOfToken implements posthog.Products. Tokens are public: they stand in
// every page.
func (r *Registry) ProductOfToken(token string) (string, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, ok := r.tokens[token]
	return id, ok
}

// IDs returns the ids of all products, sorted.
func (r *Registry) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.products))
}
