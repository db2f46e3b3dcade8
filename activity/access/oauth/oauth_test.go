package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/activity/access/oauth"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
)

const invalid = "Invalid or missing API key"

func TestServer_signsAClientIn(t *testing.T) {
	p, id := newClient(t)
	assert.Equal(t, id, p.register("Claude", callback), "equal metadata gets the same ID")
	assert.NotEqual(t, id, p.register("Claude", callback, callback+"2"))

	r := p.consent(request(id), " "+acmeKey+"\n")
	to, q := r.location()
	assert.Equal(t, http.StatusSeeOther, r.Code)
	assert.Equal(t, callback, to)
	assert.Equal(t, []string{"st&te", publicURL}, []string{q.Get("state"), q.Get("iss")})
	assert.Len(t, q, 3)

	r = p.token(redemption(id, q.Get("code")))
	got := r.tokens()
	assert.Equal(t, "no-store", r.Header().Get("Cache-Control"))
	fields := r.json()
	assert.Equal(t, []any{"Bearer", 3600.0, "mcp"}, []any{fields["token_type"], fields["expires_in"], fields["scope"]})
	assert.Equal(t, "acme", p.opens(got.Access))
	for _, other := range []string{got.Refresh, q.Get("code"), got.Access + "x", got.Access[:len(got.Access)-1],
		strings.Replace(got.Access, "acme", "globex", 1)} {
		assert.Equal(t, invalid, p.opens(other))
	}
	assert.Equal(t, invalid, fmt.Sprint(p.keys.Check(got.Access, "acme", access.MCP)), "it opens MCP only")

	next := p.again(publicURL).token(renewal(id, got.Refresh, "resource", resource, "scope", "mcp")).tokens()
	assert.Equal(t, "acme", p.opens(next.Access))
	assert.Equal(t, "acme", p.opens(got.Access), "until its hour is over")
	assert.Equal(t, "acme", p.opens(acmeKey), "keys work as before")
}

// The storage holds no secret of a code or a token, and no key.
func TestServer_storesDigestsOnly(t *testing.T) {
	p, id := newClient(t)
	code := p.code(id)
	got := p.token(redemption(id, code)).tokens()
	for _, product := range []string{"", "acme"} {
		docs := musttest.New(p.docs.List(t.Context(), product, "", "", 100))
		require.NotEmpty(t, docs)
		for _, doc := range docs {
			for _, token := range []string{code, got.Access, got.Refresh} {
				parts := strings.Split(token, "~")
				assert.NotContains(t, doc.Name+string(doc.Value), parts[2])
				assert.Equal(t, token == got.Access && product == "acme", strings.Contains(doc.Name+string(doc.Value), parts[1]))
			}
			assert.NotContains(t, string(doc.Value), acmeKey)
		}
	}
}

// A code can be used at a server whose clock is ahead of the one that gave it.
func TestToken_takesACodeByAnyClock(t *testing.T) {
	p, id := newClient(t)
	code := p.code(id)
	grants := musttest.New(p.docs.List(t.Context(), "acme", "oauth/grant/", "", 2))
	require.Len(t, grants, 1)
	var grant map[string]any
	require.NoError(t, json.Unmarshal(grants[0].Value, &grant))
	grant["until"] = time.Now().Add(-time.Minute)
	put := document.Put(grants[0], musttest.New(json.Marshal(grant)), oauth.CodeTTL)
	musttest.New(p.docs.Write(t.Context(), "acme", put))
	got := p.token(redemption(id, code)).tokens()
	assert.Equal(t, "acme", p.opens(got.Access))
}

// None of RFC 9700's attacks on codes spends the code of the right client.
func TestToken_ofAStolenCode(t *testing.T) {
	p := newPlace(t, publicURL)
	id, other := p.register("Claude", callback, callback+"2"), p.register("Other", callback)
	code := p.code(id)
	parts := strings.Split(code, "~")
	for name, tt := range map[string]struct {
		changes []string
		want    string
	}{
		"another client":       {[]string{"client_id", other}, "400 invalid_grant"},
		"an unknown client":    {[]string{"client_id", "client_none"}, "401 invalid_client"},
		"a document's client":  {[]string{"client_id", "https://claude.ai/client"}, "400 invalid_grant"},
		"no client":            {[]string{"client_id", ""}, "400 invalid_request"},
		"another redirect URI": {[]string{"redirect_uri", callback + "2"}, "400 invalid_grant"},
		"no redirect URI":      {[]string{"redirect_uri", ""}, "400 invalid_request"},
		"another verifier":     {[]string{"code_verifier", strings.ToUpper(verifier)}, "400 invalid_grant"},
		"no verifier":          {[]string{"code_verifier", ""}, "400 invalid_request"},
		"the challenge":        {[]string{"code_verifier", request(id).Get("code_challenge")}, "400 invalid_grant"},
		"another resource":     {[]string{"resource", "https://other.example/mcp"}, "400 invalid_target"},
		"another secret":       {[]string{"code", parts[0] + "~" + parts[1] + "~" + parts[1]}, "400 invalid_grant"},
		"another product":      {[]string{"code", "lac_globex~" + parts[1] + "~" + parts[2]}, "400 invalid_grant"},
		"no product":           {[]string{"code", "lac_~" + parts[1] + "~" + parts[2]}, "400 invalid_grant"},
		"no code":              {[]string{"code", ""}, "400 invalid_request"},
		"a code as refresh token": {[]string{"grant_type", "refresh_token", "refresh_token", "lar_" + code[4:]},
			"400 invalid_grant"},
		"no grant type": {[]string{"grant_type", ""}, "400 invalid_request"},
		"a password":    {[]string{"grant_type", "password"}, "400 unsupported_grant_type"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, p.token(redemption(id, code, tt.changes...)).failed()) })
	}
	twice := redemption(id, code)
	twice.Add("client_id", other)
	assert.Equal(t, "400 invalid_request", p.token(twice).failed())
	assert.Equal(t, "400 invalid_request", p.do(http.MethodPost, "/oauth/token", "%zz").failed())
	p.token(redemption(id, code)).tokens()
}

// The second use of a code or a refresh token ends every token that came from it.
func TestToken_usedAgainEndsTheGrant(t *testing.T) {
	p, id := newClient(t)
	t.Run("a code", func(t *testing.T) {
		code := p.code(id)
		first := p.token(redemption(id, code)).tokens()
		assert.Equal(t, "400 invalid_grant", p.token(redemption(id, code)).failed())
		assert.Equal(t, invalid, p.opens(first.Access))
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, first.Refresh)).failed())
	})
	t.Run("a refresh token", func(t *testing.T) {
		first, unrelated := p.signIn(id), p.signIn(id)
		second := p.token(renewal(id, first.Refresh)).tokens()
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, first.Refresh)).failed())
		for _, token := range []string{first.Access, second.Access} {
			assert.Equal(t, invalid, p.opens(token))
		}
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, second.Refresh)).failed())
		assert.Equal(t, "acme", p.opens(unrelated.Access))
	})
	t.Run("but no guess", func(t *testing.T) {
		got := p.signIn(id)
		other := p.register("Other", callback)
		access := strings.Split(got.Access, "~")
		for _, form := range []string{"lar_acme~" + access[1] + "~x", "lar_acme~x~y", "lar_x", got.Access} {
			assert.Equal(t, "400 invalid_grant", p.token(renewal(id, form)).failed())
		}
		assert.Equal(t, "400 invalid_grant", p.token(renewal(other, got.Refresh)).failed())
		assert.Equal(t, "400 invalid_target", p.token(renewal(id, got.Refresh, "resource",
			"https://other.example/mcp")).failed())
		assert.Equal(t, "400 invalid_scope", p.token(renewal(id, got.Refresh, "scope", "stream")).failed())
		p.token(renewal(id, got.Refresh)).tokens()
	})
}

func TestToken_ofTwoAtOnceGivesOne(t *testing.T) {
	p, id := newClient(t)
	code := p.code(id)
	answers := make(chan int)
	for range 8 {
		go func() { answers <- p.again(publicURL).token(redemption(id, code)).Code }()
	}
	given := 0
	for range 8 {
		if <-answers == http.StatusOK {
			given++
		}
	}
	assert.Equal(t, 1, given)
}

// A client is known for a month after its last use, which is a sign-in or a new registration.
func TestClient_staysFromItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, id := newClient(t)
		for _, use := range []func(){func() {
			p.signIn(id)
		}, func() { p.register("Claude", callback) }, func() { p.signIn(id) }} {
			time.Sleep(oauth.RefreshTTL - time.Hour)
			assert.Equal(t, http.StatusOK, p.page(request(id)).Code)
			use()
		}
	})
}

func TestTokens_end(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, id := newClient(t)
		late := p.code(id)
		got := p.signIn(id)
		time.Sleep(oauth.CodeTTL)
		assert.Equal(t, "400 invalid_grant", p.token(redemption(id, late)).failed())
		time.Sleep(oauth.AccessTTL - oauth.CodeTTL - time.Second)
		assert.Equal(t, "acme", p.opens(got.Access))
		time.Sleep(time.Second)
		assert.Equal(t, invalid, p.opens(got.Access))
		time.Sleep(oauth.RefreshTTL - oauth.AccessTTL - time.Second)
		got = p.token(renewal(id, got.Refresh)).tokens()
		time.Sleep(oauth.RefreshTTL - time.Second)
		got = p.token(renewal(id, got.Refresh)).tokens()
		assert.Equal(t, http.StatusOK, p.page(request(id)).Code, "a client stays as long as its grant")
		time.Sleep(oauth.RefreshTTL)
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, got.Refresh)).failed())
		time.Sleep(48 * time.Hour)
		assert.Equal(t, "401 invalid_client", p.token(renewal(id, got.Refresh)).failed(), "an unused client expires")
		assert.Equal(t, http.StatusBadRequest, p.page(request(id)).Code)
	})
}

// A token is as good as its key.
func TestTokens_endWithTheirKey(t *testing.T) {
	p, id := newClient(t)
	got := p.signIn(id)
	p.keys.RemoveProduct("acme")
	assert.Equal(t, invalid, p.opens(got.Access))
	assert.Equal(t, "400 invalid_grant", p.token(renewal(id, got.Refresh)).failed())
	require.NoError(t, p.keys.Add("lak_new", "acme"))
	assert.Equal(t, invalid, p.opens(got.Access), "another key of the product")
	require.NoError(t, p.keys.Add(acmeKey, "globex"))
	assert.Equal(t, invalid, p.opens(got.Access), "the key of another product")
	p.keys.RemoveProduct("globex")
	require.NoError(t, p.keys.Add(acmeKey, "acme", access.Stream))
	assert.Equal(t, access.ErrScope.Error(), p.opens(got.Access))
}

func TestRevoke(t *testing.T) {
	p := newPlace(t, publicURL)
	id, other := p.register("Claude", callback), p.register("Other", callback)
	revoke := func(token, client string) reply {
		return p.do(http.MethodPost, "/oauth/revoke", redemption(client, "", "token", token).Encode())
	}
	got := p.signIn(id)
	parts := strings.Split(got.Access, "~")
	for _, unknown := range []string{"x", "lat_acme~x~y", parts[0] + "~" + parts[1] + "~x", acmeKey, "lar_acme~x~y"} {
		assert.Equal(t, http.StatusOK, revoke(unknown, id).Code)
	}
	assert.Equal(t, "400 invalid_grant", revoke(got.Access, other).failed())
	assert.Equal(t, "400 invalid_request", revoke("", id).failed())
	assert.Equal(t, "acme", p.opens(got.Access))
	for _, token := range []func(tokens) string{func(g tokens) string {
		return g.Access
	}, func(g tokens) string { return g.Refresh }} {
		got := p.signIn(id)
		assert.Equal(t, http.StatusOK, revoke(token(got), id).Code)
		assert.Equal(t, invalid, p.opens(got.Access))
		assert.Equal(t, "400 invalid_grant", p.token(renewal(id, got.Refresh)).failed())
	}
}

// A key has at most a hundred grants. The least recently used one goes, whichever server it was used at.
func TestGrants_areBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, id := newClient(t)
		_, q := p.consent(request(id), "lak_acme-second").location()
		second := p.token(redemption(id, q.Get("code"))).tokens()
		var all []tokens
		for range oauth.MaxGrants {
			all = append(all, p.signIn(id))
			time.Sleep(time.Second)
		}
		assert.Equal(t, "acme", p.again(publicURL).opens(all[0].Access)) // over a minute after the sign-in
		all = append(all, p.signIn(id), p.signIn(id))
		for i, got := range all {
			want := "acme"
			if i == 1 || i == 2 {
				want = invalid
			}
			assert.Equal(t, want, p.opens(got.Access), i)
		}
		assert.Equal(t, "acme", p.opens(second.Access), "another key's")
		assert.Len(t, musttest.New(p.Grants(t.Context(), "acme")), oauth.MaxGrants+1)
	})
}

func TestGrants_areListedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, id := newClient(t)
		_ = p.code(id) // not used yet
		got := p.signIn(id)
		time.Sleep(time.Second)
		app := p.register("App", "com.example.app:/done")
		_, q := p.consent(request(app, "redirect_uri", "com.example.app:/done"), acmeKey).location()
		p.token(redemption(app, q.Get("code"), "redirect_uri", "com.example.app:/done")).tokens()
		time.Sleep(time.Minute)
		p.opens(got.Access)
		list := func(p *place) []oauth.Grant { return musttest.New(p.Grants(t.Context(), "acme")) }
		grants := list(p)
		assert.Equal(t, grants, list(p.again(publicURL)), "on every server")
		require.Len(t, grants, 2)
		now := float64(time.Now().Unix())
		assert.Equal(t, oauth.Grant{GrantID: grants[1].GrantID, ClientID: id, ClientName: "Claude", RedirectHost: "claude.ai",
			Scope: "mcp", CreatedAt: now - 61, LastUsedAt: now}, grants[1])
		assert.Equal(t, "com.example.app:", grants[0].RedirectHost)

		for _, want := range []bool{true, false} {
			assert.Equal(t, want, musttest.New(p.again(publicURL).End(t.Context(), "acme", grants[1].GrantID)))
		}
		assert.Equal(t, invalid, p.opens(got.Access))
		assert.Len(t, list(p), 1)
		p.keys.RemoveProduct("acme")
		assert.Empty(t, list(p), "grants end with their key")
	})
}

// While storage is away nothing passes for ended, so clients try again, and nothing is spent.
func TestServer_endsNothingWhileStorageIsAway(t *testing.T) {
	p, id := newClient(t)
	var docs watchtest.Watch
	p.docs = watchtest.Store{Store: p.docs, Watch: &docs}
	p = p.again(publicURL)
	code, got := p.code(id), p.signIn(id)
	grant := musttest.New(p.Grants(t.Context(), "acme"))[0].GrantID
	docs.Down.Store(true)
	_, _, err := p.KeyOf(t.Context(), got.Access)
	require.ErrorIs(t, err, access.ErrUnavailable)
	_, err = p.End(t.Context(), "acme", grant)
	require.Error(t, err)
	_, err = p.Grants(t.Context(), "acme")
	require.Error(t, err)
	for _, r := range []reply{p.token(renewal(id, got.Refresh)), p.token(redemption(id, code)), p.page(request(id)),
		p.do(http.MethodPost, "/oauth/revoke", renewal(id, "", "token", got.Refresh).Encode())} {
		assert.Equal(t, http.StatusServiceUnavailable, r.Code)
	}
	docs.Down.Store(false)
	p.token(renewal(id, got.Refresh)).tokens()
	p.token(redemption(id, code)).tokens()
}

// A server may learn of its product's registration only during a request, as just after a start.
func TestToken_isNotLostAtAServerThatIsBehind(t *testing.T) {
	p, id := newClient(t)
	p.docs.(*document.Memory).Drop("acme", 2) // it was another registration's
	form := renewal(id, p.signIn(id).Refresh)
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader(form.Encode()))
	behind := document.WithGenerations(t.Context(), func(string) document.Version { return 1 })
	w := httptest.NewRecorder()
	p.mux.ServeHTTP(w, r.WithContext(behind))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	p.token(form).tokens()
}

func TestServer_withoutAPublicURL(t *testing.T) {
	for _, url := range []string{"", "http://live.example.com", "ftp://live.example.com"} {
		p := newPlace(t, url)
		r := p.do(http.MethodPost, "/oauth/register", `{"redirect_uris": ["https://claude.ai/"]}`)
		assert.Equal(t, "400 invalid_request", r.failed())
		assert.Contains(t, r.Body.String(), "key")
		musttest.New(admission.Bodies().Decoded.Acquire(t.Context(), time.Now(), "", 1<<40, 0))() // it keeps no room
		assert.Equal(t, http.StatusNotFound, p.do(http.MethodGet, "/.well-known/oauth-authorization-server", "").Code)
		assert.Equal(t, "Bearer", p.Challenge("", access.ErrInvalid))
		assert.Equal(t, "acme", p.opens(acmeKey))
	}
	for _, url := range []string{"http://127.0.0.1:8080", "http://[::1]:8080/", "http://localhost:8080/base",
		"https://live.example.com:8443"} {
		assert.True(t, newPlace(t, url).On(), url)
	}
	_, err := oauth.New("", nil, nil, nil)
	assert.Equal(t, []string{"oauth.keys", "oauth.docs"}, musttest.Mistakes(t, err))
}

func TestChallenge(t *testing.T) {
	p := newPlace(t, "https://live.example.com/base/")
	const where = `resource_metadata="https://live.example.com/.well-known/oauth-protected-resource/base/mcp"`
	assert.Equal(t, `Bearer `+where+`, scope="mcp"`, p.Challenge("", access.ErrInvalid))
	wrong := p.Challenge("lak_none", access.ErrInvalid)
	assert.Contains(t, wrong, `Bearer `+where+`, scope="mcp", error="invalid_token", error_description="wrong key`)
	assert.Contains(t, p.Challenge("lat_acme~x~y", access.ErrInvalid), `error="invalid_token"`)
	assert.Equal(t, `Bearer error="insufficient_scope", scope="mcp", `+where, p.Challenge("lak_streams", access.ErrScope))
	assert.Empty(t, p.Challenge("", access.ErrUnavailable))
	assert.Empty(t, p.Challenge("x", nil))
}

// Clients find every endpoint through metadata that names the address they asked, at the root and below a path.
func TestMetadata(t *testing.T) {
	for _, prefix := range []string{"", "/base", "/a/b"} {
		p := newPlace(t, publicURL+prefix)
		for _, behind := range []string{"", "/mcp", prefix, prefix + "/mcp"} {
			r := p.do(http.MethodGet, "/.well-known/oauth-protected-resource"+behind, "")
			assert.JSONEq(t, `{"resource":"`+publicURL+prefix+`/mcp",
				"authorization_servers":["`+publicURL+prefix+`"],"scopes_supported":["mcp"],
				"bearer_methods_supported":["header"],"resource_name":"liveactivity"}`, r.Body.String())
		}
		for _, behind := range []string{"", prefix} {
			r := p.do(http.MethodGet, "/.well-known/oauth-authorization-server"+behind, "")
			fields := r.json()
			assert.Equal(t, publicURL+prefix, fields["issuer"])
			for _, name := range []string{"authorize", "token", "register", "revoke"} {
				assert.Contains(t, fmt.Sprint(fields), publicURL+prefix+"/oauth/"+name)
			}
			assert.Equal(t, []any{"S256"}, fields["code_challenge_methods_supported"])
			assert.Equal(t, []any{"none"}, fields["token_endpoint_auth_methods_supported"])
			assert.Equal(t, []any{"code"}, fields["response_types_supported"])
			assert.Equal(t, []any{"authorization_code", "refresh_token"}, fields["grant_types_supported"])
			assert.Equal(t, []any{true, true}, []any{fields["client_id_metadata_document_supported"],
				fields["authorization_response_iss_parameter_supported"]})
			assert.NotContains(t, fields, "jwks_uri")
		}
	}
}

// Clients that run in a page call from any origin.
func TestServer_answersPreflights(t *testing.T) {
	p := newPlace(t, publicURL)
	for path, method := range map[string]string{"/.well-known/oauth-protected-resource/mcp": "GET",
		"/.well-known/oauth-authorization-server": "GET",
		"/oauth/register":                         "POST", "/oauth/token": "POST", "/oauth/revoke": "POST"} {
		r := p.do(http.MethodOptions, path, "", "Origin: http://localhost:6274", "Access-Control-Request-Method: "+method)
		assert.Equal(t, http.StatusNoContent, r.Code, path)
		assert.Contains(t, r.Header().Get("Access-Control-Allow-Methods"), method)
		assert.Contains(t, strings.ToLower(r.Header().Get("Access-Control-Allow-Headers")), "mcp-protocol-version")
		assert.Equal(t, "*", p.do(method, path, "",
			"Origin: http://localhost:6274").Header().Get("Access-Control-Allow-Origin"))
	}
	assert.Empty(t, p.do(http.MethodGet, "/oauth/authorize", "",
		"Origin: https://evil.example").Header().Get("Access-Control-Allow-Origin"))
}
