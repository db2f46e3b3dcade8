package intake_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/metricstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

const evil = "https://evil.example"

// banks is a view on a page of the bank.
var banks = view(fieldsOf{"token": bankToken})

func TestOrigins_aPageThatIsNotListedIsRefused(t *testing.T) {
	for origin, allowed := range map[string]bool{
		"": true, "https://bank.example": true, "https://www.bank.example": true, "null": true,
		"capacitor://localhost": true,
		evil:                    false, "https://bank.example.evil": false, "http://bank.example": false,
		"ionic://localhost": false, "*": false,
	} {
		t.Run(origin, func(t *testing.T) {
			s := newService(intake.Options{})
			for _, path := range []string{"/events", "/v1"} {
				w := s.send(http.MethodPost, path, banks, "X-Token", bankToken, "Origin", origin)
				if allowed {
					requireCounts(t, w, 1, nil)
					assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"))
					continue
				}
				requireRefusal(t, w)
			}
			assert.Equal(t, allowed, len(s.sink.take(bank)) > 0)
			requireCounts(t, s.capture(view(nil), "Origin", origin), 1, nil) // of a product without a list
		})
	}
}

// requireRefusal asserts an answer that no page can read.
func requireRefusal(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	requireError(t, w, http.StatusForbidden)
	for name := range w.Header() {
		assert.False(t, strings.HasPrefix(name, "Access-Control-"), name)
	}
	assert.Contains(t, w.Header().Values("Vary"), "Origin")
}

// An origin that another server has just listed is allowed after a refresh.
func TestOrigins_listIsRefreshedOnce(t *testing.T) {
	s := newService(intake.Options{})
	s.products.refresh = func() { s.products.products[bank] = intake.Product{AllowedOrigins: []string{evil}} }
	w := s.capture(banks, "Origin", evil)
	requireCounts(t, w, 0, intake.Ignored{"other_event": 1})
	assert.Equal(t, evil, w.Header().Get("Access-Control-Allow-Origin"))
	assert.Equal(t, 1, s.products.calls["Refresh bank"])
}

// passes are tokens, each with an origin that may use it.
var passes = [][2]string{{bankToken, "https://bank.example"}, {bankToken, ""}, {shopToken, evil}, {"unknown", evil},
	{"", evil}}

func TestOrigins_holdForTheTokenInTheURL(t *testing.T) {
	s := newService(intake.Options{})
	get := func(token, origin string) *httptest.ResponseRecorder {
		return s.send(http.MethodGet, "/config?token="+token, "", "Origin", origin)
	}
	requireRefusal(t, get(bankToken, evil))
	for _, ok := range passes {
		assert.Equal(t, http.StatusOK, get(ok[0], ok[1]).Code, ok)
	}
	assert.Equal(t, 2, s.products.calls["ProductOfToken "+bankToken], "for pages only")
	assert.Zero(t, s.products.calls["ProductOfToken "])
}

// Nothing is kept of these bodies, which may be larger than events are, and the answer says nothing of the product.
func TestDiscard_holdsForTheTokenInTheBody(t *testing.T) {
	s := newService(intake.Options{})
	post := func(body, origin string) *httptest.ResponseRecorder {
		return s.send(http.MethodPost, "/discard", body, "Origin", origin)
	}
	large := func(token string) string { return padded(batch(token), intake.DefaultMaxBody+1) }
	var unpacked bytes.Buffer
	zw := musttest.New(gzip.NewWriterLevel(&unpacked, gzip.NoCompression))
	_, err := zw.Write([]byte(large(bankToken)))
	require.NoError(t, errors.Join(err, zw.Close()))
	for _, body := range []string{batch(bankToken), banks, gzipped(banks), large(bankToken), unpacked.String()} {
		requireRefusal(t, post(body, evil))
	}
	for _, ok := range passes {
		assert.Equal(t, http.StatusOK, post(batch(ok[0]), ok[1]).Code, ok)
		assert.Equal(t, http.StatusOK, post(large(ok[0]), ok[1]).Code, ok)
	}
	for _, other := range []string{"", "x", "[", `{"token":1}`, `{"key":"bank-token"`, "\x1f\x8bdamaged", "data=%zz"} {
		assert.Equal(t, http.StatusOK, post(other, evil).Code, other)
	}
	requireError(t, post(strings.Repeat(" ", intake.DefaultMaxDecoded+1), evil), http.StatusRequestEntityTooLarge)
	requireError(t, post(strings.Repeat(" ", intake.DefaultMaxDecoded+1), ""), http.StatusRequestEntityTooLarge)
	assert.Equal(t, map[string]float64{bank: 5}, s.refused(t))
	assert.Empty(t, s.sink.events)
}

// refused returns the number of requests of each product refused for their origin.
func (s *service) refused(t *testing.T) map[string]float64 {
	t.Helper()
	return metricstest.By(t, s.metrics, "liveactivity_refused_origins_total", "product_id")
}

func TestGPC_nothingIsTakenWhereTheProductRespectsIt(t *testing.T) {
	s := newService(intake.Options{})
	for _, path := range []string{"/events", "/v1"} {
		for signal, reasons := range map[string]intake.Ignored{"1": {"gpc": 1}, "0": nil, "": nil} {
			w := s.send(http.MethodPost, path, banks, "X-Token", bankToken, "Sec-GPC", signal)
			requireCounts(t, w, 1-len(reasons), reasons)
		}
	}
	assert.Len(t, s.sink.take(bank), 4)
	assert.Equal(t, 2.0, s.counted(t)["ignored gpc"])
	requireCounts(t, s.capture(view(nil), "Sec-GPC", "1"), 1, nil)
	requireCounts(t, s.webhook(view(nil), "Sec-GPC", "1"), 1, nil)
}

func TestOrigins_refusalsAreCountedAndLoggedOncePerOrigin(t *testing.T) {
	var log bytes.Buffer
	s := newService(intake.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		for _, origin := range []string{evil, "https://marketing.example", "https://" + strings.Repeat("x", 9000)} {
			requireRefusal(t, s.capture(banks, "Origin", origin))
		}
	}
	assert.Equal(t, 1, strings.Count(log.String(), "origin="+evil))
	assert.Equal(t, 3, strings.Count(log.String(), "product_id=bank"))
	assert.Less(t, log.Len(), 2000)
	assert.Equal(t, map[string]float64{bank: 9}, s.refused(t))
	assert.Empty(t, s.counted(t), "nothing was taken in")
}

// Anyone can send any number of origins.
func TestOrigins_refusalsAreRememberedInBoundedMemory(t *testing.T) {
	s := newService(intake.Options{Logger: slog.New(slog.DiscardHandler)})
	long := strings.Repeat("x", 200)
	grown := heaptest.After(func() {
		for i := range 4_000 {
			assert.Equal(t, http.StatusForbidden, s.capture(banks, "Origin", fmt.Sprintf("https://%d.%s", i, long)).Code)
		}
	})
	assert.Less(t, grown, int64(3<<19))
	runtime.KeepAlive(s)
}

// A preflight passes from any origin: the token that decides comes with the request. Other methods do not.
func TestRoute_servesItsMethodAndPreflights(t *testing.T) {
	s := newService(intake.Options{})
	for path, methods := range map[string]string{"/events": "POST", "/config": "GET HEAD", "/nothing": ""} {
		w := s.send(http.MethodOptions, path, "", "Origin", evil, "Access-Control-Request-Headers", "content-type,x-id")
		requireReadable(t, w, http.StatusNoContent, evil)
		assert.Empty(t, w.Body.String())
		assert.Equal(t, "content-type,x-id", w.Header().Get("Access-Control-Allow-Headers"))
		first, _, _ := strings.Cut(cmp.Or(methods, "GET, POST"), " H")
		assert.Equal(t, first+", OPTIONS", w.Header().Get("Access-Control-Allow-Methods"))
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"} {
			w := s.send(method, path, view(nil), "Origin", evil)
			switch {
			case methods == "":
				requireReadable(t, w, http.StatusNotFound, evil)
			case strings.Contains(methods, method):
				requireReadable(t, w, http.StatusOK, evil)
			default:
				requireReadable(t, w, http.StatusMethodNotAllowed, evil)
				assert.Equal(t, first+", OPTIONS", w.Header().Get("Allow"), method+path)
			}
		}
	}
	assert.Equal(t, http.StatusNoContent, s.send(http.MethodOptions, "/events", "").Code)
	requireError(t, s.send(http.MethodOptions, "/nothing", ""), http.StatusNotFound)
}

// requireReadable asserts a status, and that a page of the origin may read the answer.
func requireReadable(t *testing.T, w *httptest.ResponseRecorder, status int, origin string) {
	t.Helper()
	require.Equal(t, status, w.Code)
	assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"))
	assert.Equal(t, origin != "", w.Header().Get("Access-Control-Allow-Credentials") == "true")
	assert.Equal(t, origin != "", w.Header().Get("Access-Control-Expose-Headers") == "Retry-After")
	assert.Contains(t, w.Header().Values("Vary"), "Origin", "also without an origin, or a cache mixes the answers up")
}

// Errors are included, because SDKs decide by the status whether to retry.
func TestRoute_everyAnswerMayBeReadByThePage(t *testing.T) {
	for _, origin := range []string{"https://app.example.com", "null", ""} {
		s := newService(intake.Options{})
		for body, status := range map[string]int{view(nil): 200, "{": 400, "{}": 401, padded("{}", 1<<20+1): 413} {
			requireReadable(t, s.capture(body, "Origin", origin), status, origin)
		}
		requireReadable(t, s.capture(view(nil), "Origin", origin, "Content-Encoding", "br"), 415, origin)
		s.sink.err = errors.New("away")
		w := s.send(http.MethodPost, "/v1", view(nil), "Origin", origin, "X-Token", shopToken)
		requireReadable(t, w, http.StatusServiceUnavailable, origin)
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
	}
}
