package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const (
	publicURL = "https://live.example.com"
	resource  = publicURL + "/mcp"
	callback  = "https://claude.ai/api/mcp/auth_callback"
	acmeKey   = "lak_acme-s3cr3t"
	verifier  = "0123456789-0123456789-0123456789-0123456789-verifier"
)

// place is a server that clients sign in to, with storage and keys: acmeKey and "lak_acme-second"
// of acme, "lak_streams" of acme for its stream only, "lak_globex" of globex.
type place struct {
	t    *testing.T
	keys *access.Keyring
	docs document.Store
	*oauth.Server
	mux *http.ServeMux
}

func newPlace(t *testing.T, url string) *place {
	p := &place{t: t, keys: access.NewKeyring(), docs: musttest.New(document.NewMemory(nil))}
	require.NoError(t, p.keys.Add(acmeKey, "acme"))
	require.NoError(t, p.keys.Add("lak_acme-second", "acme", access.MCP))
	require.NoError(t, p.keys.Add("lak_streams", "acme", access.Stream))
	require.NoError(t, p.keys.Add("lak_globex", "globex"))
	return p.again(url)
}

// newClient returns a place and a client that is registered there.
func newClient(t *testing.T) (p *place, id string) {
	p = newPlace(t, publicURL)
	return p, p.register("Claude", callback)
}

// again returns another server on the same storage and keys.
func (p *place) again(url string) *place {
	other := *p
	other.Server, other.mux = musttest.New(oauth.New(url, p.keys, p.docs,
		&oauth.Options{Logger: slog.New(slog.DiscardHandler)})), http.NewServeMux()
	other.Mount(other.mux.Handle)
	return &other
}

// reply is an answer.
type reply struct {
	*httptest.ResponseRecorder
	t *testing.T
}

func (p *place) do(method, target, body string, headers ...string) reply {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.mux.ServeHTTP(w, r)
	return reply{w, p.t}
}

func (r reply) json() (fields map[string]any) {
	r.t.Helper()
	require.NoError(r.t, json.Unmarshal(r.Body.Bytes(), &fields), r.Body)
	return fields
}

// failed returns the status and the error code of a refusal, which must be told both ways.
func (r reply) failed() string {
	r.t.Helper()
	fields := r.json()
	require.NotEmpty(r.t, fields["error_description"])
	require.Equal(r.t, fields["error_description"], fields["detail"])
	require.Equal(r.t, "no-store", r.Header().Get("Cache-Control"))
	require.NotContains(r.t, r.Body.String(), "s3cr3t")
	return fmt.Sprint(r.Code, " ", fields["error"])
}

// location returns the target of a redirect and its parameters.
func (r reply) location() (to string, q url.Values) {
	r.t.Helper()
	require.Contains(r.t, []int{http.StatusFound, http.StatusSeeOther}, r.Code, r.Body)
	u, err := url.Parse(r.Header().Get("Location"))
	require.NoError(r.t, err)
	q = u.Query()
	u.RawQuery = ""
	return u.String(), q
}

// register registers a client and returns its ID.
func (p *place) register(name string, redirectURIs ...string) string {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": redirectURIs})
	require.NoError(p.t, err)
	r := p.do(http.MethodPost, "/oauth/register", string(body))
	require.Equal(p.t, http.StatusCreated, r.Code, r.Body)
	return r.json()["client_id"].(string)
}

// request is the query of an authorization request, changed by name and value; "" removes.
func request(clientID string, changes ...string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return changed(url.Values{"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {callback},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		"state": {"st&te"}, "scope": {"mcp"}, "resource": {resource}}, changes...)
}

func changed(q url.Values, changes ...string) url.Values {
	for i := 0; i < len(changes); i += 2 {
		if q.Del(changes[i]); changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	return q
}

var hidden = regexp.MustCompile(`name="form" value="([0-9a-f]+)"`)

// page asks for the sign-in page.
func (p *place) page(q url.Values, headers ...string) reply {
	return p.do(http.MethodGet, "/oauth/authorize?"+q.Encode(), "", headers...)
}

// open opens the sign-in page as a new browser does, and returns the cookie and the hidden value.
func (p *place) open(q url.Values) (page reply, cookie, form string) {
	page = p.page(q)
	if cookies := page.Result().Cookies(); len(cookies) > 0 {
		cookie = cookies[0].Name + "=" + cookies[0].Value
	}
	if found := hidden.FindStringSubmatch(page.Body.String()); found != nil {
		form = found[1]
	}
	return page, cookie, form
}

// consent opens the page and sends the form with a key.
func (p *place) consent(q url.Values, key string) reply {
	_, cookie, form := p.open(q)
	return p.send(q, cookie, url.Values{"form": {form}, "key": {key}})
}

func (p *place) send(q url.Values, cookie string, form url.Values) reply {
	return p.do(http.MethodPost, "/oauth/authorize?"+q.Encode(), form.Encode(), "Cookie: "+cookie)
}

// code signs in with acme's key and returns the code.
func (p *place) code(clientID string) string {
	p.t.Helper()
	_, q := p.consent(request(clientID), acmeKey).location()
	require.NotEmpty(p.t, q.Get("code"))
	return q.Get("code")
}

// redemption is the form of a token request for a code, changed as in request.
func redemption(clientID, code string, changes ...string) url.Values {
	return changed(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {clientID},
		"redirect_uri": {callback}, "code_verifier": {verifier}, "resource": {resource}}, changes...)
}

func renewal(clientID, token string, changes ...string) url.Values {
	return changed(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {clientID}},
		changes...)
}

func (p *place) token(form url.Values) reply {
	return p.do(http.MethodPost, "/oauth/token", form.Encode(), "Content-Type: application/x-www-form-urlencoded")
}

// tokens are the two tokens of a sign-in.
type tokens struct{ Access, Refresh string }

func (r reply) tokens() tokens {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.Code, r.Body)
	fields := r.json()
	return tokens{fields["access_token"].(string), fields["refresh_token"].(string)}
}

// signIn signs in with acme's key.
func (p *place) signIn(clientID string) tokens {
	p.t.Helper()
	return p.token(redemption(clientID, p.code(clientID))).tokens()
}

// opens returns the product that a token reads, or the error.
func (p *place) opens(token string) string {
	_, productID, err := p.KeyOf(context.Background(), token)
	if err != nil {
		return err.Error()
	}
	return productID
}
