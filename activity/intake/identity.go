package intake

import (
	"cmp"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// Proof is an event's evidence of an identity. It must not be stored, logged or shown, since its
// bearer can impersonate the user.
type Proof struct {
	// UserHash is the hexadecimal HMAC-SHA256 of the user ID; EmailHash signs the email address in lower
	// case in the same way.
	UserHash  string `in:"$user_hash|user_hash,proof"`
	EmailHash string `in:"$email_hash|email_hash,proof"`
	// Token is a JWT, HS256: sub is the user ID; exp is required; nbf and email are optional.
	Token string `in:"$identity_token,proof"`
}

// maxProof is the largest number of bytes that are read of each field of a proof.
const maxProof = 4 << 10

// Traits are the properties of a person that matter here.
type Traits struct {
	Email string `in:"email"`
	Proof
}

// Or returns the proof with its empty fields filled in from another.
func (p Proof) Or(other Proof) Proof {
	return Proof{cmp.Or(p.UserHash, other.UserHash), cmp.Or(p.EmailHash, other.EmailHash), cmp.Or(p.Token, other.Token)}
}

// voucher determines the standings of the identities in a request's events.
type voucher struct {
	least   activity.Standing // Reported if the request proved a secret, else Claimed
	secrets []string          // of the product
	now     time.Time         // when the request arrived
}

// vouch sets the standings of an event. A signed user ID is identified, and the address in its token
// replaces any other. An invalid proof is not an error: it counts as none.
func (v *voucher) vouch(e *activity.Event, proof Proof) {
	e.Standing, e.EmailStanding = v.least, v.least
	if len(v.secrets) == 0 || proof == (Proof{}) {
		return
	}
	email, ok := v.verify(proof, e.UserID)
	if ok {
		e.Standing, e.Identified = activity.Signed, true
	}
	if email = strings.TrimSpace(email); IsEmail(email) {
		e.Email, e.EmailStanding = email, activity.Signed
	}
	if e.Email != "" && v.signed(proof.EmailHash, strings.ToLower(e.Email)) {
		e.EmailStanding = activity.Signed
	}
}

// Signs reports whether the proof signs a user ID under one of the secrets at the time now. Nothing
// signs an empty ID.
func (p Proof) Signs(userID string, secrets []string, now time.Time) bool {
	v := voucher{secrets: secrets, now: now}
	_, ok := v.verify(p, userID)
	return ok
}

// verify reports whether the proof signs the user ID, and returns the address in its token, which may
// be empty.
func (v *voucher) verify(p Proof, userID string) (email string, ok bool) {
	if userID == "" {
		return "", false
	}
	email, ok = v.verifyToken(p.Token, userID)
	return email, ok || v.signed(p.UserHash, userID)
}

// signed reports whether the hexadecimal hash signs the text under one of the secrets. Its time is
// the same for all hashes of the right length. Empty hashes and empty secrets never match.
func (v *voucher) signed(hash, text string) bool {
	got, err := hex.DecodeString(hash)
	return err == nil && v.hasSum(got, text)
}

// hasSum reports whether sum is the HMAC-SHA256 of the text under one of the secrets.
func (v *voucher) hasSum(sum []byte, text string) bool {
	return slices.ContainsFunc(v.secrets, func(secret string) bool {
		return secret != "" && hmac.Equal(sum, Sign(secret, []byte(text)))
	})
}

// maxExpiry is the longest remaining lifetime of a token: a leaked token is usable for a day at most.
const maxExpiry = 24 * time.Hour

// verifyToken reports whether a token signs the user ID, and returns the address in it, which may be
// empty. The algorithm is fixed and does not depend on the token's header (RFC 8725, section 3.1).
// The token must be valid at the arrival of the request, not at its decoding.
func (v *voucher) verifyToken(token, userID string) (email string, ok bool) {
	dot := max(0, strings.LastIndexByte(token, '.'))
	signed := token[:dot]
	header, payload, _ := strings.Cut(signed, ".")
	sum, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token[dot:], "."))
	var head struct {
		Alg  string          `json:"alg"`
		Crit json.RawMessage `json:"crit"` // extensions that must be understood; none is
	}
	if err != nil || !decodePart(header, &head) || head.Alg != "HS256" || head.Crit != nil || !v.hasSum(sum, signed) {
		return "", false
	}
	var claims struct {
		Subject string   `json:"sub"`
		Expires *float64 `json:"exp"` // seconds since the epoch
		Begins  float64  `json:"nbf"` // likewise; zero for none
		Email   string   `json:"email"`
	}
	if !decodePart(payload, &claims) || claims.Subject != userID || claims.Expires == nil {
		return "", false
	}
	now := activity.Seconds(v.now)
	if left := *claims.Expires - now; left <= 0 || left > maxExpiry.Seconds() || claims.Begins > now {
		return "", false
	}
	return claims.Email, true
}

// decodePart decodes a part of a token, JSON in base64url, into a pointer.
func decodePart(part string, into any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(raw, into) == nil
}

// maxEmail is the limit of 256 for a path, less its angle brackets (RFC 5321, section 4.5.3.1.3).
const maxEmail = 254

// IsEmail reports whether s could be an email address, without surrounding white space.
func IsEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	return at > 0 && at < len(s)-1 && len(s) <= maxEmail && !strings.ContainsFunc(s, isBlank)
}

func isBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError
}
