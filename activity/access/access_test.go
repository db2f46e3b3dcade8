package access_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// keyring has a key for each combination of scopes.
func keyring(t *testing.T) *access.Keyring {
	t.Helper()
	k := access.NewKeyring()
	require.NoError(t, k.Add("acme-all", "acme"))
	require.NoError(t, k.Add("acme-both", "acme", access.MCP, access.Stream))
	require.NoError(t, k.Add("acme-mcp", "acme", access.MCP))
	require.NoError(t, k.Add("acme-stream", "acme", access.Stream))
	require.NoError(t, k.Add("other-all", "other"))
	require.NoError(t, k.Add("other-mcp", "other", access.MCP))
	return k
}

func TestKeyring_checksKeyProductAndScope(t *testing.T) {
	k := keyring(t)
	for _, c := range []struct {
		name, key, product string
		mcp, stream        error
	}{
		{"key without scopes opens all", "acme-all", "acme", nil, nil},
		{"both scopes", "acme-both", "acme", nil, nil},
		{"one scope", "acme-mcp", "acme", nil, access.ErrScope},
		{"the other scope", "acme-stream", "acme", access.ErrScope, nil},
		{"another product's key", "other-all", "acme", access.ErrMismatch, access.ErrMismatch},
		{"that product's own key", "other-all", "other", nil, nil},
		{"another product's key without the scope", "other-mcp", "acme", access.ErrMismatch, access.ErrMismatch},
		{"unknown product", "acme-all", "nothing", access.ErrMismatch, access.ErrMismatch},
		{"no product", "acme-all", "", access.ErrMismatch, access.ErrMismatch},
		{"product in other case", "acme-all", "Acme", access.ErrMismatch, access.ErrMismatch},
		{"no key", "", "acme", access.ErrInvalid, access.ErrInvalid},
		{"unknown key", "acme-none", "acme", access.ErrInvalid, access.ErrInvalid},
		{"key in other case", "ACME-ALL", "acme", access.ErrInvalid, access.ErrInvalid},
		{"beginning of a key", "acme-al", "acme", access.ErrInvalid, access.ErrInvalid},
		{"key and more", "acme-all ", "acme", access.ErrInvalid, access.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.mcp, k.Check(c.key, c.product, access.MCP))
			assert.Equal(t, c.stream, k.Check(c.key, c.product, access.Stream))
			for scope, want := range map[access.Scope]error{access.MCP: c.mcp, access.Stream: c.stream} {
				if productID, err := k.ProductOf(c.key, scope); want != access.ErrMismatch {
					assert.Equal(t, want, err)
					assert.Equal(t, err == nil, productID == c.product, "the product of the key")
				}
			}
		})
	}
	t.Run("scope that does not exist", func(t *testing.T) {
		assert.Equal(t, access.ErrScope, k.Check("acme-all", "acme", "admin"))
		assert.Equal(t, access.ErrScope, k.Check("acme-all", "acme", ""))
	})
}

func TestKeyring_refusesToAdd(t *testing.T) {
	k := keyring(t)
	for name, c := range map[string]struct {
		key, product string
		scope        access.Scope
		want         []string
	}{
		"an empty key":                      {"", "acme", access.Stream, []string{"access.key"}},
		"a key that begins with a space":    {" acme-new", "acme", access.Stream, []string{"access.key"}},
		"a key that ends with a line feed":  {"acme-new\n", "acme", access.Stream, []string{"access.key"}},
		"a key twice":                       {"acme-all", "acme", access.Stream, []string{"access.key"}},
		"a key twice, for another product":  {"acme-all", "other", access.Stream, []string{"access.key"}},
		"a key twice, with different scope": {"acme-mcp", "acme", access.Stream, []string{"access.key"}},
		"no product":                        {"acme-new", "", access.Stream, []string{"access.externalID"}},
		"an unknown scope":                  {"acme-new", "acme", "admin", []string{"access.scope"}},
		"everything":                        {"", "", "", []string{"access.key", "access.externalID", "access.scope"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := k.Add(c.key, c.product, c.scope)
			assert.ElementsMatch(t, c.want, musttest.Mistakes(t, err))
			assert.NotContains(t, err.Error(), "acme", "errors end up in logs")
			_, err = k.ProductOf(c.key, access.MCP)
			assert.Equal(t, c.key == "acme-all" || c.key == "acme-mcp", err == nil, "nothing is added")
		})
	}
	assert.NoError(t, k.Check("acme-all", "acme", access.MCP), "existing keys stay")
	assert.Equal(t, access.ErrScope, k.Check("acme-mcp", "acme", access.Stream))
}

func TestKeyring_refusesToAddADigest(t *testing.T) {
	k := access.NewKeyring()
	err := k.AddDigest(sha256.Sum256([]byte("key")), "", "admin")
	assert.Equal(t, []string{"access.externalID", "access.scope"}, musttest.Mistakes(t, err))
	require.NoError(t, k.AddDigest(sha256.Sum256([]byte("key")), "acme"))
	require.NoError(t, k.Check("key", "acme", access.MCP))
}

// A wrong mount answers 500 to every caller. A wrong argument of it is also logged.
func TestKeyring_requireReportsAWrongMount(t *testing.T) {
	k := keyring(t)
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for name, c := range map[string]struct {
		pattern string
		scope   access.Scope
		next    http.Handler
		want    int
		logged  string
	}{
		"all is well":          {"/{product_id}", access.MCP, served, 204, ""},
		"no handler":           {"/{product_id}", access.MCP, nil, 500, "next must not be nil"},
		"an unknown scope":     {"/{product_id}", "admin", served, 500, "scope must be mcp or stream"},
		"a pattern without it": {"/{product}", access.MCP, served, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			t.Cleanup(func() { slog.SetDefault(before) })
			mux := http.NewServeMux()
			mux.Handle(c.pattern, k.Require(c.scope, c.next))
			r := httptest.NewRequest(http.MethodGet, "/acme", nil)
			r.Header.Set("Authorization", "Bearer acme-all")
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			assert.Equal(t, c.want, w.Code)
			assert.Contains(t, log.String(), c.logged)
		})
	}
}

func TestKeyring_copiesTheScopes(t *testing.T) {
	k := access.NewKeyring()
	scopes := []access.Scope{access.MCP}
	require.NoError(t, k.Add("key", "acme", scopes...))
	scopes[0] = access.Stream
	assert.NoError(t, k.Check("key", "acme", access.MCP))
	assert.Equal(t, access.ErrScope, k.Check("key", "acme", access.Stream))
}

func TestKeyring_rotates(t *testing.T) {
	k := keyring(t)
	k.RemoveProduct("acme")
	for _, key := range []string{"acme-all", "acme-both", "acme-mcp", "acme-stream"} {
		assert.Equal(t, access.ErrInvalid, k.Check(key, "acme", access.MCP), key)
	}
	assert.NoError(t, k.Check("other-all", "other", access.MCP), "another product's keys stay")

	require.NoError(t, k.Add("acme-new", "acme"))
	assert.NoError(t, k.Check("acme-new", "acme", access.MCP))
	require.NoError(t, k.Add("acme-all", "acme"), "a removed key can be added again")
	assert.NoError(t, k.Check("acme-all", "acme", access.Stream))
	k.RemoveProduct("nothing")
	assert.NoError(t, k.Check("acme-new", "acme", access.MCP))
}

// There are enough keys for some to share a bucket.
func TestKeyring_holdsManyKeys(t *testing.T) {
	const count = 10_000
	k := access.NewKeyring()
	for i := range count {
		require.NoError(t, k.Add(fmt.Sprint("key", i), fmt.Sprint("product", i%7)))
	}
	for i := range count {
		require.NoError(t, k.Check(fmt.Sprint("key", i), fmt.Sprint("product", i%7), access.MCP))
	}
	assert.Equal(t, access.ErrInvalid, k.Check(fmt.Sprint("key", count), "product1", access.MCP))
	k.RemoveProduct("product3")
	for i := range 70 {
		assert.Equal(t, i%7 == 3, errors.Is(k.Check(fmt.Sprint("key", i), fmt.Sprint("product", i%7), access.MCP),
			access.ErrInvalid))
	}
}

func TestKeyring_concurrentUse(t *testing.T) {
	k := keyring(t)
	waittest.Together(8, func(w int) {
		product := fmt.Sprint("product", w)
		for i := range 50 {
			key := fmt.Sprint(product, "key", i)
			assert.NoError(t, k.Add(key, product))
			assert.NoError(t, k.Check(key, product, access.MCP))
			assert.NoError(t, k.Check("other-all", "other", access.Stream))
			k.RemoveProduct(product)
			assert.Equal(t, access.ErrInvalid, k.Check(key, product, access.MCP))
		}
	})
}

func TestKeyring_storesNoKeyInPlainText(t *testing.T) {
	k := keyring(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		assert.NotContains(t, fmt.Sprintf(format, k), "acme-all", format)
	}
}

func TestParseScope(t *testing.T) {
	for _, scope := range []access.Scope{access.MCP, access.Stream} {
		parsed, ok := access.ParseScope(string(scope))
		assert.True(t, ok)
		assert.Equal(t, scope, parsed)
	}
	for _, name := range []string{"", "MCP", "admin", "mcp,stream", " mcp"} {
		_, ok := access.ParseScope(name)
		assert.False(t, ok, name)
	}
}

func TestBearerToken(t *testing.T) {
	token := func(header ...string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Authorization"] = header
		return access.BearerToken(r)
	}
	for _, header := range []string{"Bearer key", "bearer key", "Bearer   key", "Bearer key "} {
		assert.Equal(t, "key", token(header), header)
	}
	assert.Equal(t, "a.b-c_d~e+f/g==", token("Bearer a.b-c_d~e+f/g=="))
	for _, header := range []string{"", "Bearer", "Bearer ", "key", "Basic a2V5Og==", "BearerX key", "Bearerkey"} {
		assert.Empty(t, token(header), header)
	}
	assert.Empty(t, token())
}

func TestKeyring_requireAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		header, product string
		status          int
		detail          string
	}{
		"right key":             {"Bearer acme-mcp", "acme", 200, ""},
		"unknown key":           {"Bearer acme-none", "acme", 401, "Invalid or missing API key"},
		"another product's key": {"Bearer other-all", "acme", 403, "API key does not match product_id"},
		"unknown product":       {"Bearer acme-mcp", "nothing", 403, "API key does not match product_id"},
		"key of another scope":  {"Bearer acme-stream", "acme", 403, "API key does not have the scope for this endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			w, passed := serve(keyring(t), c.header, c.product)
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, c.status == http.StatusOK, passed)
			if passed {
				assert.Equal(t, "activity", w.Body.String())
				return
			}
			assert.Equal(t, c.status == http.StatusUnauthorized, w.Header().Get("WWW-Authenticate") == "Bearer")
			assert.Equal(t, c.detail, httpxtest.Detail(t, c.status, w.Result()))
			answer := w.Body.String() + fmt.Sprint(w.Header())
			for _, key := range []string{"acme-", "other-"} { // the caller's, and the keyring's
				assert.NotContains(t, answer, key)
			}
		})
	}
}

// serve makes a request to a handler that requires the scope mcp, and reports whether it was passed on.
func serve(k *access.Keyring, authorization, product string) (w *httptest.ResponseRecorder, passed bool) {
	mux := http.NewServeMux()
	mux.Handle("GET /activity/{product_id}", k.Require(access.MCP,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			passed = true
			_, _ = w.Write([]byte("activity"))
		})))
	r := httptest.NewRequest(http.MethodGet, "/activity/"+product, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w, passed
}

// A caller without a valid key learns neither the existing products nor the fault of its credentials.
func TestKeyring_requireAnswersAllUnknownCallersAlike(t *testing.T) {
	k := keyring(t)
	first, _ := serve(k, "", "acme")
	for _, header := range []string{"Bearer acme-none", "Bearer", "Bearer  ", "Bearer acme-mcp x",
		"Basic acme-mcp", "acme-mcp"} {
		for _, product := range []string{"acme", "other", "nothing"} {
			w, _ := serve(k, header, product)
			assert.Equal(t, first.Code, w.Code)
			assert.Equal(t, first.Body.String(), w.Body.String())
			assert.Equal(t, first.Header(), w.Header())
		}
	}
}

// Another server may have issued the key just now. A refusal by an outdated list would be final for the
// client, and requests without a key must cost storage nothing.
func TestKeyring_asksForNewKeysBeforeItRefusesOne(t *testing.T) {
	k := keyring(t)
	asked, refresh := 0, func() error { return k.Add("new", "acme") }
	k.OnUnknown(func() error { asked++; return refresh() })
	require.Equal(t, access.ErrInvalid, k.Check("", "acme", access.MCP))
	_, err := k.ProductOf("", access.MCP)
	require.Equal(t, access.ErrInvalid, err)
	require.NoError(t, k.Check("acme-all", "acme", access.MCP))
	require.Zero(t, asked)
	require.NoError(t, k.Check("new", "acme", access.MCP))
	refresh = func() error { return nil }
	err = fmt.Errorf("check: %w", k.Check("none", "acme", access.MCP))
	assert.Contains(t, access.Refusal(err).Error(), "401")
	refresh = func() error { return errors.New("storage is away") }
	err = fmt.Errorf("check: %w", k.Check("none", "acme", access.MCP))
	assert.Contains(t, access.Refusal(err).Error(), "503")

	k.SetName(sha256.Sum256([]byte("new")), "helper")
	assert.Equal(t, "helper", k.NameOf(sha256.Sum256([]byte("new"))))
}

func TestKeyring_Admit_rechecksAfterTheRequest(t *testing.T) {
	k := keyring(t)
	admit := func(key string) (recheck func() error, err error) {
		r := httptest.NewRequest(http.MethodGet, "/stream/acme", nil)
		r.SetPathValue("product_id", "acme")
		r.Header.Set("Authorization", "Bearer "+key)
		return k.Admit(r, access.Stream)
	}
	for _, key := range []string{"acme-mcp", "other-all", "unknown", ""} {
		_, err := admit(key)
		require.Error(t, err, key)
	}
	recheck := musttest.New(admit("acme-stream"))
	require.NoError(t, recheck())
	k.RemoveProduct("other")
	require.NoError(t, recheck())
	k.RemoveProduct("acme")
	require.ErrorIs(t, recheck(), access.ErrInvalid)
}

// refresher counts the calls of Refresh.
type refresher struct {
	products []string
	err      error
}

func (r *refresher) Refresh(productID string) error {
	r.products = append(r.products, productID)
	return r.err
}

// A refusal stands only after the product was looked up anew.
func TestCheckCurrent_refusesByTheProductsPresentState(t *testing.T) {
	errOther := errors.New("something else")
	for name, tt := range map[string]struct {
		said      []error // the answers of successive checks
		refresh   error
		want      int
		refreshes int
	}{
		"taken":                    {[]error{nil}, nil, 0, 0},
		"refused and then taken":   {[]error{httpx.Unauthorized("No.", ""), nil}, nil, 0, 1},
		"refused twice":            {[]error{httpx.NotFound("No."), httpx.Errorf(403, "No.")}, nil, 403, 1},
		"forbidden and then taken": {[]error{httpx.Errorf(403, "No."), nil}, nil, 0, 1},
		"cannot be refreshed":      {[]error{httpx.Unauthorized("No.", "")}, errOther, 503, 1},
		"malformed":                {[]error{httpx.BadRequest("No.")}, nil, 400, 0},
		"another failure":          {[]error{errOther}, nil, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			products, said := &refresher{err: tt.refresh}, tt.said
			check := func() error {
				err := said[0]
				said = said[1:]
				return err
			}
			assert.Equal(t, tt.want, status(access.CheckCurrent(products, "acme", check)))
			assert.Empty(t, said)
			assert.Equal(t, tt.refreshes, len(products.products))
			assert.Subset(t, []string{"acme"}, products.products)
		})
	}
}

// status returns the status of a check's answer, zero for none.
func status(err error) int {
	var answer *httpx.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &answer):
		return answer.Status
	}
	return http.StatusInternalServerError
}
