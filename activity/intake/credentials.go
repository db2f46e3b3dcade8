package intake

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/liveactivity/liveactivity/internal/httpx"
)

// productOf returns the product of a capture token. An unknown token is a 401 with the scheme, which
// may be empty, in WWW-Authenticate.
func (in *Intake) productOf(token, scheme string) (productID string, err error) {
	productID, ok, err := in.products.ProductOfToken(token)
	switch {
	case err != nil:
		return "", httpx.Unavailable(err)
	case !ok:
		return "", httpx.Unauthorized("The capture token is missing or unknown.", scheme)
	}
	return productID, nil
}

// maxForeign is the number of different tokens, apart from the request's own, that are looked up for
// its events. Each unknown token may cost a read from storage.
const maxForeign = 16

// fits reports whether an event with a token, "" for none, belongs to the request's product. Unknown
// tokens do not, and neither do tokens beyond maxForeign. The error is a 503.
func (t *taking) fits(token string) (bool, error) {
	if token == "" || token == t.call.Token {
		return true, nil
	}
	ok, known := t.tokens[token]
	if known || len(t.tokens) == maxForeign {
		return ok, nil
	}
	other, _, err := t.in.products.ProductOfToken(token)
	if err != nil {
		return false, httpx.Unavailable(err)
	}
	t.tokens[token] = other == t.productID
	return t.tokens[token], nil
}

// product returns the product with an ID. An unknown ID is a 404.
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

// verify reports whether one of the headers contains the secret, or "sha256=" and the hexadecimal
// HMAC-SHA256 of the body under it. An empty secret never matches. Its time reveals nothing about the
// secret: digests of secrets are compared, since they have the same length.
func verify(secret string, headers []string, body []byte) bool {
	signature, digest := Sign(secret, body), sha256.Sum256([]byte(secret))
	return secret != "" && slices.ContainsFunc(headers, func(header string) bool {
		hexadecimal, isSignature := strings.CutPrefix(header, "sha256=")
		got, err := hex.DecodeString(hexadecimal)
		sum := sha256.Sum256([]byte(header))
		return isSignature && err == nil && hmac.Equal(got, signature) || hmac.Equal(sum[:], digest[:])
	})
}

// Sign returns the HMAC-SHA256 of a webhook's body under a secret. Identities are signed the same way.
func Sign(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}
