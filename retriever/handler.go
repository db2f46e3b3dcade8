package retriever

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/options"
)

// KeyBy is the meaning of a knowledge_id. The connector must send the same kind of
// ID, or it finds nothing.
type KeyBy string

// The meanings of a knowledge_id.
const (
	KeyBySession KeyBy = "session_id"
	KeyByEmail   KeyBy = "email"
)

// ParseKeyBy returns the KeyBy with that name.
func ParseKeyBy(name string) (KeyBy, error) {
	if k := KeyBy(name); k == KeyBySession || k == KeyByEmail {
		return k, nil
	}
	return "", fmt.Errorf("must be %s or %s, not %q", KeyBySession, KeyByEmail, name)
}

// maxBody is the maximum size in bytes of the body of POST /retrieval.
const maxBody = 64 << 10

// HandlerOptions configure a [Handler]. A zero field means its default.
type HandlerOptions struct {
	// APIKey is the bearer token that every request must carry. If it is empty,
	// anyone with a session ID or an email address may read. At a loopback address the
	// handler then refuses requests for another machine's host, which may be a web page's
	// after DNS rebinding.
	APIKey string
	// KeyBy is the meaning of the knowledge_id of POST /retrieval; KeyBySession.
	KeyBy KeyBy
}

// Handler serves the chunks of a [Store]. It is safe for concurrent use.
type Handler struct {
	store *Store
	keyBy KeyBy
	open  bool              // no key is configured
	key   [sha256.Size]byte // digest of the key
}

// NewHandler returns a handler that serves store; opts may be nil. Its error
// joins all invalid arguments.
func NewHandler(store *Store, opts *HandlerOptions) (*Handler, error) {
	o := *cmp.Or(opts, &HandlerOptions{})
	wrong := options.Mistakes{Package: "retriever"}
	wrong.Require(store != nil, "store", "must not be nil")
	wrong.Require(strings.TrimSpace(o.APIKey) == o.APIKey, "APIKey", "must not start or end with white space")
	o.KeyBy = cmp.Or(o.KeyBy, KeyBySession)
	_, err := ParseKeyBy(string(o.KeyBy))
	wrong.Require(err == nil, "KeyBy", fmt.Sprintf("must be %s or %s", KeyBySession, KeyByEmail))
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return &Handler{store: store, keyBy: o.KeyBy, open: o.APIKey == "", key: sha256.Sum256([]byte(o.APIKey))}, nil
}

// ServeEvents answers
//
//	GET /events?session_id=…&email=…
//
// with {"records":[{"content","score","title"}]}: the session's chunks, newest
// first. The email address is used only if there is no session ID. Without
// either the answer is 400. An unknown session or address has no records.
func (h *Handler) ServeEvents(w http.ResponseWriter, r *http.Request) {
	httpx.Handler(h.events).ServeHTTP(w, r)
}

func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	if err := h.authorize(r); err == errHost {
		return err
	} else if err != nil {
		return httpx.Unauthorized(access.ErrInvalid.Error(), "Bearer")
	}
	query, err := httpx.Query(r)
	if err != nil {
		return err
	}
	sessionID, email := query.Get("session_id"), httpx.Email(query)
	if sessionID == "" {
		if foldEmail(email) == "" {
			return httpx.BadRequest("Provide session_id or email as a query parameter.")
		}
		sessionID, _ = h.store.SessionOf(email)
	}
	return h.write(w, sessionID, math.MaxInt, nil)
}

// errHost refuses a request for another machine's host.
var errHost = httpx.Errorf(http.StatusMisdirectedRequest,
	"Without an API key the retriever does not answer for this host at a loopback address.")

// authorize returns nil for a request with the right key, else errNoKey or
// errWrongKey. Without a key configured it returns errHost or nil.
func (h *Handler) authorize(r *http.Request) error {
	switch {
	case h.open && httpx.IsRebound(r):
		return errHost
	case h.open:
		return nil
	}
	key := access.BearerToken(r)
	if key == "" {
		return errNoKey
	}
	digest := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(digest[:], h.key[:]) != 1 {
		return errWrongKey
	}
	return nil
}

// write answers with the session's newest records, at most limit. Each gets the
// metadata, which may be nil.
func (h *Handler) write(w http.ResponseWriter, sessionID string, limit int, metadata *struct{}) error {
	records := h.store.records(sessionID, limit)
	for i := range records {
		records[i].Metadata = metadata
	}
	return httpx.WriteLive(w, map[string][]record{"records": records})
}
