// Package access controls read access to products, by keys that are each bound to
// one product and to scopes.
//
//	keys := access.NewKeyring()
//	err := keys.Add("secret", "acme", access.MCP, access.Stream)
//	mux.Handle("GET /users/{product_id}/{user_id}/live-activity", keys.Require(access.MCP, lookup))
//
// Keys are stored and compared as SHA-256 digests, in constant time.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
)

// Scope is an interface of the service that a key opens.
type Scope string

// The scopes.
const (
	MCP    Scope = "mcp"    // live activity over REST and MCP
	Stream Scope = "stream" // the event stream
)

// ParseScope returns the scope of that name.
func ParseScope(name string) (Scope, bool) {
	s := Scope(name)
	return s, s == MCP || s == Stream
}

// The errors of Check. Their texts are sent to clients.
var (
	// ErrInvalid means that the key is missing or unknown.
	ErrInvalid = errors.New("Invalid or missing API key") //lint:ignore ST1005 the HTTP contract fixes this text
	// ErrMismatch means that the key belongs to another product.
	ErrMismatch = errors.New("API key does not match product_id")
	// ErrScope means that the key belongs to the product but lacks the scope.
	ErrScope = errors.New("API key does not have the scope for this endpoint")
	// ErrUnavailable means that keys cannot be checked at the moment.
	ErrUnavailable = errors.New("API keys cannot be checked just now; please try again")
)

// Keyring holds keys. Make one with [NewKeyring]. It is safe for concurrent use.
type Keyring struct {
	removals atomic.Uint64 // grows whenever a key is removed
	refresh  func() error  // called before a key is refused as unknown; may be nil

	mu sync.RWMutex
	// Buckets are chosen by the first bytes of the digest, which reveal
	// nothing about the key; within a bucket, every digest is compared in
	// full.
	buckets map[uint16][]grant // guarded by mu
}

// grant is the product and scopes of one key. scopes is never empty.
type grant struct {
	digest     [sha256.Size]byte
	externalID string
	scopes     []Scope
	name       string
}

// NewKeyring returns an empty keyring.
func NewKeyring() *Keyring { return &Keyring{buckets: map[uint16][]grant{}} }

// Add lets key read the product externalID through the scopes, or through all
// scopes if none is given. Its error joins all invalid arguments; a key that the
// keyring already holds is invalid.
func (k *Keyring) Add(key, externalID string, scopes ...Scope) error {
	wrong := options.Mistakes{Package: "access"}
	wrong.Require(key != "", "key", "must not be empty")
	wrong.Require(strings.TrimSpace(key) == key, "key", "must not start or end with white space")
	return k.add(&wrong, sha256.Sum256([]byte(key)), externalID, scopes)
}

// AddDigest is Add for a key known only by its SHA-256 digest.
func (k *Keyring) AddDigest(digest [sha256.Size]byte, externalID string, scopes ...Scope) error {
	return k.add(&options.Mistakes{Package: "access"}, digest, externalID, scopes)
}

// add adds a grant. It adds mistakes in the arguments to wrong and returns wrong's error; then
// the grant is not added.
func (k *Keyring) add(wrong *options.Mistakes, digest [sha256.Size]byte, externalID string, scopes []Scope) error {
	wrong.Require(externalID != "", "externalID", "must not be empty")
	for _, scope := range scopes {
		checkScope(wrong, scope)
	}
	if len(scopes) == 0 {
		scopes = []Scope{MCP, Stream}
	}
	g := grant{digest: digest, externalID: externalID, scopes: slices.Clone(scopes)}
	k.mu.Lock()
	defer k.mu.Unlock()
	b := bucket(g.digest)
	_, held := find(k.buckets[b], g.digest)
	wrong.Require(!held, "key", "must not be added twice")
	if err := wrong.Err(); err != nil {
		return err
	}
	k.buckets[b] = append(k.buckets[b], g)
	return nil
}

func checkScope(wrong *options.Mistakes, scope Scope) {
	_, ok := ParseScope(string(scope))
	wrong.Require(ok, "scope", fmt.Sprintf("must be %s or %s, not %q", MCP, Stream, scope))
}

// SetName names a key that the keyring holds, by its SHA-256 digest, for [Audit]. For
// an unknown key it does nothing.
func (k *Keyring) SetName(digest [sha256.Size]byte, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	grants := k.buckets[bucket(digest)]
	for i := range grants {
		if grants[i].digest == digest {
			grants[i].name = name
		}
	}
}

// NameOf returns the name of the key with this SHA-256 digest, for [Audit].
func (k *Keyring) NameOf(digest [sha256.Size]byte) string {
	g, _ := k.findDigest(digest)
	return g.name
}

// Audit logs that the key of this name was used to read a person's data through a door of the
// service. It logs nothing about the person. Every such read calls it once.
func Audit(ctx context.Context, log *slog.Logger, name, productID, door string) {
	log.LogAttrs(ctx, slog.LevelInfo, "a person's data were read", slog.Bool("audit", true),
		slog.String("key", name), slog.String("product_id", productID), slog.String("door", door))
}

// OnUnknown sets a function that is called before a key is refused as unknown, and may add keys
// created by other processes. If it fails, the key is refused with ErrUnavailable. It is called
// concurrently, without a lock of the keyring, and blocks the request that has the key. Set it
// before the keyring is used.
func (k *Keyring) OnUnknown(refresh func() error) { k.refresh = refresh }

// RemoveProduct removes all keys of a product. Responses that [Keyring.Admit] has let through
// end at their next check.
func (k *Keyring) RemoveProduct(externalID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for b, grants := range k.buckets {
		k.buckets[b] = slices.DeleteFunc(grants, func(g grant) bool { return g.externalID == externalID })
	}
	k.removals.Add(1)
}

// Check returns nil if key opens the scope for the product, otherwise
// ErrInvalid, ErrMismatch, ErrScope or ErrUnavailable.
func (k *Keyring) Check(key, productID string, scope Scope) error {
	if key == "" {
		return ErrInvalid
	}
	g, err := k.findCurrent(sha256.Sum256([]byte(key)))
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

// ProductOf returns the product for which key opens the scope, otherwise
// ErrInvalid, ErrScope or ErrUnavailable.
func (k *Keyring) ProductOf(key string, scope Scope) (productID string, err error) {
	if key == "" {
		return "", ErrInvalid
	}
	return k.ProductOfDigest(sha256.Sum256([]byte(key)), scope)
}

// ProductOfDigest is ProductOf for a key known only by its SHA-256 digest.
func (k *Keyring) ProductOfDigest(digest [sha256.Size]byte, scope Scope) (productID string, err error) {
	g, err := k.findCurrent(digest)
	switch {
	case err != nil:
		return "", err
	case !slices.Contains(g.scopes, scope):
		return "", ErrScope
	}
	return g.externalID, nil
}

// findCurrent returns a key's grant, or ErrInvalid or ErrUnavailable.
func (k *Keyring) findCurrent(digest [sha256.Size]byte) (grant, error) {
	g, ok := k.findDigest(digest)
	if !ok && k.refresh != nil {
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

// find compares with every grant, so its time does not reveal where the key is.
func find(grants []grant, digest [sha256.Size]byte) (found grant, ok bool) {
	for _, g := range grants {
		if subtle.ConstantTimeCompare(g.digest[:], digest[:]) == 1 {
			found, ok = g, true
		}
	}
	return found, ok
}

// Require passes on requests whose bearer token opens the scope for the product in
// the path value product_id. Others get the status of [Refusal]. Invalid arguments
// are logged immediately, and then every request gets a 500.
func (k *Keyring) Require(scope Scope, next http.Handler) http.Handler {
	wrong := options.Mistakes{Package: "access"}
	checkScope(&wrong, scope)
	wrong.Require(next != nil, "next", "must not be nil")
	if err := wrong.Err(); err != nil {
		slog.Default().Error("a handler cannot be served", "err", err)
		return httpx.Handler(func(http.ResponseWriter, *http.Request) error { return err })
	}
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		if err := k.checkRequest(r, scope); err != nil {
			return err
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

func (k *Keyring) checkRequest(r *http.Request, scope Scope) error {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	if err := k.Check(BearerToken(r), productID, scope); err != nil {
		return Refusal(err)
	}
	return nil
}

// Admit is Require for a handler of long responses. It returns an HTTP error for a
// request that is refused, and otherwise a function to call before each part of the
// response. That function returns an error of Check once the key is removed; it
// costs almost nothing until a key is.
func (k *Keyring) Admit(r *http.Request, scope Scope) (recheck func() error, err error) {
	removals := k.removals.Load()
	if err := k.checkRequest(r, scope); err != nil {
		return nil, err
	}
	key, productID := strings.Clone(BearerToken(r)), strings.Clone(r.PathValue("product_id")) // they outlive the request
	return func() error {
		if k.removals.Load() == removals {
			return nil
		}
		return k.Check(key, productID, scope)
	}, nil
}

// Refusal turns an error of Check into an HTTP error: 401 for ErrInvalid, 503
// for ErrUnavailable, otherwise 403.
func Refusal(err error) error {
	switch {
	case errors.Is(err, ErrInvalid):
		return httpx.Unauthorized(err.Error(), "Bearer")
	case errors.Is(err, ErrUnavailable):
		return httpx.Unavailable(err)
	}
	return httpx.Errorf(http.StatusForbidden, "%s", err)
}

// BearerToken returns the token of the Authorization header, or "". The scheme may be in upper
// or lower case, as in RFC 9110.
func BearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
