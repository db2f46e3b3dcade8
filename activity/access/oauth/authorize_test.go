package oauth_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// The page names the app that asks and the host that gets the answer. It runs no script and no frame may hold it.
func TestAuthorize_showsTheAppThatAsks(t *testing.T) {
	p := newPlace(t, publicURL)
	for redirect, host := range map[string]string{
		callback: "claude.ai", "http://127.0.0.1/cb": "127.0.0.1:5123</b>, a program on your own computer",
		"cursor://anysphere.mcp/cb": "cursor://anysphere.mcp",
	} {
		id := p.register("<b>Eve</b> \"&\u202e", redirect)
		page, cookie, form := p.open(request(id, "redirect_uri", strings.Replace(redirect, "0.1/", "0.1:5123/", 1)))
		require.Equal(t, http.StatusOK, page.Code, page.Body)
		assert.Contains(t, page.Body.String(), "Connect &lt;b&gt;Eve&lt;/b&gt; &#34;&amp;</h1>")
		assert.Contains(t, page.Body.String(), "<b>"+host)
		assert.NotContains(t, page.Body.String(), "<script")
		policy := page.Header().Get("Content-Security-Policy")
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.Contains(t, policy, "default-src 'none'")
		scheme, _, _ := strings.Cut(redirect, ":")
		assert.Contains(t, policy+" ", " "+scheme+": ", "the answer leaves by a redirect")
		assert.Equal(t, []string{"DENY", "no-store", "no-referrer"},
			[]string{page.Header().Get("X-Frame-Options"), page.Header().Get("Cache-Control"),
				page.Header().Get("Referrer-Policy")})
		assert.Empty(t, page.Header().Get("Cross-Origin-Opener-Policy"), "a popup of the app keeps its opener")
		assert.NotEmpty(t, form)
		assert.Contains(t, cookie, "__Host-")
		set := page.Header().Get("Set-Cookie")
		for _, flag := range []string{"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} {
			assert.Contains(t, set, flag)
		}
	}
}

// No answer goes to an address that the client has not registered.
func TestAuthorize_redirectsToRegisteredAddressesOnly(t *testing.T) {
	p := newPlace(t, publicURL)
	for registered, tries := range map[string]map[string]bool{
		callback: {
			callback: true, callback + "/": false, callback + "?x=1": false, callback + "#x": false,
			strings.ToUpper(callback):                     false,
			"https://claude.ai:443/api/mcp/auth_callback": false, "https://claude.ai.evil.example/api/mcp/auth_callback": false,
			"https://claude.ai/api/mcp/auth_callback/../x": false, "https://claude.ai@evil.example/api/mcp/auth_callback": false,
			"http://claude.ai/api/mcp/auth_callback": false, "//claude.ai/api/mcp/auth_callback": false, "": false,
			"javascript:alert(1)": false,
		},
		"http://127.0.0.1:33418/cb?a=b": {
			"http://127.0.0.1:33418/cb?a=b": true, "http://127.0.0.1:1/cb?a=b": true, "http://127.0.0.1/cb?a=b": true,
			"http://127.0.0.1:1/cb":     false,
			"http://localhost:1/cb?a=b": false, "https://127.0.0.1:1/cb?a=b": false, "http://127.0.0.1:1/cb/?a=b": false,
			"http://127.0.0.1:1@evil.example/cb?a=b": false,
		},
		"http://[::1]/cb":            {"http://[::1]:5/cb": true, "http://[::1]/cb2": false},
		"http://localhost/cb":        {"http://localhost:5/cb": true, "http://localhost.evil.example:5/cb": false},
		"com.example.app:/cb":        {"com.example.app:/cb": true, "com.example.app:/cb2": false},
		"https://127.0.0.1:8443/cb":  {"https://127.0.0.1:8443/cb": true, "https://127.0.0.1:8444/cb": false},
		"https://claude.ai/cb?a=1%2": {"https://claude.ai/cb?a=1%2": true},
	} {
		id := p.register("App", registered)
		for given, want := range tries {
			r := p.consent(request(id, "redirect_uri", given), acmeKey)
			if !want {
				assert.Equal(t, http.StatusBadRequest, r.Code, "%s for %s", given, registered)
				assert.Empty(t, r.Header().Get("Location"))
				continue
			}
			r.location()
			to := r.Header().Get("Location")
			assert.True(t, strings.HasPrefix(to, given+"?code=lac_") || strings.HasPrefix(to, given+"&code=lac_"), to)
		}
	}
	assert.Equal(t, http.StatusBadRequest, p.page(request("client_none")).Code)
	twice := request(p.register("App", callback))
	twice.Add("redirect_uri", "https://evil.example/")
	assert.Equal(t, http.StatusBadRequest, p.page(twice).Code)
}

// The client learns of every other mistake in its request, with its state and the issuer.
func TestAuthorize_tellsTheClient(t *testing.T) {
	p, id := newClient(t)
	for name, tt := range map[string]struct {
		changes []string
		want    string
	}{
		"no PKCE":               {[]string{"code_challenge", "", "code_challenge_method", ""}, "invalid_request"},
		"plain PKCE":            {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		"PKCE without a method": {[]string{"code_challenge_method", ""}, "invalid_request"},
		"a short challenge":     {[]string{"code_challenge", "abc"}, "invalid_request"},
		"an implicit flow":      {[]string{"response_type", "token"}, "unsupported_response_type"},
		"no response type":      {[]string{"response_type", ""}, "invalid_request"},
		"a fragment":            {[]string{"response_mode", "fragment"}, "invalid_request"},
		"another resource":      {[]string{"resource", "https://other.example/mcp"}, "invalid_target"},
		"another scope":         {[]string{"scope", "stream"}, "invalid_scope"},
	} {
		t.Run(name, func(t *testing.T) {
			to, q := p.page(request(id, tt.changes...)).location()
			assert.Equal(t, callback, to)
			assert.NotEmpty(t, q.Get("error_description"))
			assert.Equal(t, []string{tt.want, "st&te", publicURL, ""},
				[]string{q.Get("error"), q.Get("state"), q.Get("iss"), q.Get("code")})
		})
	}
	for _, changes := range [][]string{{"resource", ""}, {"resource", resource + "/"},
		{"resource", "https://LIVE.example.com:443/mcp"}, {"scope", ""},
		{"scope", "mcp offline_access"}, {"state", ""}, {"response_mode", "query"}} {
		page, _, _ := p.open(request(id, changes...))
		assert.Equal(t, http.StatusOK, page.Code, "%v: %s", changes, page.Body)
	}
}

// A form counts only from the browser that got it, and only for the request that it shows.
func TestConsent_isBoundToTheBrowser(t *testing.T) {
	p, id := newClient(t)
	q := request(id)
	_, cookie, form := p.open(q)
	_, otherCookie, otherForm := p.open(q)
	with := url.Values{"key": {acmeKey}, "form": {form}}
	forNone := hmac.New(sha256.New, nil)
	forNone.Write([]byte(q.Encode()))
	for name, r := range map[string]reply{
		"no cookie":              p.send(q, "", with),
		"another browser":        p.send(q, otherCookie, with),
		"no hidden value":        p.send(q, cookie, url.Values{"key": {acmeKey}}),
		"another's hidden value": p.send(q, cookie, url.Values{"key": {acmeKey}, "form": {otherForm}}),
		"another request":        p.send(request(id, "state", "other"), cookie, with),
		"a value for no cookie":  p.send(q, "", url.Values{"key": {acmeKey}, "form": {hex.EncodeToString(forNone.Sum(nil))}}),
		"a short cookie":         p.send(q, "__Host-liveactivity-sign-in=x", with),
		"cancelled by another":   p.send(q, otherCookie, url.Values{"cancel": {"1"}, "form": {form}}),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, http.StatusForbidden, r.Code)
			assert.Empty(t, r.Header().Get("Location"))
			assert.Contains(t, r.Body.String(), `role="alert">This form was not shown to this browser`)
		})
	}
	r := p.page(request(id, "state", "2"), "Cookie: "+cookie)
	assert.Empty(t, r.Header().Get("Set-Cookie"), "a second tab leaves the first one's form valid")
	p.send(q, cookie, with).location()
	_, answer := p.send(q, cookie, url.Values{"cancel": {"1"}, "form": {form}}).location()
	assert.Equal(t, []string{"access_denied", "st&te", publicURL},
		[]string{answer.Get("error"), answer.Get("state"), answer.Get("iss")})
}

func TestConsent_asksAgainForAWrongKey(t *testing.T) {
	p, id := newClient(t)
	page, _, _ := p.open(request(p.register("", callback)))
	assert.Contains(t, page.Body.String(), "<h1>Connect claude.ai</h1>", "a client without a name")
	for key, want := range map[string]string{"wrong-s3cr3t": "401 Wrong key", "": "401 Wrong key",
		"lak_streams": "403 This key opens the event stream only"} {
		r := p.consent(request(id), key)
		status, words, _ := strings.Cut(want, " ")
		assert.Equal(t, status, fmt.Sprint(r.Code))
		assert.Contains(t, r.Body.String(), `role="alert">`+words)
		assert.Contains(t, r.Body.String(), `aria-invalid="true"`)
		assert.Contains(t, r.Body.String(), `<form class="ask" method="post"`)
		assert.NotContains(t, r.Body.String(), "s3cr3t")
	}
	_, q := p.consent(request(id), "lak_globex").location()
	assert.Equal(t, "globex", p.opens(p.token(redemption(id, q.Get("code"))).tokens().Access))
}

func TestRegister_refuses(t *testing.T) {
	p := newPlace(t, publicURL)
	many := strings.Repeat(`"https://a.example/",`, 21)
	for body, want := range map[string]string{
		``: "invalid_client_metadata", `[]`: "invalid_client_metadata", `{"redirect_uris": 7}`: "invalid_client_metadata",
		`{}`: "invalid_redirect_uri", `{"redirect_uris": []}`: "invalid_redirect_uri",
		`{"redirect_uris": [` + many[:len(many)-1] + `]}`:                                  "invalid_redirect_uri",
		`{"redirect_uris": ["https://a.example/"], "grant_types": ["client_credentials"]}`: "invalid_client_metadata",
		`{"redirect_uris": ["https://a.example/"], "response_types": ["token"]}`:           "invalid_client_metadata",
	} {
		assert.Equal(t, "400 "+want, p.do(http.MethodPost, "/oauth/register", body).failed(), body)
	}
	for _, uri := range []string{"", "/cb", "http://evil.example/cb", "http://127.0.0.1.evil.example/", "https:///cb",
		"https://a.example/#x", "https://u@a.example/", "javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x",
		"file:///etc/passwd", "https://a.example/\n", "https://a.example/ü", `https://a.example\@b/`,
		"https://a.example/" + strings.Repeat("x", 2048), "http://10.0.0.1/cb", "blob:https://a.example/"} {
		assert.Equal(t, "400 invalid_redirect_uri", p.do(http.MethodPost, "/oauth/register",
			fmt.Sprintf(`{"redirect_uris": [%q]}`, uri)).failed(), uri)
	}
	large := `{"redirect_uris": ["https://a.example/"], "x": "` + strings.Repeat("x", 16<<10) + `"}`
	for _, path := range []string{"register", "token", "revoke", "authorize"} {
		assert.Equal(t, http.StatusRequestEntityTooLarge, p.do(http.MethodPost, "/oauth/"+path, large).Code, path)
	}
}

func TestRegister_answersWithTheGrantedMetadata(t *testing.T) {
	p := newPlace(t, publicURL)
	r := p.do(http.MethodPost, "/oauth/register", `{"client_name": "Fin", "application_type": "native",
		"redirect_uris": ["https://b.example/", "https://a.example/"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials"],
		"token_endpoint_auth_method": "client_secret_post"}`)
	fields := r.json()
	assert.Equal(t, http.StatusCreated, r.Code)
	assert.NotContains(t, fields, "client_secret")
	assert.Equal(t, []any{"https://b.example/", "https://a.example/"}, fields["redirect_uris"])
	assert.Equal(t, []any{"none", "native", "Fin"},
		[]any{fields["token_endpoint_auth_method"], fields["application_type"], fields["client_name"]})
	assert.Equal(t, fields["client_id"], p.register("Fin", "https://a.example/", "https://b.example/"))
}

// yielding notes which documents may be evicted first.
type yielding struct {
	document.Store
	names map[string]bool
}

func (y yielding) Write(ctx context.Context, productID string, changes ...document.Change) (document.Version, error) {
	for _, c := range changes {
		y.names[c.Name] = c.Yields
	}
	return y.Store.Write(ctx, productID, changes...)
}

// A flood of registrations takes no room from clients that have signed in, nor from grants.
func TestRegister_yieldsToGrants(t *testing.T) {
	p := newPlace(t, publicURL)
	names := map[string]bool{}
	p.docs = yielding{p.docs, names}
	p = p.again(publicURL)
	waiting, id := p.register("Waiting", callback), p.register("Claude", callback)
	p.signIn(id)
	assert.True(t, names["oauth/client/"+waiting])
	assert.False(t, names["oauth/client/"+id])
	for name, yields := range names {
		assert.Equal(t, yields, name == "oauth/client/"+waiting, name)
	}
}

// A stored client that cannot be read is replaced when its app registers again.
func TestRegister_mendsADamagedClient(t *testing.T) {
	p, id := newClient(t)
	docs := musttest.New(p.docs.Get(t.Context(), "", "oauth/client/"+id))
	musttest.New(p.docs.Write(t.Context(), "", document.Put(docs[0], []byte("{"), 0)))
	require.Equal(t, http.StatusBadRequest, p.page(request(id)).Code)
	require.Equal(t, id, p.register("Claude", callback))
	p.signIn(id)
}

// Clients that have signed in stay, however many register. Of the others the newest thousand stay.
func TestRegister_isBounded(t *testing.T) {
	p := newPlace(t, publicURL)
	signedIn := p.register("Signed in", callback)
	got := p.signIn(signedIn)
	used, again, unused := p.register("Used", callback), p.register("Again", callback), p.register("Unused", callback)
	p.open(request(used))
	p.register("Again", callback)
	isKnown := func(id string) bool { return p.page(request(id)).Code == http.StatusOK }
	flood := func(n int, name string) (last string) {
		for i := range n {
			last = p.register(fmt.Sprint(name, i), callback)
		}
		return last
	}
	flood(oauth.MaxClients-2, "Flood ")
	assert.Equal(t, "401 invalid_client", p.token(renewal(unused, "lar_x~y~z")).failed(),
		"the least recently used one is gone")
	for _, id := range []string{used, again} {
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, "lar_x~y~z")).failed(), "it was used later")
	}
	last := flood(oauth.MaxClients, "More ")
	assert.True(t, isKnown(signedIn))
	assert.True(t, isKnown(last))
	assert.False(t, isKnown(used))
	p.token(renewal(signedIn, got.Refresh)).tokens()
	docs := musttest.New(p.docs.List(t.Context(), "", "oauth/client/", "", 2*oauth.MaxClients))
	assert.Equal(t, oauth.MaxClients+1, len(docs))
}
