package registry

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// file returns a product file with one product, a key of both scopes and a key of one.
func file() productfile.File {
	return productfile.File{
		Products: []productfile.Product{{ProductID: "acme", WebhookSecret: "file-secret",
			CaptureTokens: []string{"phc_1", "phc_2"}}},
		Keys: []productfile.Key{{Key: "both", ExternalID: "acme"},
			{Key: "stream", ExternalID: "acme", Scopes: []access.Scope{access.Stream}}},
	}
}

// registryOn returns a registry on the log that has loaded nothing.
func registryOn(log eventlog.Log) *Registry {
	return musttest.New(New(productfile.File{}, productfile.NewExtensions(nil, nil), nil, log))
}

func register(t *testing.T, r *Registry, id string, force bool) Credentials {
	return musttest.New(r.Register(t.Context(), productfile.Product{ProductID: id}, "", force))
}

// assertOpen checks that the credentials open the product and nothing else.
func assertOpen(t *testing.T, r *Registry, c Credentials, id string) {
	t.Helper()
	for _, scope := range []access.Scope{access.MCP, access.Stream} {
		assert.NoError(t, r.Keys().Check(c.Key, id, scope))
		assert.ErrorIs(t, r.Keys().Check(c.Key, id+"x", scope), access.ErrMismatch)
	}
	reports, ok, _ := r.ProductOfID(id)
	assert.True(t, ok)
	assert.Equal(t, c.WebhookSecret, reports.WebhookSecret)
	product, ok, _ := r.ProductOfToken(c.CaptureToken)
	assert.True(t, ok)
	assert.Equal(t, id, product)
}

// assertVoid checks that the credentials open nothing.
func assertVoid(t *testing.T, r *Registry, c Credentials, id string) {
	t.Helper()
	for _, scope := range []access.Scope{access.MCP, access.Stream} {
		assert.ErrorIs(t, r.Keys().Check(c.Key, id, scope), access.ErrInvalid)
		_, err := r.Keys().ProductOf(c.Key, scope)
		assert.ErrorIs(t, err, access.ErrInvalid)
	}
	reports, _, _ := r.ProductOfID(id)
	assert.NotEqual(t, c.WebhookSecret, reports.WebhookSecret)
	_, ok, _ := r.ProductOfToken(c.CaptureToken)
	assert.False(t, ok)
}

func TestFromFile_opensTheProductsOfTheFile(t *testing.T) {
	r := musttest.New(New(file(), productfile.NewExtensions(nil, nil), nil, newMemoryLog()))
	assert.Equal(t, []string{"acme"}, r.IDs())
	reports, ok, _ := r.ProductOfID("acme")
	assert.True(t, ok)
	assert.Equal(t, "file-secret", reports.WebhookSecret)
	for _, token := range []string{"phc_1", "phc_2"} {
		product, ok, _ := r.ProductOfToken(token)
		assert.True(t, ok)
		assert.Equal(t, "acme", product)
	}
	assert.NoError(t, r.Keys().Check("both", "acme", access.MCP))
	assert.Equal(t, access.ErrScope, r.Keys().Check("stream", "acme", access.MCP))
}

func TestFromFile_refusesAKeyThatIsThereTwice(t *testing.T) {
	f := file()
	f.Keys = append(f.Keys, productfile.Key{Key: "both", ExternalID: "acme"})
	_, err := New(f, productfile.NewExtensions(nil, nil), nil, newMemoryLog())
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "both")
}

func TestRegister_makesFreshSecrets(t *testing.T) {
	r := registryOn(newMemoryLog())
	seen := map[string]bool{}
	for i := range 20 {
		id := fmt.Sprintf("p%02d", i)
		c, err := r.Register(t.Context(), productfile.Product{ProductID: id, WebhookSecret: "mine",
			CaptureTokens: []string{"mine"}}, "", false)
		require.NoError(t, err)
		assertOpen(t, r, c, id)
		_, ok, _ := r.ProductOfToken("mine")
		assert.False(t, ok, "a caller brings no secrets of its own")
		for _, secret := range []string{c.Key, c.WebhookSecret, c.CaptureToken} {
			assert.GreaterOrEqual(t, len(secret), 26, "long enough not to be guessed")
			assert.False(t, seen[secret], "the same secret twice")
			seen[secret] = true
		}
	}
	assert.Len(t, r.IDs(), 20)
	assert.IsIncreasing(t, r.IDs())
}

// A caller that follows the hint of a 409 keeps the help desk and the list of origins.
func TestRegister_withForceAndAnIDAloneKeepsTheConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		next productfile.Product
		name string
		want []string // origins, and the name of the key
	}{
		"an ID alone":     {productfile.Product{}, "", []string{"https://acme.example", "agent"}},
		"a name beside":   {productfile.Product{}, "fresh", []string{"https://acme.example", "fresh"}},
		"a configuration": {productfile.Product{RespectGPC: true}, "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			r := registryOn(newMemoryLog())
			old, err := r.Register(t.Context(), productfile.Product{ProductID: "acme",
				AllowedOrigins: []string{"https://acme.example"}}, "agent", false)
			require.NoError(t, err)
			tt.next.ProductID = "acme"
			fresh := musttest.New(r.Register(t.Context(), tt.next, tt.name, true))
			assertVoid(t, r, old, "acme")
			assertOpen(t, r, fresh, "acme")
			product, _, err := r.Product("acme")
			require.NoError(t, err)
			assert.Equal(t, tt.want, append(product.AllowedOrigins, r.Keys().NameOf(sha256.Sum256([]byte(fresh.Key)))))
		})
	}
}

func TestProduct_hasItsOriginsAndTrust(t *testing.T) {
	f := file()
	f.Products[0].AllowedOrigins = []string{"https://*.acme.example", "null"}
	f.Products[0].LinkHosts = []string{"help.acme.test"}
	f.Products[0].Identity.Unverified = productfile.UnverifiedReplies
	r := musttest.New(New(f, productfile.NewExtensions(nil, nil), nil, newMemoryLog()))
	_, err := r.Register(t.Context(), productfile.Product{ProductID: "globex",
		AllowedOrigins: []string{"https://globex.example"}}, "", false)
	require.NoError(t, err)
	for id, want := range map[string]struct {
		origins, hosts []string
		takesClaims    bool
	}{
		"acme":   {[]string{"https://*.acme.example", "null"}, []string{"*.acme.example", "help.acme.test"}, true},
		"globex": {[]string{"https://globex.example"}, []string{"globex.example"}, false}, // by default for notes only
		"none":   {},
	} {
		got, _, err := r.ProductOfID(id)
		require.NoError(t, err)
		assert.Equal(t, want.origins, got.AllowedOrigins, id)
		product, _, err := r.Product(id)
		require.NoError(t, err)
		assert.Equal(t, want.hosts, product.LinkHosts, id)
		assert.Equal(t, want.takesClaims, product.TakesClaims, id)
	}
}
