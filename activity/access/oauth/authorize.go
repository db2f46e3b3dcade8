package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/origin"
	"github.com/liveactivity/liveactivity/internal/pages"
)

// The authorization endpoint, in a browser. GET shows a form that asks for a key, POST takes the
// form, and each parses the same query, so no state of a sign-in is stored before its key is
// right. A mistake is shown to the user until client and redirect URI are known to belong
// together, and sent to the client from then on. An answer sent earlier would make this server
// an open redirector (RFC 6749, section 4.1.2.1).

// authorization is a request for a code that may be shown to the user. The client and the
// redirect URI belong together; challenge is the client's code_challenge, a digest in
// base64url.
type authorization struct {
	clientID    string
	client      client
	redirectURI string // as given: the token request must repeat it
	challenge   string
}

// parse returns the authorization that a query asks for. The error is a *[clientError], a
// *refusal or storage's; after a refusal the client and the redirect URI are known. A nil query
// has no parameters.
func (s *Server) parse(ctx context.Context, q url.Values) (a authorization, err error) {
	a.clientID = q.Get("client_id")
	again := repeated(q)
	if a.clientID == "" || again == "client_id" || again == "redirect_uri" {
		return a, &clientError{"The address that brought you here is not complete. Begin again in the app", nil}
	}
	a.client, err = s.clientOf(ctx, a.clientID)
	if errors.Is(err, errNoClient) {
		err = &clientError{"This app is not registered here, or not any more. Connect it again from the start", err}
	}
	if err != nil {
		return a, err
	}
	if a.redirectURI = q.Get("redirect_uri"); !a.client.allows(a.redirectURI) {
		return a, &clientError{
			"The app wants the answer sent to an address that it did not register, so it is not sent there", nil}
	}
	if again != "" {
		return a, refuse("invalid_request", "The parameter "+again+" must be given once.")
	}
	a.challenge = q.Get("code_challenge")
	switch mode := q.Get("response_mode"); {
	case q.Get("response_type") == "":
		return a, refuse("invalid_request", "response_type is missing.")
	case q.Get("response_type") != "code":
		return a, refuse("unsupported_response_type", "response_type must be code.")
	case mode != "" && mode != "query":
		return a, refuse("invalid_request", "response_mode must be query.")
	case !isChallenge.MatchString(a.challenge) || q.Get("code_challenge_method") != "S256":
		return a, refuse("invalid_request", "PKCE is required: code_challenge, with code_challenge_method=S256.")
	case !takesScope(q.Get("scope")):
		return a, refuse("invalid_scope", "scope must be mcp.")
	case q.Get("resource") != "" && !isSameResource(q.Get("resource"), s.resource):
		return a, refuse("invalid_target", "resource must be "+s.resource+".")
	}
	return a, nil
}

// isChallenge matches a SHA-256 digest in base64url.
var isChallenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// answer sends the browser to the client. It adds the state of the request and the issuer to the
// answer, which it modifies. The query of the redirect URI stays as it is written, because the
// client registered it so.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, to string, answer url.Values) {
	if state := r.URL.Query().Get("state"); state != "" {
		answer.Set("state", state)
	}
	answer.Set("iss", s.issuer)
	u := parsed(to)
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += answer.Encode()
	h := w.Header()
	h.Set("Location", u.String())
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	status := http.StatusFound
	if r.Method == http.MethodPost {
		status = http.StatusSeeOther // the form, with the key, goes no further
	}
	w.WriteHeader(status)
}

// authorization returns the authorization that a request asks for. With ok false and no error
// the request has been answered, by a page or a redirect; with an error, it has not been.
func (s *Server) authorization(w http.ResponseWriter, r *http.Request) (a authorization, ok bool, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q = nil
	}
	a, err = s.parse(r.Context(), q)
	var wrong *clientError
	var refused *refusal
	switch {
	case err == nil:
		return a, true, nil
	case errors.As(err, &wrong):
		return a, false, write(w, http.StatusBadRequest, view{Problem: wrong.detail + "."})
	case errors.As(err, &refused):
		s.answer(w, r, a.redirectURI, url.Values{"error": {refused.code}, "error_description": {refused.description}})
		return a, false, nil
	}
	return a, false, httpx.Unavailable(err)
}

// serveAuthorize shows the sign-in page. Showing it counts as a use of the client, so of all
// clients that wait for a first sign-in this one is evicted last.
func (s *Server) serveAuthorize(w http.ResponseWriter, r *http.Request, _ []byte) error {
	a, ok, err := s.authorization(w, r)
	if err != nil || !ok {
		return err
	}
	if err := s.keep(r.Context(), a.clientID, clientUse{}); err != nil {
		return httpx.Unavailable(err)
	}
	return s.show(w, r, a, http.StatusOK, "")
}

// serveConsent takes the form of the page: a key, or a refusal. The order matters: the form is
// checked before the key, so no other site can try keys in a user's browser; the client leaves
// the waiting ones before its grant is written, so a grant never belongs to a client that may be
// evicted first.
func (s *Server) serveConsent(w http.ResponseWriter, r *http.Request, body []byte) error {
	a, ok, err := s.authorization(w, r)
	if err != nil || !ok {
		return err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !s.isShown(r, form.Get("form")) {
		return s.show(w, r, a, http.StatusForbidden,
			"This form was not shown to this browser, or the browser keeps no cookies. Please try again.")
	}
	if form.Has("cancel") {
		s.answer(w, r, a.redirectURI, url.Values{"error": {"access_denied"}, "error_description": {"The user refused."}})
		return nil
	}
	key := strings.TrimSpace(form.Get("key"))
	productID, err := s.keys.ProductOf(key, access.MCP)
	switch {
	case errors.Is(err, access.ErrInvalid):
		return s.show(w, r, a, http.StatusUnauthorized,
			"Wrong key: the server does not know it. Copy the whole key, and try again.")
	case errors.Is(err, access.ErrScope):
		return s.show(w, r, a, http.StatusForbidden,
			"This key opens the event stream only. Signing in needs a key with the scope mcp.")
	case err != nil:
		return httpx.Unavailable(err)
	}
	if err := s.keep(r.Context(), a.clientID, clientUse{signsIn: true}); err != nil {
		return httpx.Unavailable(err)
	}
	code, err := s.grantCode(r.Context(), productID, sha256.Sum256([]byte(key)), &a)
	if err != nil {
		return httpx.Unavailable(err)
	}
	s.answer(w, r, a.redirectURI, url.Values{"code": {code}})
	return nil
}

// cookie returns the name of the cookie that binds forms to a browser. The prefix __Host- keeps
// other hosts from setting it; browsers accept it from https only, so a loopback server goes
// without.
func (s *Server) cookie() string {
	if s.isSecure() {
		return "__Host-liveactivity-sign-in"
	}
	return "liveactivity-sign-in"
}

func (s *Server) isSecure() bool { return strings.HasPrefix(s.issuer, "https:") }

// browser returns the secret in a browser's cookie, or "". A value of another length was not
// made here: everything after this relies on a secret of the full strength of [rand.Text].
func (s *Server) browser(r *http.Request) string {
	c, err := r.Cookie(s.cookie())
	if err != nil || len(c.Value) != len(rand.Text()) {
		return ""
	}
	return c.Value
}

// formValue returns the hidden value of the form for a request. Only the browser with the secret
// can have received it, and only for this query. The server stores nothing for the check.
func formValue(secret, query string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(query))
	return hex.EncodeToString(mac.Sum(nil))
}

// isShown reports whether the form of a request was shown to its browser. Query parameters are
// compared in their canonical order, as [Server.show] wrote them.
func (s *Server) isShown(r *http.Request, value string) bool {
	secret := s.browser(r)
	return secret != "" && hmac.Equal([]byte(formValue(secret, r.URL.Query().Encode())), []byte(value))
}

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// view is the content of the page: the form, or a problem only. The template escapes every
// field; all but Problem and Form may be a stranger's text.
type view struct {
	Name     string // of the client, or the host
	Host     string // that the answer goes to
	IsLocal  bool   // it is the user's own machine
	Document string // host of the client's metadata document, if it has one
	Action   string // address of the form, empty for none
	Form     string // hidden value
	Problem  string // a sentence, if any
}

// show shows the form, with the problem of the last try, if any. It keeps the browser's secret
// if it has one, so that several open forms stay valid.
func (s *Server) show(w http.ResponseWriter, r *http.Request, a authorization, status int, problem string) error {
	secret := s.browser(r)
	if secret == "" {
		secret = rand.Text()
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: secret, Path: "/", HttpOnly: true, Secure: s.isSecure(),
			SameSite: http.SameSiteLaxMode}) // Lax: the app's page sends the browser here
	}
	u, query, host := parsed(a.redirectURI), r.URL.Query().Encode(), hostOf(a.redirectURI)
	v := view{
		Name: cmp.Or(a.client.Name, host), Host: host, IsLocal: origin.IsLoopback(u.Hostname()),
		Action: s.prefix + "/oauth/authorize?" + query, Form: formValue(secret, query), Problem: problem,
	}
	if isDocumentURL(a.clientID) {
		v.Document = parsed(a.clientID).Host
	}
	return write(w, status, v, u.Scheme)
}

// write writes the page. Its form leads back here, and then to the client and on: form-action
// holds for the redirects too, and the client's own pages may redirect to any https address.
func write(w http.ResponseWriter, status int, v view, schemes ...string) error {
	var body bytes.Buffer
	if err := page.Execute(&body, v); err != nil {
		return err
	}
	targets := "'self' https:"
	for _, scheme := range schemes {
		targets += " " + scheme + ":"
	}
	pages.WriteForm(w, status, body.Bytes(), targets)
	return nil
}
