package intake_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const wrongSecret = "The header X-Webhook-Secret or X-PostHog-Secret is missing or wrong."

func TestWebhook_secret(t *testing.T) {
	body := view(nil)
	signed := signature(shopSecret, body)
	digits := strings.TrimPrefix(signed, "sha256=")
	for name, c := range map[string]struct {
		product, header string
		status          int
	}{
		"the secret itself":    {shop, shopSecret, 200},
		"signed":               {shop, signed, 200},
		"signed in upper case": {shop, "sha256=" + strings.ToUpper(digits), 200},

		"no header":                       {shop, "", 401},
		"wrong":                           {shop, "wrong", 401},
		"a prefix":                        {shop, shopSecret[:len(shopSecret)-1], 401},
		"with more behind it":             {shop, shopSecret + "x", 401},
		"in other letter case":            {shop, strings.ToUpper(shopSecret), 401},
		"of another product":              {shop, bankSecret, 401},
		"signed with another product's":   {shop, signature(bankSecret, body), 401},
		"signed with the empty secret":    {shop, signature("", body), 401},
		"signed for another body":         {shop, signature(shopSecret, body+" "), 401},
		"signature without its prefix":    {shop, digits, 401},
		"signature cut short":             {shop, signed[:len(signed)-2], 401},
		"signature with an odd digit":     {shop, signed[:len(signed)-1], 401},
		"signature with a digit too many": {shop, signed + "a", 401},
		"empty signature":                 {shop, "sha256=", 401},

		"without a secret: no header":           {closed, "", 401},
		"without a secret: any header":          {closed, "anything", 401},
		"without a secret: signed with nothing": {closed, signature("", body), 401},
		"without a secret: an empty signature":  {closed, "sha256=", 401},

		"unknown product":            {"nowhere", shopSecret, 404},
		"unknown product: no header": {"nowhere", "", 404},
	} {
		for _, in := range []string{"X-Webhook-Secret", "X-PostHog-Secret"} {
			t.Run(name+"/"+in, func(t *testing.T) {
				s := newService(intake.Options{})
				w := s.send(http.MethodPost, "/webhook/"+c.product, body, in, c.header)
				if c.status == http.StatusOK {
					requireCounts(t, w, 1, nil)
					assert.Equal(t, []string{"1"}, s.sink.ids(shop))
					return
				}
				want := map[int]string{401: wrongSecret, 404: "Unknown product."}[c.status]
				assert.Equal(t, want, requireError(t, w, c.status), "a 401 never says which part was wrong")
				assert.Empty(t, w.Header().Get("WWW-Authenticate"))
				assert.Empty(t, s.sink.events)
			})
		}
	}
}

// One right proof among wrong ones is enough, and the body alone sets the cost of a request.
func TestWebhook_manyProofsCostNoMoreThanOne(t *testing.T) {
	s := newService(intake.Options{})
	body := strings.Repeat(" ", 1<<20)
	cost := func(proofs int) time.Duration {
		least := time.Hour
		for range 3 {
			began := time.Now()
			w := s.webhook(body, slices.Repeat([]string{"X-Webhook-Secret", "sha256="}, proofs)...)
			least = min(least, time.Since(began))
			requireError(t, w, http.StatusUnauthorized)
		}
		return least
	}
	waittest.Until(t, "the body is signed once", func() bool { return cost(1000) < 20*cost(1) })
	requireCounts(t, s.webhook(view(nil), "X-Webhook-Secret", "x", "X-PostHog-Secret", "", "X-Webhook-Secret", shopSecret),
		1, nil)
}

// The signature covers the compressed body as it was sent, not its decompressed content.
func TestWebhook_signatureIsOfTheBodyAsSent(t *testing.T) {
	s := newService(intake.Options{})
	sent := gzipped(view(nil))
	requireCounts(t, s.webhook(sent, "X-Webhook-Secret", signature(shopSecret, sent)), 1, nil)
	requireError(t, s.webhook(sent, "X-Webhook-Secret", signature(shopSecret, view(nil))), http.StatusUnauthorized)
}

// segments is Segment's signature of an event.
func segments(secret, event string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(event))
	return hex.EncodeToString(mac.Sum(nil))
}

// X-Signature vouches for one event: the first of an array, or the whole body that is no array.
func TestWebhook_signatureOfTheFirstEvent(t *testing.T) {
	first, second := view(fieldsOf{"id": "1"}), view(fieldsOf{"id": "2"})
	unsigned := intake.Ignored{"unsigned": 1}
	for name, c := range map[string]struct {
		product, signature, body string
		accepted                 int // none where it is refused
		ignored                  intake.Ignored
	}{
		"an event":                {shop, segments(shopSecret, first), first, 1, nil},
		"with white space":        {shop, segments(shopSecret, first+"\n"), first + "\n", 1, nil},
		"without the white space": {shop, segments(shopSecret, first), first + "\n", 1, nil},
		"in upper case":           {shop, strings.ToUpper(segments(shopSecret, first)), first, 1, nil},
		"an array's first":        {shop, segments(shopSecret, first), "[ " + first + "," + second + "]", 1, unsigned},
		"a packed array's first":  {shop, segments(shopSecret, first), gzipped("[" + first + ",7]"), 1, unsigned},
		"a whole batch, by its bytes": {shop, segments(shopSecret, `{"events":[`+first+`,`+second+`]}`),
			`{"events":[` + first + `,` + second + `]}`, 1, unsigned},
		"an array as a whole":       {shop, segments(shopSecret, "["+first+"]"), "[" + first + "]", 0, nil},
		"the second":                {shop, segments(shopSecret, second), "[" + first + "," + second + "]", 0, nil},
		"by another secret":         {shop, segments(bankSecret, first), first, 0, nil},
		"by nothing":                {shop, segments("", first), first, 0, nil},
		"of another kind":           {shop, "zz", first, 0, nil},
		"with an odd digit":         {shop, segments(shopSecret, first) + "a", first, 0, nil},
		"an empty array":            {shop, segments(shopSecret, ""), "[]", 0, nil},
		"an empty body":             {shop, segments(shopSecret, ""), "", 0, nil},
		"without a secret":          {closed, segments("", first), first, 0, nil},
		"of what is behind a batch": {shop, segments(shopSecret, first), `{"events":[],` + first[1:], 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			w := s.send(http.MethodPost, "/webhook/"+c.product, c.body, "X-Signature", c.signature)
			if c.accepted == 0 {
				assert.Equal(t, wrongSecret, requireError(t, w, http.StatusUnauthorized))
				assert.Empty(t, s.sink.events)
				return
			}
			requireCounts(t, w, c.accepted, c.ignored)
			assert.Equal(t, []string{"1"}, s.sink.ids(c.product))
		})
	}
	s := newService(intake.Options{}) // the stronger proof counts
	requireCounts(t, s.webhook("["+first+","+second+"]", "X-Signature", segments(shopSecret, first)), 2, nil)
}

// A signed body is still judged, and its mistake is no wrong secret.
func TestWebhook_tellsWhatIsWrongWithASignedBody(t *testing.T) {
	s := newService(intake.Options{})
	post := func(body string) string {
		return requireError(t, s.send(http.MethodPost, "/webhook/shop", body, "X-Signature", segments(shopSecret, body)), 400)
	}
	assert.Contains(t, post("{"), "breaks off")
	assert.Contains(t, post("hello, world!"), "neither")
}

// A caller without the secret learns nothing about the body.
func TestWebhook_bodyIsNotJudgedBeforeTheSecret(t *testing.T) {
	s := newService(intake.Options{})
	s.outlined = func(map[string]string) { t.Error("the body was unpacked") }
	for _, body := range []string{"", "{", "\x1f\x8b", "[]", view(nil)} {
		for _, encoding := range []string{"", "br"} {
			for _, proof := range []string{"", "wrong"} {
				w := s.webhook(body, "X-Webhook-Secret", proof, "Content-Encoding", encoding)
				assert.Equal(t, wrongSecret, requireError(t, w, http.StatusUnauthorized), "%s %s", body, proof)
			}
		}
	}
	s.outlined = nil
	for _, body := range []string{"", "{", "\x1f\x8b"} { // unless an event in it may be signed
		w := s.send(http.MethodPost, "/webhook/shop", body, "X-Signature", "aa")
		assert.Equal(t, wrongSecret, requireError(t, w, http.StatusUnauthorized))
	}
	large := strings.Repeat(" ", intake.DefaultMaxBody+1)
	requireError(t, s.send(http.MethodPost, "/webhook/shop", large), http.StatusUnauthorized)
	requireError(t, s.webhook(large), http.StatusRequestEntityTooLarge)
}

// A secret or a product that another server has just made is valid after a refresh, and one that it removed is not.
func TestWebhook_secretIsRefreshedOnce(t *testing.T) {
	s := newService(intake.Options{})
	change := func(secret string) {
		p := s.products.products[shop]
		p.WebhookSecret = secret
		s.products.products[shop] = p
	}
	s.products.refresh = func() { change("new") }
	requireCounts(t, s.webhook(view(nil), "X-Webhook-Secret", "new"), 1, nil)
	requireError(t, s.webhook(view(nil)), http.StatusUnauthorized)
	assert.Equal(t, 2, s.products.calls["Refresh shop"])
	s.products.refresh = func() { delete(s.products.products, shop) }
	requireError(t, s.webhook(view(nil)), http.StatusNotFound)
}

// A token in the body changes nothing.
func TestWebhook_takesTheProductFromThePath(t *testing.T) {
	s := newService(intake.Options{})
	requireCounts(t, s.webhook(batch(bankToken, view(fieldsOf{"token": bankToken}))), 1, nil)
	assert.Equal(t, []string{"1"}, s.sink.ids(shop))
	assert.Empty(t, s.sink.ids(bank))
	for call := range s.products.calls {
		assert.NotContains(t, call, "ProductOfToken")
	}
}

// The first source that recognizes the first event decodes all of them, or else the last one.
func TestWebhook_sourceFollowsFromTheFirstEvent(t *testing.T) {
	s := newService(intake.Options{})
	special := view(fieldsOf{"special": "x", "id": "2"})
	for body, want := range map[string][]string{
		view(nil):                             {"1"},
		special:                               {"special 2"},
		batch("", special, view(nil)):         {"special 2", "special 1"},
		batch("", view(nil), special):         {"1", "2"},
		view(fieldsOf{"special": 5}):          {"1"},
		"[7," + special + "," + special + "]": {"2", "2"},
	} {
		w := s.webhook(body)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, w.Body.String(), `"status":"ok"`)
		assert.Equal(t, want, s.sink.ids(shop), body)
	}
}

// A source sees at most 64 fields of an event, and 64 bytes of each text.
func TestWebhook_sourceRecognizesAnOutline(t *testing.T) {
	var seen map[string]string
	s := newService(intake.Options{})
	s.outlined = func(fields map[string]string) { seen = fields }
	var event strings.Builder
	for i := range 65 {
		fmt.Fprintf(&event, `,"%d":"%s"`, i, strings.Repeat("x", 65))
	}
	s.webhook(`{"number":5` + event.String() + `}`)
	assert.Len(t, seen, 64)
	assert.Equal(t, strings.Repeat("x", 64), seen["0"])
	assert.Contains(t, seen, "number")
	assert.Empty(t, seen["number"])
	assert.NotContains(t, seen, "64")
}

func TestWebhook_ownSourceIsNamedByThePath(t *testing.T) {
	s := newService(intake.Options{})
	post := func(path string, proof string) (int, []string) {
		w := s.send(http.MethodPost, path, view(fieldsOf{"special": "x"}), "X-Webhook-Secret", proof)
		return w.Code, s.sink.ids(shop)
	}
	status, ids := post("/webhook/shop/own", shopSecret)
	assert.Equal(t, 200, status)
	assert.Equal(t, []string{"own 1"}, ids)
	for path, want := range map[string]int{"/webhook/shop/other": 404, "/webhook/closed/own": 404, "/webhook/x/own": 404} {
		status, ids = post(path, shopSecret)
		assert.Equal(t, want, status, path)
		assert.Empty(t, ids)
	}
	status, _ = post("/webhook/shop/own", "x")
	assert.Equal(t, 401, status)
	status, _ = post("/misplaced", shopSecret)
	assert.Equal(t, 500, status, "its pattern has no product_id")
}

// Vendors' servers call the webhook, and pages do not.
func TestWebhook_isNotForPages(t *testing.T) {
	s := newService(intake.Options{})
	w := s.send(http.MethodPost, "/webhook/bank", view(nil), "X-Webhook-Secret", bankSecret,
		"Origin", "https://evil.example", "Sec-GPC", "1")
	requireCounts(t, w, 1, nil)
	assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
}
