// Package access is who may read which product: keys, each bound to one
// product and to the surfaces it opens.
//
//	keys := access.NewKeyring()
//	err := keys.Add("secret", "acme", access.MCP, access.Stream)
//	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, handler))
//
// Keys are held and compared as SHA-256 digests, in constant time.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Scope is a surface that a key opens.
type Scope string

// The scopes there are.
const (
	MCP    Scope = "mcp"    // live activity by REST and by MCP
	Stream Scope = "stream" // the event stream
)

// ParseScope returns the scope of that name.
func ParseScope(name string) (Scope, bool) {
	s := Scope(name)
	return s, s == MCP || s == Stream
}

// What Check answers, in the words that clients are told.
var (
	// ErrInvalid: there is no key, or it is unknown.
	ErrInvalid = errors.New("Invalid or missing API key") //lint:ignore ST1005 clients are told this word for word
	// ErrMismatch: the key is another product's.
	ErrMismatch = errors.New("API key does not match product_id")
	// ErrScope: the key is this product's, but does not open this surface.
	ErrScope = errors.New("API key does not have the scope for this endpoint")
	// ErrUnavailable: it cannot be told just now whether the key is known.
	ErrUnavailable = errors.New("API keys cannot be checked just now; please try again")
)

// Keyring holds keys. It is safe for concurrent use.
type Keyring struct {
	removals atomic.Uint64 // grows whenever a key is taken away
	refresh  func() error  // called before a key is refused as unknown; may be nil

	mu sync.RWMutex
	// Buckets are chosen by the first bytes of the digest, which tells
	// nothing of the key; within one, every digest is compared in full.
	buckets map[uint16][]grant
}

// grant is what one key opens.
type grant struct {
	digest     [sha256.Size]byte
	externalID string
	scopes     []Scope
}

// NewKeyring returns an empty keyring.
func NewKeyring() *Keyring { return &Keyring{buckets: map[uint16][]grant{}} }

// Add lets key read the product externalID through the scopes, through all of
// them when none is given. An empty key or product, or a key that is there
// already, is an error.
func (k *Keyring) Add(key, externalID string, scopes ...Scope) error {
	if key == "" {
		return errors.New("access: empty key")
	}
	return k.AddDigest(sha256.Sum256([]byte(key)), externalID, scopes...)
}

// AddDigest is Add for a key of which only the SHA-256 digest is known.
func (k *Keyring) AddDigest(digest [sha256.Size]byte, externalID string, scopes ...Scope) error {
	if externalID == "" {
		return errors.New("access: empty product")
	}
	if len(scopes) == 0 {
		scopes = []Scope{MCP, Stream}
	}
	g := grant{digest: digest, externalID: externalID, scopes: slices.Clone(scopes)}
	k.mu.Lock()
	defer k.mu.Unlock()
	b := bucket(g.digest)
	if _, ok := find(k.buckets[b], g.digest); ok {
		return errors.New("access: key is there already")
	}
	k.buckets[b] = append(k.buckets[b], g)
	return nil
}

// OnUnknown sets a function that is called before a key is refused as unknown,
// and may add keys that others have made. When it fails the key is refused with
// ErrUnavailable. It must be set before the keyring is used.
func (k *Keyring) OnUnknown(refresh func() error) { k.refresh = refresh }

// RemoveProduct takes all keys of a product away.
func (k *Keyring) RemoveProduct(externalID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for b, grants := range k.buckets {
		k.buckets[b] = slices.DeleteFunc(grants, func(g grant) bool { return g.externalID == externalID })
	}
	k.removals.Add(1)
}

// Check returns nil when key opens the scope for the product, else ErrInvalid,
// ErrMismatch, ErrScope or ErrUnavailable.
func (k *Keyring) Check(key, productID string, scope Scope) error {
	g, err := k.find(key)
	switch {
	case err != nil:
		return err
	case g.externalID != productID:
		return ErrMismatch
	case !slices.Contains(g.scopes, scope):
		return ErrScope
	}
	return nil
}

// Known returns nil when key opens the scope for any product, else ErrInvalid,
// ErrScope or ErrUnavailable.
func (k *Keyring) Known(key string, scope Scope) error {
	g, err := k.find(key)
	if err != nil {
		return err
	}
	return k.Check(key, g.externalID, scope)
}

// find returns what the key opens, or ErrInvalid or ErrUnavailable.
func (k *Keyring) find(key string) (grant, error) {
	digest := sha256.Sum256([]byte(key))
	g, ok := k.findDigest(digest)
	if !ok && k.refresh != nil && key != "" {
		if err := k.refresh(); err != nil {
			return grant{}, ErrUnavailable
		}
		g, ok = k.findDigest(digest)
	}
	if !ok {
		return grant{}, ErrInvalid
	}
	return g, nil
}

func (k *Keyring) findDigest(digest [sha256.Size]byte) (grant, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return find(k.buckets[bucket(digest)], digest)
}

func bucket(digest [sha256.Size]byte) uint16 { return binary.BigEndian.Uint16(digest[:]) }

func find(grants []grant, digest [sha256.Size]byte) (found grant, ok bool) {
	for _, g := range grants {
		if subtle.ConstantTimeCompare(g.digest[:], digest[:]) == 1 {
			found, ok = g, true
		}
	}
	return found, ok
}

// Require lets only requests through whose bearer token opens the scope for
// the product in the path value product_id. Others are answered 401 or 403.
func (k *Keyring) Require(scope Scope, next http.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		key, productID := BearerToken(r), r.PathValue("product_id")
		removals := k.removals.Load()
		if err := k.Check(key, productID, scope); err != nil {
			return Refusal(err)
		}
		check := func() error {
			if k.removals.Load() == removals {
				return nil
			}
			return k.Check(key, productID, scope)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), checkKey{}, check)))
		return nil
	})
}

type checkKey struct{}

// Checker returns a function that tells whether the key which opened the
// request of ctx still does: nil, or what Check answers. A handler whose
// answer takes long calls it before each part of it; that costs next to nothing
// while no key is taken away. It returns nil for a request that did not come
// through Require.
func Checker(ctx context.Context) func() error {
	check, _ := ctx.Value(checkKey{}).(func() error)
	return check
}

// Refusal turns an error of Check into an answer: 401 for ErrInvalid, 503 for
// ErrUnavailable, else 403.
func Refusal(err error) error {
	switch {
	case errors.Is(err, ErrInvalid):
		return httpx.Unauthorized(err.Error(), "Bearer")
	case errors.Is(err, ErrUnavailable):
		return httpx.Unavailable(err)
	}
	return httpx.Errorf(http.StatusForbidden, "%s", err)
}

// BearerToken returns the token of the Authorization header, or "".
func BearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
