package intake_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/intake"
)

func TestToken_isTakenFromTheBodyOrItsFirstEventWithOne(t *testing.T) {
	bare, own := view(fieldsOf{"token": nil}), view(nil)
	of := func(envelope string) string { return `{` + envelope + `,"events":[` + bare + `]}` }
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"the first field":                {of(`"key":"shop-token"`), true},
		"the second field":               {of(`"token":"shop-token"`), true},
		"the first before the second":    {of(`"token":"unknown","key":"shop-token"`), true},
		"another of the product's":       {batch("shop-second", bare), true},
		"the longest":                    {batch(longestToken, bare), true},
		"an event's own":                 {own, true},
		"an event's own in an array":     {"[" + own + "]", true},
		"an event's own in a batch":      {`{"events":[` + own + `]}`, true},
		"empty beside another":           {of(`"key":"","token":"shop-token"`), true},
		"only the second event has one":  {"[" + bare + "," + own + "]", true},
		"none":                           {bare, false},
		"none in a batch":                {batch("", bare), false},
		"an empty array":                 {"[]", false},
		"an empty object":                {"{}", false},
		"unknown":                        {batch("unknown", bare), false},
		"unknown, though an event's own": {batch("unknown", own), false},
		"begins like the longest":        {batch(longestToken+"x", bare), false},
		"a number":                       {of(`"key":5`), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			w := s.capture(c.body)
			if c.ok {
				assert.Equal(t, http.StatusOK, w.Code)
				assert.NotEmpty(t, s.sink.take(shop))
				return
			}
			assert.Equal(t, "The capture token is missing or unknown.", requireError(t, w, http.StatusUnauthorized))
			assert.Empty(t, w.Header().Get("WWW-Authenticate"), "a browser would ask for a password")
			assert.Empty(t, s.sink.events)
		})
	}
}

// The token of a call is not sought in the body, which is not even read without it.
func TestToken_ofAHeaderIsCheckedBeforeTheBody(t *testing.T) {
	s := newService(intake.Options{})
	post := func(body, token string) func(status int) string {
		w := s.send(http.MethodPost, "/v1", body, "X-Token", token)
		return func(status int) string {
			assert.Equal(t, status == http.StatusUnauthorized, w.Header().Get("WWW-Authenticate") == "Bearer")
			return requireError(t, w, status)
		}
	}
	for _, token := range []string{"", "unknown"} {
		post(batch(shopToken, view(nil)), token)(http.StatusUnauthorized)
		post("{", token)(http.StatusUnauthorized)
	}
	w := s.capture("{", "X-Token", "unknown") // of a source without a scheme
	requireError(t, w, http.StatusUnauthorized)
	assert.Empty(t, w.Header().Get("WWW-Authenticate"))
	post("{", shopToken)(http.StatusBadRequest)
	s.products.fails["ProductOfToken"] = errors.New("dial")
	post("{", shopToken)(http.StatusServiceUnavailable)
	delete(s.products.fails, "ProductOfToken")
	requireCounts(t, s.send(http.MethodPost, "/v1", batch("unknown", view(nil)), "X-Token", "shop-second"), 1, nil)
	delete(s.products.products, shop)
	assert.Equal(t, "Unknown product.", post("{}", shopToken)(http.StatusNotFound))
}

// An event with another product's token is ignored and reaches neither product.
func TestToken_productsNeverMix(t *testing.T) {
	with := func(id string, token any) string { return view(fieldsOf{"id": id, "token": token}) }
	for name, c := range map[string]struct {
		body       string
		shop, bank []string // the IDs
		other      int
	}{
		"a batch of the shop with an event of the bank": {batch(shopToken, with("1", nil), with("2", bankToken),
			with("3", shopToken)), []string{"1", "3"}, nil, 1},
		"a batch of the bank with an event of the shop": {batch(bankToken, with("1", shopToken), with("2", nil)),
			nil, []string{"2"}, 1},
		"an array, by the first event": {"[" + with("1", bankToken) + "," + with("2", shopToken) + "," +
			with("3", bankToken) + "]", nil, []string{"1", "3"}, 1},
		"an event with an unknown token":    {batch(shopToken, with("1", "unknown"), with("2", nil)), []string{"2"}, nil, 1},
		"another token of the same product": {batch(shopToken, with("1", "shop-second")), []string{"1"}, nil, 0},
		"every event of another product":    {batch(shopToken, with("1", bankToken), with("2", bankToken)), nil, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			var reasons intake.Ignored
			if c.other > 0 {
				reasons = intake.Ignored{"other_token": c.other}
			}
			requireCounts(t, s.capture(c.body), len(c.shop)+len(c.bank), reasons)
			assert.Equal(t, c.shop, s.sink.ids(shop))
			assert.Equal(t, c.bank, s.sink.ids(bank))
		})
	}
}

// Each token is looked up once, and at most sixteen besides the request's own. One looked up before keeps its product.
func TestToken_lookupsAreBounded(t *testing.T) {
	s := newService(intake.Options{})
	var events []string
	for i := range 500 {
		unknown := view(fieldsOf{"token": fmt.Sprint("unknown-", i)})
		events = append(events, unknown, unknown, view(nil), view(fieldsOf{"token": "shop-second"}))
	}
	body := `{"events":[` + strings.Join(events, ",") + `],"key":"` + shopToken + `"}`
	requireCounts(t, s.capture(body), 1000, intake.Ignored{"other_token": 1000})
	asked := 0
	for call, times := range s.products.calls {
		if strings.HasPrefix(call, "ProductOfToken ") {
			asked++
			assert.Equal(t, 1, times, call)
		}
	}
	assert.Equal(t, 1+16, asked)
	assert.Equal(t, 1, s.products.calls["ProductOfToken shop-second"])
}

// A request whose lookups fail may be repeated. Nothing of it has been recorded.
func TestStorageErrors_are503(t *testing.T) {
	page := []string{"Origin", "https://evil.example"}
	for name, c := range map[string]struct {
		fails string // a method, perhaps with its argument
		post  func(s *service) (status int)
	}{
		"a webhook's product": {"ProductOfID", func(s *service) int { return s.webhook(view(nil)).Code }},
		"an event's product":  {"ProductOfID", func(s *service) int { return s.capture(view(nil)).Code }},
		"a page's product":    {"ProductOfID", func(s *service) int { return s.capture(view(nil), page...).Code }},
		"a token":             {"ProductOfToken", func(s *service) int { return s.capture(view(nil)).Code }},
		"an event's token": {"ProductOfToken other", func(s *service) int {
			return s.capture(batch(shopToken, view(nil), view(fieldsOf{"token": "other"}), view(nil))).Code
		}},
		"a URL's token": {"ProductOfToken", func(s *service) int {
			return s.send(http.MethodGet, "/config?token=x", "", page...).Code
		}},
		"a new secret": {"Refresh", func(s *service) int { return s.webhook(view(nil), "X-Webhook-Secret", "x").Code }},
		"a new list of origins": {"Refresh", func(s *service) int {
			return s.capture(view(fieldsOf{"token": bankToken}), page...).Code
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(intake.Options{})
			s.products.fails[c.fails] = errors.New("dial tcp 10.0.0.7: " + shopSecret)
			assert.Equal(t, http.StatusServiceUnavailable, c.post(s))
			assert.Empty(t, s.sink.events)
			assert.Empty(t, s.counted(t))
		})
	}
}

func signature(secret, body string) string {
	return "sha256=" + hex.EncodeToString(intake.Sign(secret, []byte(body)))
}

func TestSign_isHMACSHA256(t *testing.T) { // RFC 4231, test case 2
	assert.Equal(t, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		signature("Jefe", "what do ya want for nothing?"))
}
