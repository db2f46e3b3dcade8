package posthog_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func TestToken_isTakenFromWhereSDKsPutIt(t *testing.T) {
	bare := func() object { return click(object{"properties.token": nil}) }
	with := func(key string, value any) object {
		e := bare()
		e[key] = value
		return e
	}
	cases := []struct {
		name string
		body any
		ok   bool
	}{
		{"api_key of a batch", object{"api_key": shopToken, "batch": []any{bare()}}, true},
		{"token of a batch", object{"token": shopToken, "batch": []any{bare()}}, true},
		{"another of the product's tokens", object{"token": "phc_shop_second_token", "batch": []any{bare()}}, true},
		{"the longest", object{"token": longestToken, "batch": []any{bare()}}, true},
		{"api_key of an event", with("api_key", shopToken), true},
		{"token of an event", with("token", shopToken), true},
		{"properties.token of an event", click(nil), true},
		{"api_key of an event in an array", []any{with("api_key", shopToken)}, true},
		{"token of an event in an array", []any{with("token", shopToken)}, true},
		{"properties.token of an event in an array", []any{click(nil)}, true},
		{"properties.token of an event in a batch", object{"batch": []any{click(nil)}}, true},
		{"properties.token of an event in a webhook body", object{"event": click(nil)}, true},
		{"empty api_key beside a token", object{"api_key": "", "token": shopToken, "batch": []any{bare()}}, true},
		{"only the second event has one", []any{bare(), click(nil)}, true},

		{"none", bare(), false},
		{"none in a batch", object{"batch": []any{bare()}}, false},
		{"an empty array", []any{}, false},
		{"an empty object", object{}, false},
		{"unknown", object{"api_key": "phc_unknown", "batch": []any{bare()}}, false},
		{"unknown, though an event's own is known", object{"api_key": "phc_unknown", "batch": []any{click(nil)}}, false},
		{"one that begins like the longest", object{"api_key": longestToken + "x", "batch": []any{bare()}}, false},
		{"a number", object{"api_key": 5, "batch": []any{bare()}}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newService(intake.Options{})
			w := s.post(captureDoor, marshal(t, c.body))
			if c.ok {
				assert.Positive(t, requireOK(t, w).Accepted)
				assert.NotEmpty(t, s.sink.take(shop))
				return
			}
			assert.Equal(t, "The capture token is missing or unknown.", requireError(t, w, http.StatusUnauthorized))
			assert.Empty(t, w.Header().Get("WWW-Authenticate"), "a browser would ask for a password")
			assert.Empty(t, s.sink.events)
		})
	}
}

// The token counts in the body only.
func TestToken_isNotTakenFromURLOrHeader(t *testing.T) {
	s := newService(intake.Options{})
	body := marshal(t, click(object{"properties.token": nil}))
	w := s.post(door{path: "/e/?api_key=" + shopToken + "&token=" + shopToken}, body, "Authorization", "Bearer "+shopToken)
	requireError(t, w, http.StatusUnauthorized)
}

// An event with another product's token is ignored and reaches neither product.
func TestToken_productsNeverMix(t *testing.T) {
	with := func(id string, token any) object { return click(object{"uuid": id, "properties.token": token}) }
	for name, c := range map[string]struct {
		token            any // of the batch; nil for an array of events
		events           []any
		shopIDs, bankIDs []string
	}{
		"a batch of the shop with an event of the bank": {shopToken,
			[]any{with("1", nil), with("2", bankToken), with("3", shopToken)}, []string{"1", "3"}, nil},
		"a batch of the bank with an event of the shop": {bankToken,
			[]any{with("1", shopToken), with("2", nil)}, nil, []string{"2"}},
		"an array, by the first event": {nil,
			[]any{with("1", bankToken), with("2", shopToken), with("3", bankToken)}, nil, []string{"1", "3"}},
		"an event with an unknown token":    {shopToken, []any{with("1", "phc_unknown"), with("2", nil)}, []string{"2"}, nil},
		"another token of the same product": {shopToken, []any{with("1", "phc_shop_second_token")}, []string{"1"}, nil},
		"every event of another product":    {shopToken, []any{with("1", bankToken), with("2", bankToken)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			body := any(c.events)
			if c.token != nil {
				body = object{"api_key": c.token, "batch": c.events}
			}
			accepted := len(c.shopIDs) + len(c.bankIDs)
			requireCounts(t, s.post(captureDoor, marshal(t, body)), accepted, len(c.events)-accepted)
			assert.Equal(t, c.shopIDs, s.ids(shop))
			assert.Equal(t, c.bankIDs, s.ids(bank))
		})
	}
}

// ids returns the IDs of the product's events since the last call.
func (s *service) ids(productID string) []string {
	var ids []string
	for _, e := range s.sink.take(productID) {
		ids = append(ids, e.ID)
	}
	return ids
}

// signature is the header of a signed webhook.
func signature(secret string, body []byte) string {
	return "sha256=" + hex.EncodeToString(intake.Sign(secret, body))
}

func TestWebhook_secret(t *testing.T) {
	body := marshal(t, object{"event": click(nil)})
	signed := signature(shopSecret, body)
	hexDigits := strings.TrimPrefix(signed, "sha256=")
	cases := []struct {
		name, product, header string
		status                int
	}{
		{"the secret itself", shop, shopSecret, 200},
		{"signed", shop, signed, 200},
		{"signed in upper case", shop, "sha256=" + strings.ToUpper(hexDigits), 200},

		{"no header", shop, "", 401},
		{"wrong", shop, "wrong", 401},
		{"a prefix", shop, shopSecret[:len(shopSecret)-1], 401},
		{"with more behind it", shop, shopSecret + "x", 401},
		{"in other letter case", shop, strings.ToUpper(shopSecret), 401},
		{"of another product", shop, bankSecret, 401},
		{"signed with another product's", shop, signature(bankSecret, body), 401},
		{"signed with the empty secret", shop, signature("", body), 401},
		{"signed for another body", shop, signature(shopSecret, append(body, ' ')), 401},
		{"signature without its prefix", shop, hexDigits, 401},
		{"signature cut short", shop, signed[:len(signed)-2], 401},
		{"signature with an odd digit", shop, signed[:len(signed)-1], 401},
		{"empty signature", shop, "sha256=", 401},

		{"a product without a secret: no header", closed, "", 401},
		{"a product without a secret: any header", closed, "anything", 401},
		{"a product without a secret: signed with nothing", closed, signature("", body), 401},
		{"a product without a secret: the digest of nothing", closed, "sha256=", 401},

		{"unknown product", "nowhere", shopSecret, 404},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newService(intake.Options{})
			d := door{path: "/webhook/" + c.product, header: http.Header{}}
			if c.header != "" {
				d.header.Set("X-PostHog-Secret", c.header)
			}
			w := s.post(d, body)
			if c.status == http.StatusOK {
				requireCounts(t, w, 1, 0)
				s.requireOneEvent(t)
				return
			}
			want := "The header X-Webhook-Secret or X-PostHog-Secret is missing or wrong."
			if c.status == http.StatusNotFound {
				want = "Unknown product."
			}
			assert.Equal(t, want, requireError(t, w, c.status), "a 401 never says which part was wrong")
			assert.Empty(t, w.Header().Get("WWW-Authenticate"))
			assert.Empty(t, s.sink.events)
		})
	}
}

// The body alone sets the cost of a request, however many proofs it brings.
func TestWebhook_manyProofsCostNoMoreThanOne(t *testing.T) {
	s := newService(intake.Options{})
	body := bytes.Repeat([]byte(" "), 1<<20)
	cost := func(proofs int) time.Duration {
		least := time.Hour
		for range 3 {
			d := door{path: "/webhook/" + shop, header: http.Header{"X-Webhook-Secret": slices.Repeat([]string{"sha256="},
				proofs)}}
			began := time.Now()
			requireError(t, s.post(d, body), http.StatusUnauthorized)
			least = min(least, time.Since(began))
		}
		return least
	}
	assert.Less(t, cost(1000), 20*cost(1), "the body is signed once")
}

// The signature covers the compressed body as it was sent, not its decompressed content.
func TestWebhook_signatureIsOfTheBodyAsSent(t *testing.T) {
	s := newService(intake.Options{})
	inside := marshal(t, object{"event": click(nil)})
	sent := gzipped(inside)
	d := door{path: "/webhook/" + shop}
	requireCounts(t, s.post(d, sent, "X-PostHog-Secret", signature(shopSecret, sent), "Content-Encoding", "gzip"), 1, 0)
	requireError(t, s.post(d, sent, "X-PostHog-Secret", signature(shopSecret, inside), "Content-Encoding", "gzip"),
		http.StatusUnauthorized)
}

// A token in the body changes nothing.
func TestWebhook_takesTheProductFromThePath(t *testing.T) {
	s := newService(intake.Options{})
	body := marshal(t, object{"event": click(object{"uuid": "1", "properties.token": bankToken})})
	requireCounts(t, s.post(webhookDoor, body), 1, 0)
	assert.Equal(t, []string{"1"}, s.ids(shop))
	assert.Empty(t, s.ids(bank))
}

// A caller without the secret learns nothing about the body.
func TestWebhook_bodyIsNotJudgedBeforeTheSecret(t *testing.T) {
	s := newService(intake.Options{})
	for _, body := range []string{"", "{", "\x1f\x8b", "[]"} {
		requireError(t, s.post(door{path: "/webhook/" + shop}, []byte(body), "X-PostHog-Secret", "wrong"),
			http.StatusUnauthorized)
	}
	requireError(t, s.post(door{path: "/webhook/" + shop}, []byte("{}"), "Content-Encoding", "br"),
		http.StatusUnauthorized)
}

func TestSign_isHMACSHA256(t *testing.T) {
	// RFC 4231, test case 2.
	assert.Equal(t, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		hex.EncodeToString(intake.Sign("Jefe", []byte("what do ya want for nothing?"))))
}

// asked counts the questions for a token.
type asked struct {
	catalogue
	mu     sync.Mutex
	tokens map[string]int
}

func (a *asked) ProductOfToken(token string) (string, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[token]++
	return a.catalogue.ProductOfToken(token)
}

func TestTokens_areLookedUpOnceEachAndNotWithoutEnd(t *testing.T) {
	a := &asked{catalogue: products, tokens: map[string]int{}}
	s := newService(intake.Options{})
	s.mount(musttest.New(intake.New(s.sink, a, nil)))
	var batch []any
	for i := range 500 {
		for range 3 {
			batch = append(batch, click(object{"uuid": "", "token": fmt.Sprint("phc_unknown_", i), "n": len(batch)}))
		}
		batch = append(batch, click(object{"uuid": "", "n": len(batch)}),
			click(object{"uuid": "", "n": -len(batch), "token": "phc_shop_second_token"}))
	}
	// The token follows the batch.
	w := s.post(captureDoor, append(append([]byte(`{"batch":`), marshal(t, batch)...), `,"api_key":"`+shopToken+`"}`...))
	requireCounts(t, w, 1000, 1500)
	assert.Equal(t, 1, a.tokens[shopToken])
	assert.Equal(t, 1, a.tokens["phc_shop_second_token"])
	assert.LessOrEqual(t, len(a.tokens), 20)
	for token, times := range a.tokens {
		assert.Equal(t, 1, times, token)
	}
}
