package intake

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// productOf returns the product of a project token; an unknown token is 401, with
// the scheme for WWW-Authenticate, which may be empty.
func (in *Intake) productOf(token, scheme string) (productID string, err error) {
	productID, ok, err := in.products.ProductOfToken(token)
	switch {
	case err != nil:
		return "", httpx.Unavailable(err)
	case !ok:
		return "", httpx.Unauthorized("The project token is missing or unknown.", scheme)
	}
	return productID, nil
}

// maxForeign is how many different tokens, beside the request's own, are looked
// up for its events. Every token that is unknown may cost a look into storage.
const maxForeign = 16

// fits reports whether an event with a token, "" for none, is of the request's product. An
// unknown token is not, and beyond maxForeign none is. The error is an answer of 503.
func (in *Intake) fits(t *taking, token string) (bool, error) {
	if token == "" || token == t.call.Token {
		return true, nil
	}
	ok, known := t.tokens[token]
	if known || len(t.tokens) == maxForeign {
		return ok, nil
	}
	other, _, err := in.products.ProductOfToken(token)
	if err != nil {
		return false, httpx.Unavailable(err)
	}
	t.tokens[token] = other == t.productID
	return t.tokens[token], nil
}

// product returns the product of an ID; an unknown one is 404.
func (in *Intake) product(productID string) (Product, error) {
	product, ok, err := in.products.ProductOfID(productID)
	switch {
	case err != nil:
		return product, httpx.Unavailable(err)
	case !ok:
		return product, httpx.NotFound("Unknown product.")
	}
	return product, nil
}

// verify checks headers: one must hold the secret, or "sha256=" and the hexadecimal HMAC-SHA256
// of the body under it. An empty secret fits nothing. The body is signed once, however many
// headers there are.
func verify(secret string, headers []string, body []byte) bool {
	signature := sync.OnceValue(func() []byte { return Sign(secret, body) })
	return secret != "" && slices.ContainsFunc(headers, func(header string) bool {
		return verifyOne(secret, header, signature)
	})
}

// verifyOne is verify of a header. The time it takes tells nothing about the secret: of the
// secret itself, digests are compared, which have the same length.
func verifyOne(secret, header string, signature func() []byte) bool {
	if hexadecimal, ok := strings.CutPrefix(header, "sha256="); ok {
		got, err := hex.DecodeString(hexadecimal)
		if err == nil && hmac.Equal(got, signature()) {
			return true
		}
	}
	want, got := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(header))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// Sign returns the HMAC-SHA256 of a webhook body under the product's secret. Identities are
// signed in the same way.
func Sign(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}
