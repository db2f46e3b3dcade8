package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// The token and revocation endpoints. A client proves nothing but the code, the verifier or the
// token it holds, because all clients are public. The token endpoint names a parameter that is
// missing or malformed, but for a well-formed request it does not distinguish an unknown token
// from an expired one or another client's: all are errNoGrant, so answers do not help with
// guessing.

// A code or token is its prefix, its product, its family and a secret, with separators.
// The family of a code and of refresh tokens is a secret as well, from which the ID of
// their grant is derived; the family of an access token is the ID. So a spent refresh
// token differs from a guess, and an access token reveals no other token.
const (
	codePrefix    = "lac_"
	refreshPrefix = "lar_"
	accessPrefix  = "lat_"
	separator     = "~"
	maxToken      = 256
)

// token is the content of a code or token, without its prefix. No part is empty. The product is
// there because documents are read by product.
type token struct{ productID, family, secret string }

// String returns the text behind the prefix.
func (t token) String() string {
	return strings.Join([]string{t.productID, t.family, t.secret}, separator)
}

// parseToken returns the parts of a token with that prefix. The parts of an issued token contain
// no separator: it occurs neither in product IDs nor in the text of [rand.Text] nor in
// hexadecimal digits.
func parseToken(prefix, s string) (token, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	parts := strings.Split(rest, separator)
	if !ok || len(s) > maxToken || len(parts) != 3 || slices.Contains(parts, "") {
		return token{}, false
	}
	return token{parts[0], parts[1], parts[2]}, true
}

// idOf returns the ID of the grant of a code or refresh token. It is wrong for an access token,
// whose family is the ID already.
func (t token) idOf() string {
	sum := sha256.Sum256([]byte(t.family))
	return hex.EncodeToString(sum[:16])
}

func digest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// isSecret reports whether a secret has the digest.
func isSecret(of []byte, secret string) bool {
	return subtle.ConstantTimeCompare(of, digest(secret)) == 1
}

// parseForm returns the fields of a form. A parameter of OAuth that is given twice is refused
// (RFC 6749, section 3.2); any other may repeat.
func parseForm(body []byte) (url.Values, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse("invalid_request", "The body must be a form, application/x-www-form-urlencoded.")
	}
	if name := repeated(form); name != "" {
		return nil, refuse("invalid_request", "The parameter "+name+" must be given once.")
	}
	return form, nil
}

// repeated returns the name of a parameter of OAuth that is given more than once, or "". An
// empty value counts as given.
func repeated(q url.Values) string {
	for _, name := range []string{"client_id", "redirect_uri", "response_type", "code_challenge",
		"code_challenge_method", "state", "scope", "resource", "grant_type", "code", "code_verifier",
		"refresh_token", "token"} {
		if len(q[name]) > 1 {
			return name
		}
	}
	return ""
}

// serveToken gives tokens for a code or a refresh token. After a 503 the code or refresh token
// may be spent; then the grant ends when the client tries it again.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request, body []byte) error {
	form, err := parseForm(body)
	if err != nil {
		return err
	}
	var given tokens
	switch kind := form.Get("grant_type"); {
	case kind == "":
		return refuse("invalid_request", "grant_type is missing.")
	case !slices.Contains(grantTypes, kind):
		return refuse("unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")
	case form.Get("client_id") == "":
		return refuse("invalid_request", "client_id is missing: clients have no secret here and name themselves by it.")
	case kind == "authorization_code":
		given, err = s.redeem(r.Context(), form)
	default:
		given, err = s.refresh(r.Context(), form)
	}
	if err != nil {
		return s.explain(r.Context(), form.Get("client_id"), err)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache") // RFC 6749
	httpx.WriteJSON(w, http.StatusOK, given)
	return nil
}

// explain turns an error of a grant into the answer to its client. A client that is no longer
// known gets invalid_client, because it can register again; a client of a metadata document
// always is known.
func (s *Server) explain(ctx context.Context, clientID string, err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return err
	case errors.Is(err, errReused):
		return refuse("invalid_grant", "The code or token was used before; the grant has ended, sign in again.")
	case !errors.Is(err, errNoGrant):
		return httpx.Unavailable(err)
	}
	if _, err := s.registered(ctx, clientID); err != nil && !isDocumentURL(clientID) {
		if !errors.Is(err, errNoClient) {
			return httpx.Unavailable(err)
		}
		return refuse("invalid_client", "The client is not known; register again.")
	}
	return refuse("invalid_grant",
		"The code or token is not known, has expired, is another client's, or does not go with the other parameters.")
}

// redeem gives tokens for a code, once, to the client that it was made for. Only a request that
// is right in everything spends the code or, the second time, ends the grant: otherwise a thief
// of the code, without its verifier, could end the session of its owner.
func (s *Server) redeem(ctx context.Context, form url.Values) (given tokens, err error) {
	for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
		if form.Get(name) == "" {
			return given, refuse("invalid_request", name+" is missing.")
		}
	}
	code, ok := parseToken(codePrefix, form.Get("code"))
	if !ok {
		return given, errNoGrant
	}
	err = s.change(ctx, code.productID, code.idOf(), func(g *grant) error {
		switch {
		case !isSecret(g.Code, code.secret), !verifies(g.Challenge, form.Get("code_verifier")),
			g.ClientID != form.Get("client_id"), g.RedirectURI != form.Get("redirect_uri"):
			return errNoGrant
		case g.Refresh != nil: // the code was redeemed before
			return errReused
		}
		given, err = s.renew(g, code, form)
		return err
	})
	return given, err
}

// refresh gives new tokens for a refresh token, once. A spent one ends the grant, whichever
// client sends it: its family is a secret, so the sender has held a token of the grant.
func (s *Server) refresh(ctx context.Context, form url.Values) (given tokens, err error) {
	if form.Get("refresh_token") == "" {
		return given, refuse("invalid_request", "refresh_token is missing.")
	}
	t, ok := parseToken(refreshPrefix, form.Get("refresh_token"))
	if !ok {
		return given, errNoGrant
	}
	err = s.change(ctx, t.productID, t.idOf(), func(g *grant) (err error) {
		switch {
		case g.Refresh == nil: // the code was not redeemed yet
			return errNoGrant
		case !isSecret(g.Refresh, t.secret): // of this family, but not the newest
			return errReused
		case g.ClientID != form.Get("client_id"):
			return errNoGrant
		}
		given, err = s.renew(g, t, form)
		return err
	})
	if err != nil {
		return given, err
	}
	// The client is kept as long as its grant, if it can be.
	if doc, err := s.registered(ctx, form.Get("client_id")); err == nil {
		_, _ = s.docs.Write(ctx, ofNoProduct, document.Touch(doc, clientTTL))
	}
	return given, nil
}

// renew issues tokens for a request that matches the grant, if its key still exists. If the key
// was removed or has lost the scope, the error is errNoGrant and the grant stays. While keys
// cannot be checked, the request fails and spends nothing.
func (s *Server) renew(g *grant, t token, form url.Values) (given tokens, err error) {
	if resource := form.Get("resource"); resource != "" && !isSameResource(resource, g.Resource) {
		return given, refuse("invalid_target", "resource must be "+g.Resource+".")
	}
	if scope := form.Get("scope"); !takesScope(scope) {
		return given, refuse("invalid_scope", "scope must be mcp.")
	}
	switch err := s.opens(g, t.productID); {
	case errors.Is(err, access.ErrUnavailable):
		return given, err
	case err != nil:
		return given, errNoGrant
	}
	return g.issue(t, time.Now()), nil
}

// verifies reports whether a verifier matches a challenge by S256. The lengths are the bounds
// of RFC 7636, section 4.1.
func verifies(challenge, verifier string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// isSameResource reports whether a client means a resource, whose URL it may have written with
// another case of the host, with the default port or with a slash at its end. The resource is
// normalized as well, so its own spelling does not matter.
func isSameResource(given, resource string) bool {
	normal := func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			return s
		}
		u.Host = strings.ToLower(u.Host)
		if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
			u.Host = strings.TrimSuffix(u.Host, ":"+port)
		}
		u.Path = strings.TrimSuffix(u.Path, "/")
		return u.String()
	}
	return normal(given) == normal(resource)
}

// takesScope reports whether a requested scope is granted: the only scope, or none. Some clients
// ask for more, such as offline_access, and get that one.
func takesScope(scope string) bool {
	asked := strings.Fields(scope)
	return len(asked) == 0 || slices.Contains(asked, string(access.MCP))
}

// serveRevoke ends the grant of an access or refresh token, with all its tokens (RFC 7009). A
// token that is not known has ended: the answer is 200. A refresh token need not be the newest,
// as its family is a secret; an access token must be one of the grant's, because its family is
// not. client_id may be missing, but must be right if given.
func (s *Server) serveRevoke(w http.ResponseWriter, r *http.Request, body []byte) error {
	form, err := parseForm(body)
	if err != nil {
		return err
	}
	if form.Get("token") == "" {
		return refuse("invalid_request", "token is missing.")
	}
	t, isAccess := parseToken(accessPrefix, form.Get("token"))
	id := t.family
	if !isAccess {
		if t, _ = parseToken(refreshPrefix, form.Get("token")); t.productID != "" {
			id = t.idOf()
		}
	}
	if id == "" {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	err = s.change(r.Context(), t.productID, id, func(g *grant) error {
		isIt := func(a accessToken) bool { return isSecret(a.Digest, t.secret) }
		isNone := isAccess && !slices.ContainsFunc(g.Access, isIt)
		switch client := form.Get("client_id"); {
		case isNone:
			return errNoGrant
		case client != "" && client != g.ClientID:
			return refuse("invalid_grant", "The token is another client's.")
		}
		return errEnded
	})
	if errors.Is(err, errEnded) || errors.Is(err, errNoGrant) {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return s.explain(r.Context(), form.Get("client_id"), err)
}
