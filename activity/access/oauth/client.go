package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/origin"
)

// Clients and their registrations. Anybody can register, so the clients that wait for a first
// sign-in are in a list, the least recently used first, which is bounded. A client that signs in
// leaves the list for good: a stored client that is not in it has signed in. So a flood of
// registrations evicts only clients that wait. A client of a metadata document is not stored at
// all.

// client is a program that signs in: the stored form. All are public: none has a secret.
type client struct {
	Name         string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
}

// Bounds of a client's metadata.
const (
	maxRedirectURIs = 20
	maxURL          = 2048     // bytes
	maxBody         = 16 << 10 // bytes of a registration, or of a form
)

// newClient returns a client of this metadata, or a sentence about the mistake. The client
// keeps redirectURIs; its name is cleaned, and may be empty.
func newClient(name string, redirectURIs []string) (c client, problem string) {
	if len(redirectURIs) == 0 || len(redirectURIs) > maxRedirectURIs {
		return c, fmt.Sprintf("redirect_uris must be an array of 1 to %d URLs.", maxRedirectURIs)
	}
	for i, s := range redirectURIs {
		if problem := checkRedirectURI(s); problem != "" {
			return c, fmt.Sprintf("redirect_uris[%d] %s.", i, problem)
		}
	}
	return client{activity.CleanLabel(name), redirectURIs}, ""
}

// scripts are schemes that run or show something instead of leading to an app.
var scripts = []string{"javascript", "data", "vbscript", "file", "blob", "about", "filesystem",
	"view-source", "ws", "wss", "ftp"}

// checkRedirectURI returns the problem of an address to send codes to, empty for none. An https
// URL, http on the user's own machine and an app's own scheme are allowed (RFC 8252). It must be
// printable ASCII without backslashes: browsers drop or replace other characters, and would then
// go to another address than the one checked.
func checkRedirectURI(s string) (problem string) {
	u, err := url.Parse(s)
	isPlain := !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
	switch {
	case err != nil || !isPlain || len(s) > maxURL || u.Scheme == "":
		return "must be an absolute URL"
	case strings.Contains(s, "#"):
		return "must not have a fragment"
	case u.User != nil:
		return "must not have a user or a password"
	case u.Scheme == "https" && u.Hostname() != "":
		return ""
	case u.Scheme == "http" && origin.IsLoopback(u.Hostname()):
		return ""
	case u.Scheme == "https" || u.Scheme == "http" || slices.Contains(scripts, u.Scheme):
		return "must be https, http on a loopback address, or the own scheme of an app"
	}
	return ""
}

// allows reports whether an address is one of the client's: byte for byte, except that a
// loopback address may have any port, which its app gets from its system (RFC 8252, section
// 7.3).
func (c *client) allows(given string) bool {
	return checkRedirectURI(given) == "" && slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		r := parsed(registered)
		return registered == given ||
			r.Scheme == "http" && origin.IsLoopback(r.Hostname()) && withoutPort(r) == withoutPort(parsed(given))
	})
}

// parsed returns a URL that was checked when it was given, empty if it is malformed.
func parsed(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		return &url.URL{}
	}
	return u
}

func withoutPort(u *url.URL) string {
	without := *u
	without.Host = u.Hostname()
	return without.String()
}

// registration is the body of POST /oauth/register, as far as it matters, and the answer.
type registration struct {
	ClientID      string   `json:"client_id,omitempty"`
	ClientName    string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	Type          string   `json:"application_type,omitempty"`
	Scope         string   `json:"scope"`
}

// serveRegister registers a client (RFC 7591). Metadata that this server does not support is
// replaced in the answer, as the RFC allows. Equal metadata gets the same ID: some clients
// register at every connect.
func (s *Server) serveRegister(w http.ResponseWriter, r *http.Request, body []byte) error {
	const malformed = "invalid_client_metadata"
	var reg registration
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, &reg) != nil {
		return refuse(malformed, "The registration must be a JSON object of client metadata.")
	}
	if reg.GrantTypes != nil && !slices.Contains(reg.GrantTypes, "authorization_code") {
		return refuse(malformed, "grant_types must contain authorization_code.")
	}
	if reg.ResponseTypes != nil && !slices.Contains(reg.ResponseTypes, "code") {
		return refuse(malformed, "response_types must contain code.")
	}
	c, problem := newClient(reg.ClientName, reg.RedirectURIs)
	if problem != "" {
		return refuse("invalid_redirect_uri", problem)
	}
	id, err := s.register(r.Context(), c)
	if err != nil {
		return httpx.Unavailable(err)
	}
	// The type makes no difference here. RFC 7591 has "web" as the default.
	if reg.Type != "native" {
		reg.Type = "web"
	}
	w.Header().Set("Cache-Control", "no-store")
	httpx.WriteJSON(w, http.StatusCreated, registration{
		ClientID: id, ClientName: c.Name, RedirectURIs: c.RedirectURIs, AuthMethod: "none",
		GrantTypes: grantTypes, ResponseTypes: responseTypes, Type: reg.Type, Scope: strings.Join(scopes, " "),
	})
	return nil
}

// Documents of clients. They belong to no product. The list holds the IDs of the waiting
// clients in binary, idBytes each and without separators.
const (
	ofNoProduct  = ""
	clientPrefix = "oauth/client/"
	waitingName  = "oauth/clients/waiting"
	idBytes      = 16                        // of the digest of the metadata
	clientTTL    = RefreshTTL + 24*time.Hour // from the last use
	idPrefix     = "client_"                 // begins the ID of a client
)

// register stores a client and returns its ID, which is derived from its metadata, with the
// redirect URIs in any order.
func (s *Server) register(ctx context.Context, c client) (id string, err error) {
	sorted := c
	sorted.RedirectURIs = slices.Sorted(slices.Values(c.RedirectURIs))
	value, err := jsontext.Marshal(sorted)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(value)
	id = idPrefix + hex.EncodeToString(sum[:idBytes])
	return id, s.keep(ctx, id, clientUse{value: value})
}

// clientUse is a registration with a value to store, a sign-in or, if it is zero, a look at the page.
type clientUse struct {
	value   []byte
	signsIn bool
}

// keep makes a client the most recently used one. Without a value it does nothing for a client that
// is not registered. It blocks while another request of this server changes the list, until ctx
// ends. The list, the client and the evicted ones change together or not at all.
func (s *Server) keep(ctx context.Context, id string, by clientUse) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(id, idPrefix))
	if err != nil || len(raw) != idBytes {
		return nil // it is known by a URL
	}
	if err := s.changing.Acquire(ctx, 1); err != nil { // spares conflicts
		return fmt.Errorf("oauth: wait for other clients: %w", err)
	}
	defer s.changing.Release(1)
	return document.Retry(ctx, func() error {
		docs, err := s.docs.Get(ctx, ofNoProduct, waitingName, clientPrefix+id)
		if err != nil {
			return fmt.Errorf("oauth: read clients: %w", err)
		}
		list, client := docs[0], docs[1]
		put := document.Put(client, by.value, clientTTL)
		if by.value == nil && !client.Exists() {
			return nil
		} else if by.value == nil {
			put.Value = client.Value
		}
		waited := indexOf(list.Value, raw) >= 0
		put.Yields = !by.signsIn && (waited || !client.Exists())
		changes := []document.Change{put}
		if waited || put.Yields {
			if changes, err = s.relist(ctx, changes, list, raw, put.Yields); err != nil {
				return fmt.Errorf("oauth: read clients: %w", err)
			}
		}
		if _, err = s.docs.Write(ctx, ofNoProduct, changes...); err != nil {
			return fmt.Errorf("oauth: write client: %w", err)
		}
		return nil
	})
}

// relist adds the changes that put a client at the end of the list, if it waits, or else remove it
// from the list, and that remove the clients that no longer fit.
func (s *Server) relist(
	ctx context.Context, changes []document.Change, list document.Document, id []byte, waits bool,
) ([]document.Change, error) {
	ids := bytes.Clone(list.Value)
	if i := indexOf(ids, id); i >= 0 {
		ids = slices.Delete(ids, i, i+idBytes)
	}
	if waits {
		ids = append(ids, id...)
	}
	var evicted []string
	for ; len(ids) > MaxClients*idBytes; ids = ids[idBytes:] {
		evicted = append(evicted, clientPrefix+idPrefix+hex.EncodeToString(ids[:idBytes]))
	}
	old, err := s.docs.Get(ctx, ofNoProduct, evicted...)
	for _, doc := range old {
		if doc.Exists() {
			changes = append(changes, document.Delete(doc))
		}
	}
	return append(changes, document.Put(list, ids, clientTTL)), err
}

// indexOf returns the place of an ID in a list, -1 if it is not there. Only multiples of idBytes
// are places, so the end of one ID and the start of the next never match.
func indexOf(ids, id []byte) int {
	for i := 0; i+idBytes <= len(ids); i += idBytes {
		if bytes.Equal(ids[i:i+idBytes], id) {
			return i
		}
	}
	return -1
}

// errNoClient also stands for a stored client that cannot be decoded: its app can register
// again, which overwrites it.
var errNoClient = errors.New("oauth: no such client")

// clientOf returns the client with an ID: a registered one or, for a URL, the client that the
// metadata document there describes. The error is errNoClient, a *[clientError] or storage's.
func (s *Server) clientOf(ctx context.Context, id string) (client, error) {
	if isDocumentURL(id) {
		return s.documents.client(ctx, id)
	}
	doc, err := s.registered(ctx, id)
	if err != nil {
		return client{}, err
	}
	var c client
	if err := json.Unmarshal(doc.Value, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errNoClient, err)
	}
	return c, nil
}

// registered returns the document of a registered client, or errNoClient, which costs no read
// for an ID that cannot be one.
func (s *Server) registered(ctx context.Context, id string) (doc document.Document, err error) {
	if !strings.HasPrefix(id, idPrefix) || len(id) != len(idPrefix)+2*idBytes {
		return doc, errNoClient
	}
	docs, err := s.docs.Get(ctx, ofNoProduct, clientPrefix+id)
	if err != nil {
		return doc, fmt.Errorf("oauth: read client: %w", err)
	}
	if !docs[0].Exists() {
		return doc, errNoClient
	}
	return docs[0], nil
}
