// Package oauth signs MCP clients in: it is the OAuth authorization server of an MCP
// server whose users have a key of a product and nothing else.
//
//	signIn, err := oauth.New("https://live.example.com", keys, documents, nil)
//	signIn.Mount(mux.Handle)
//	tool, err := mcptool.NewHandler(lookup, keys, &mcptool.Options{SignIn: signIn})
//
// A client that cannot be given a key finds the server by its metadata (RFC 9728, RFC
// 8414), registers (RFC 7591) or is known by the URL of its own metadata document, and
// sends its user's browser to the sign-in page. The page asks for a key. The client gets
// an access token for an hour and a refresh token for 30 days, which can be used once.
// PKCE with S256 is required (RFC 7636).
//
// A token gives the access of its key over MCP and no other, and ends with the key.
//
// Clients and grants are documents, so every server on one storage accepts the tokens of
// the others. A grant is one document from the code to its last token, in the product of
// its key, so each of its steps is one compare-and-set. It holds digests only.
package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// Lifetimes, and the bounds of stored documents.
const (
	CodeTTL    = time.Minute         // RFC 6749, section 4.1.2, asks for 10 minutes at most
	AccessTTL  = time.Hour           // of each access token
	RefreshTTL = 30 * 24 * time.Hour // renewed with each refresh

	MaxClients = 1000 // registered without a grant; the least recently used goes first
	MaxGrants  = 100  // of a key; the least recently used goes first
)

// storageTime bounds the storage calls of a request, so that it is answered within 5
// seconds while storage hangs.
const storageTime = 4 * time.Second

// Options of [New]; a zero field means its default.
type Options struct {
	Logger *slog.Logger // slog.Default()
}

// Server is the authorization server, and checks the tokens that it issued. It is safe
// for concurrent use.
type Server struct {
	// issuer is publicURL without a slash at its end, and prefix its path. A client compares
	// the issuer byte for byte with the iss of an answer (RFC 9207), so there is one spelling
	// of it.
	issuer   string // empty for a server without sign-in
	prefix   string // the path of the issuer, without a slash at its end
	resource string // the MCP server
	keys     *access.Keyring
	// docs is nil in a server of [KeysOnly], which therefore never calls it.
	docs document.Store
	log  *slog.Logger

	documents *fetcher // of clients that are known by a URL
	// changing serializes changes to the list of clients within this process. Servers that
	// share a storage rely on compare-and-set; the semaphore only keeps the requests of one
	// server from conflicting with each other.
	changing *semaphore.Weighted // one at a time
}

// New returns the authorization server of the MCP server at publicURL + "/mcp". Without a
// public URL, or with one that is neither https nor a loopback address, there is no
// sign-in: the server takes keys only. New starts no goroutines. Its error joins all
// invalid arguments; opts may be nil.
func New(publicURL string, keys *access.Keyring, docs document.Store, opts *Options) (*Server, error) {
	wrong := options.Mistakes{Package: "oauth"}
	wrong.Require(keys != nil, "keys", "must not be nil")
	wrong.Require(docs != nil, "docs", "must not be nil")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	o := *cmp.Or(opts, &Options{})
	s := &Server{keys: keys, docs: docs, log: cmp.Or(o.Logger, slog.Default()),
		documents: newFetcher(), changing: semaphore.NewWeighted(1)}
	if u, ok := usable(publicURL); ok {
		s.issuer, s.prefix = strings.TrimRight(publicURL, "/"), strings.TrimRight(u.EscapedPath(), "/")
		s.resource = s.issuer + "/mcp"
	}
	return s, nil
}

// KeysOnly returns a server without sign-in that needs no storage. Only its KeyOf, Challenge,
// On and Mount may be called.
func KeysOnly(keys *access.Keyring) *Server { return &Server{keys: keys} }

// On reports whether clients can sign in.
func (s *Server) On() bool { return s.issuer != "" }

// usable reports whether clients may be sent to a URL. Codes and tokens travel to it, so it is
// https, or http on the user's own machine; a query, a fragment or a password would end up in
// every URL made from it.
func usable(publicURL string) (*url.URL, bool) {
	u, ok := origin.Base(publicURL)
	return u, ok && (u.Scheme == "https" || origin.IsLoopback(u.Host))
}

// KeyOf returns the digest and the product of the key that a bearer token is or, as an access
// token, stands for. An access token costs a read of storage, which may take 4 seconds; a known
// key costs none. The errors are the ones [access.Keyring.ProductOf] returns for the scope
// [access.MCP], to be tested with errors.Is. With an error, the digest and the product mean
// nothing.
//
// A token that looks like an access token but is none is tried as a key, because keys are free
// text.
func (s *Server) KeyOf(ctx context.Context, token string) (digest [sha256.Size]byte, productID string, err error) {
	if t, ok := parseToken(accessPrefix, token); ok && s.On() {
		digest, productID, err = s.keyOfAccess(ctx, t)
		if !errors.Is(err, access.ErrInvalid) {
			return digest, productID, err
		}
	}
	productID, err = s.keys.ProductOf(token, access.MCP)
	return sha256.Sum256([]byte(token)), productID, err
}

// Challenge returns the WWW-Authenticate header for a bearer token that KeyOf refused
// with this error, or "" for none. A wrong key has an error of its own: without it some
// clients sign in again and again instead of reporting the key.
func (s *Server) Challenge(token string, err error) string {
	var parts []string
	if s.On() {
		parts = []string{`resource_metadata="` + s.wellKnown(resourceMetadata, "/mcp") + `"`, `scope="mcp"`}
	}
	switch {
	case errors.Is(err, access.ErrScope) && s.On():
		return `Bearer error="insufficient_scope", ` + parts[1] + ", " + parts[0]
	case !errors.Is(err, access.ErrInvalid):
		return ""
	}
	if token != "" {
		words := "wrong key: the server does not know this API key"
		if _, ok := parseToken(accessPrefix, token); ok {
			words = "the access token has expired or was ended, or it is a wrong key"
		}
		parts = append(parts, `error="invalid_token"`, `error_description="`+words+`"`)
	}
	return strings.TrimSuffix("Bearer "+strings.Join(parts, ", "), " ")
}

// Mount registers the endpoints by handle, which is [http.ServeMux.Handle] or similar. A server
// without sign-in has one endpoint, which answers that there is none.
//
// Only the sign-in page is not wrapped in open: no other origin may read it.
func (s *Server) Mount(handle func(pattern string, h http.Handler)) {
	if !s.On() {
		handle("POST /oauth/register", open(func(http.ResponseWriter, *http.Request) error {
			return refuse("invalid_request",
				"This server takes a key of the product as bearer token, and has no sign-in: "+
					"for that it needs a --public-url that is https or a loopback address.")
		}))
		return
	}
	for _, behind := range s.behind("", "/mcp", "/mcp/{$}") {
		handle("GET "+resourceMetadata+behind, open(s.serveResource))
		handle("OPTIONS "+resourceMetadata+behind, open(preflight))
	}
	for _, behind := range s.behind("") {
		handle("GET "+serverMetadata+behind, open(s.serveMetadata))
		handle("OPTIONS "+serverMetadata+behind, open(preflight))
	}
	for name, h := range map[string]handler{
		"register": s.serveRegister, "token": s.serveToken, "revoke": s.serveRevoke,
	} {
		handle("POST /oauth/"+name, open(bounded(h)))
		handle("OPTIONS /oauth/"+name, open(preflight))
	}
	handle("GET /oauth/authorize", bounded(s.serveAuthorize))
	handle("POST /oauth/authorize", bounded(s.serveConsent))
}

// behind returns the paths that may stand behind a well-known one: below a prefix also with the
// prefix before them. RFC 8414 puts the issuer's path there, but a reverse proxy may take the
// prefix off before the request arrives.
func (s *Server) behind(paths ...string) []string {
	if s.prefix != "" {
		for _, path := range paths {
			paths = append(paths, s.prefix+path)
		}
	}
	return paths
}

// refusal is an OAuth error: an answer of 400, or 401 for a client that is not known. The
// description is sent to the client, so it never quotes a secret or the cause of a failure.
type refusal struct{ code, description string }

func (e *refusal) Error() string { return e.code + ": " + e.description }

func refuse(code, description string) error { return &refusal{code, description} }

// handler serves a request with this body, which it must not keep.
type handler func(w http.ResponseWriter, r *http.Request, body []byte) error

// bounded reads the body of a form or a registration, which anyone can send, and bounds the
// handler's time for storage so that the request is answered in time.
func bounded(h handler) httpx.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body []byte
		if r.Method == http.MethodPost {
			read, err := httpx.ReadBody(w, r, maxBody, "")
			if err != nil {
				return err
			}
			defer read.Release()
			body = read.Bytes()
		}
		ctx, cancel := context.WithTimeout(r.Context(), storageTime)
		defer cancel()
		return h(w, r.WithContext(ctx), body)
	}
}

// open lets clients in pages of any origin call: nothing here depends on a cookie. A *refusal
// becomes the JSON error of OAuth, with the description repeated under the service's own name
// for it; any other error is left to [httpx.Handler].
func open(h httpx.Handler) http.Handler {
	return httpx.Handler(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
		err := h(w, r)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return err
		}
		status := http.StatusBadRequest
		if refused.code == "invalid_client" {
			status = http.StatusUnauthorized
		}
		w.Header().Set("Cache-Control", "no-store")
		httpx.WriteJSON(w, status, map[string]string{
			"error": refused.code, "error_description": refused.description, "detail": refused.description})
		return nil
	})
}

// preflight answers a browser that asks before a call. The headers are the ones MCP clients send.
func preflight(w http.ResponseWriter, _ *http.Request) error {
	httpx.Preflight(w, "GET, POST", "Authorization, Content-Type, Accept, Mcp-Protocol-Version")
	return nil
}

// hostOf returns the host that a URL leads to, for people to read. For a URL with an
// app's own scheme, that scheme is part of the result.
func hostOf(s string) string {
	u := parsed(s)
	if u.Scheme == "https" || u.Scheme == "http" {
		return u.Host
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host, "//")
}
