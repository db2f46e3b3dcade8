package intake

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

const signing = "signing-secret"

func hashOf(secret, text string) string { return hex.EncodeToString(Sign(secret, []byte(text))) }

// tokenOf signs a header and claims.
func tokenOf(secret, header, claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return signedToken(secret, part([]byte(header))+"."+part([]byte(claims)))
}

// signedToken signs the parts of a token.
func signedToken(secret, parts string) string {
	return parts + "." + base64.RawURLEncoding.EncodeToString(Sign(secret, []byte(parts)))
}

const hs256 = `{"alg":"HS256","typ":"JWT"}`

// vouched returns an event of a user with an address, after a check of the proof.
func vouched(now time.Time, proof Proof) activity.Event {
	v := voucher{secrets: []string{"another", "", signing}, now: now}
	e := activity.Event{UserID: "ada", Email: "Ada@x.example"}
	v.vouch(&e, proof)
	return e
}

func TestVouch_hashes(t *testing.T) {
	for name, c := range map[string]struct {
		proof       Proof
		user, email activity.Standing
	}{
		"nothing":                 {},
		"the user's":              {Proof{UserHash: hashOf(signing, "ada")}, activity.Signed, 0},
		"in upper case":           {Proof{UserHash: strings.ToUpper(hashOf("another", "ada"))}, activity.Signed, 0},
		"the address's":           {Proof{EmailHash: hashOf(signing, "ada@x.example")}, 0, activity.Signed},
		"of the address as it is": {Proof{EmailHash: hashOf(signing, "Ada@x.example")}, 0, 0},
		"another user's": {Proof{UserHash: hashOf(signing, "eve"), EmailHash: hashOf(signing, "eve@x.example")},
			0, 0},
		"an unknown secret":            {Proof{UserHash: hashOf("unknown", "ada")}, 0, 0},
		"an empty secret":              {Proof{UserHash: hashOf("", "ada")}, 0, 0},
		"cut":                          {Proof{UserHash: hashOf(signing, "ada")[:62]}, 0, 0},
		"no hexadecimal":               {Proof{UserHash: "x" + hashOf(signing, "ada")}, 0, 0},
		"with a digit too many":        {Proof{UserHash: hashOf(signing, "ada") + "a"}, 0, 0},
		"the user's for the address":   {Proof{EmailHash: hashOf(signing, "ada")}, 0, 0},
		"the address's for the user's": {Proof{UserHash: hashOf(signing, "ada@x.example")}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := vouched(time.Now(), c.proof)
			assert.Equal(t, []any{c.user, c.email, c.user == activity.Signed}, []any{e.Standing, e.EmailStanding, e.Identified})
		})
	}
	e := activity.Event{UserID: "ada"}
	(&voucher{secrets: []string{signing}}).vouch(&e, Proof{EmailHash: hashOf(signing, "")})
	assert.Equal(t, activity.Claimed, e.EmailStanding, "no address is signed")
	none := voucher{least: activity.Reported}
	none.vouch(&e, Proof{UserHash: hashOf("", "ada"), Token: tokenOf("", hs256, `{"sub":"ada","exp":99999999999}`)})
	assert.Equal(t, activity.Reported, e.Standing, "nothing is signed without secrets")
}

func TestVouch_tokens(t *testing.T) {
	now := time.Now()
	claims := func(after time.Duration, more string) string {
		return fmt.Sprintf(`{"sub":"ada","exp":%d%s}`, now.Add(after).Unix(), more)
	}
	nbf := func(after time.Duration) string { return fmt.Sprintf(`,"nbf":%d`, now.Add(after).Unix()) }
	good := claims(time.Hour, "")
	unsigned := strings.TrimRight(tokenOf(signing, `{"alg":"none"}`, good),
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"good":           {tokenOf(signing, hs256, good), true},
		"another secret": {tokenOf("another", hs256, good), true},
		"nearly a day":   {tokenOf(signing, hs256, claims(24*time.Hour-time.Second, "")), true},
		"a fraction":     {tokenOf(signing, hs256, fmt.Sprintf(`{"sub":"ada","exp":%d.5}`, now.Add(time.Hour).Unix())), true},
		"too far ahead":  {tokenOf(signing, hs256, claims(24*time.Hour+2*time.Second, "")), false},
		"expired":        {tokenOf(signing, hs256, claims(-time.Second, "")), false},
		"begun":          {tokenOf(signing, hs256, claims(time.Hour, nbf(0))), true},
		"not begun":      {tokenOf(signing, hs256, claims(time.Hour, nbf(time.Minute))), false},
		"nbf a string":   {tokenOf(signing, hs256, claims(time.Hour, `,"nbf":"1"`)), false},
		"without exp":    {tokenOf(signing, hs256, `{"sub":"ada"}`), false},
		"exp null":       {tokenOf(signing, hs256, `{"sub":"ada","exp":null}`), false},
		"exp a string": {tokenOf(signing, hs256, fmt.Sprintf(`{"sub":"ada","exp":"%d"}`, now.Add(time.Hour).Unix())),
			false},
		"another's":           {tokenOf(signing, hs256, strings.Replace(good, "ada", "eve", 1)), false},
		"without sub":         {tokenOf(signing, hs256, strings.Replace(good, "sub", "bus", 1)), false},
		"alg none":            {tokenOf(signing, `{"alg":"none"}`, good), false},
		"alg none, unsigned":  {unsigned, false},
		"RS256":               {tokenOf(signing, `{"alg":"RS256"}`, good), false},
		"HS512":               {tokenOf(signing, `{"alg":"HS512"}`, good), false},
		"no alg":              {tokenOf(signing, `{}`, good), false},
		"critical extensions": {tokenOf(signing, `{"alg":"HS256","crit":["b64"],"b64":false}`, good), false},
		"an unknown secret":   {tokenOf("unknown", hs256, good), false},
		"no signature":        {tokenOf(signing, hs256, good)[:len(tokenOf(signing, hs256, good))-43], false},
		"one part":            {hs256, false},
		"four parts":          {"x." + tokenOf(signing, hs256, good), false},
		"claims changed":      {strings.Replace(tokenOf(signing, hs256, good), ".", ".e", 1), false},
		"empty parts":         {"..", false},
		"damaged claims": {signedToken(signing, base64.RawURLEncoding.EncodeToString([]byte(hs256))+"."+
			base64.RawURLEncoding.EncodeToString([]byte(good+strings.Repeat(" ", 3-len(good)%3)))+"!"), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := vouched(now, Proof{Token: c.token})
			assert.Equal(t, c.want, e.Standing == activity.Signed)
			assert.Equal(t, activity.Claimed, e.EmailStanding, "the token signs no address")
		})
	}
	for stated, want := range map[string][]any{"signed@x.example": {"signed@x.example", activity.Signed},
		"nonsense": {"Ada@x.example", activity.Claimed}} {
		e := vouched(now, Proof{Token: tokenOf(signing, hs256, claims(time.Hour, `,"email":"`+stated+`"`))})
		assert.Equal(t, want, []any{e.Email, e.EmailStanding}, stated)
	}
}

// Only a token that the secret signed makes an identity signed. No token causes a panic.
func FuzzVerifyToken(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	good := tokenOf(signing, hs256, `{"sub":"ada","exp":1800003600,"email":"a@x.example"}`)
	for _, token := range []string{good, "", "..", "a.b.c", good + "=", strings.ToLower(good),
		tokenOf(signing, `{"alg":"none"}`, `{}`)} {
		f.Add(token)
	}
	v := voucher{secrets: []string{signing}, now: now}
	f.Fuzz(func(t *testing.T, token string) {
		email, ok := v.verifyToken(token, "ada")
		if ok {
			signed := good[:strings.LastIndexByte(good, '.')+1]
			require.True(t, strings.HasPrefix(token, signed), "only the secret's owner can make another")
			require.NotContains(t, token[len(signed):], ".")
		}
		require.True(t, ok || email == "")
	})
}

// Most events have no proof, and cost no signature.
func TestVouch_costsNothingWithoutAProof(t *testing.T) {
	v := voucher{secrets: []string{"one", "two"}}
	e := activity.Event{UserID: "ada", Email: "ada@x.example"}
	assert.Zero(t, testing.AllocsPerRun(10, func() { v.vouch(&e, Proof{}) }))
}
