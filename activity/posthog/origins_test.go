package posthog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// bankClick is a click on a page of the bank.
func bankClick(t testing.TB) []byte { return marshal(t, click(object{"properties.token": bankToken})) }

func TestOrigins_aPageThatIsNotListedIsRefused(t *testing.T) {
	for origin, allowed := range map[string]bool{
		"": true, bankOrigin: true, "https://www.bank.example": true, "null": true, "capacitor://localhost": true,
		"https://evil.example": false, "https://bank.example.evil": false, "http://bank.example": false,
		"ionic://localhost": false, "*": false,
	} {
		t.Run(origin, func(t *testing.T) {
			s := newService(intake.Options{})
			body := marshal(t, object{"batch": []object{click(object{"properties.token": bankToken})}})
			for _, path := range []string{"/e/", "/ingest/batch/", "/i/v0/e", v1Door.path} { // v1 has no token in its body
				w := s.post(door{path: path}, body, "Origin", origin, "Authorization", "Bearer "+bankToken)
				if allowed {
					requireCounts(t, w, 1, 0)
					assert.Equal(t, origin, w.Header().Get("Access-Control-Allow-Origin"))
					continue
				}
				requireRefusal(t, w)
			}
			assert.Equal(t, allowed, len(s.sink.take(bank)) > 0)
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

// passes are tokens, each with an origin that may use it.
var passes = [][2]string{{bankToken, bankOrigin}, {bankToken, ""}, {shopToken, "https://evil.example"},
	{"phc_unknown", "https://evil.example"}}

// Where the URL names the token, pages of other origins do not read the product's answers either.
func TestOrigins_holdForTheTokenInTheURL(t *testing.T) {
	s := newService(intake.Options{})
	for _, path := range []string{"/array/%s/config", "/array/%s/config.js", "/ingest/array/%s/config",
		"/api/surveys/?token=%s",
		"/api/early_access_features/?token=%s", "/flags/definitions?token=%s",
		"/api/feature_flag/local_evaluation/?token=%s&x"} {
		requireRefusal(t, s.call("GET", fmt.Sprintf(path, bankToken), "Origin", "https://evil.example"))
		for _, ok := range passes {
			assert.Equal(t, http.StatusOK, s.call("GET", fmt.Sprintf(path, ok[0]), "Origin", ok[1]).Code)
		}
	}
}

// The answer says nothing of the product. A page that is refused elsewhere finds out at its first
// request.
func TestOrigins_holdForTheTokenInTheBody(t *testing.T) {
	s := newService(intake.Options{})
	body := func(token string) []byte { return marshal(t, object{"token": token, "distinct_id": "ada"}) }
	recording := func(token string) []byte {
		return gzipped(marshal(t, []any{object{"event": "$snapshot", "properties": object{"token": token}}}))
	}
	for _, path := range []string{"/flags/?v=2", "/decide/?v=3", "/s/", "/ingest/s", "/ingest/flags"} {
		for _, encode := range []func(string) []byte{body, recording} {
			requireRefusal(t, s.post(door{path: path}, encode(bankToken), "Origin", "https://evil.example"))
			for _, ok := range passes {
				assert.Equal(t, http.StatusOK, s.post(door{path: path}, encode(ok[0]), "Origin", ok[1]).Code)
			}
		}
		for _, other := range []string{"", "x", "[", `{"token":1}`, "\x1f\x8bdamaged", "data=%zz"} {
			assert.Equal(t, http.StatusOK, s.post(door{path: path}, []byte(other), "Origin", "https://evil.example").Code, other)
		}
	}
	large := bytes.Repeat([]byte(" "), intake.DefaultMaxBody+1)
	assert.Equal(t, http.StatusOK, s.post(door{path: "/s/"}, large, "Origin", "https://evil.example").Code)
	requireError(t, s.post(door{path: "/flags/"}, large, "Origin", "https://evil.example"),
		http.StatusRequestEntityTooLarge)
}

// A recording may be larger than the limit of a body of events, and a proxy may remove its length.
func TestOrigins_holdForTheTokenOfALargeRecording(t *testing.T) {
	s := newService(intake.Options{})
	plain := marshal(t, []any{object{"event": "$snapshot",
		"properties": object{"$snapshot_data": strings.Repeat("x", intake.DefaultMaxBody), "token": bankToken}}})
	var packed bytes.Buffer
	zw := musttest.New(gzip.NewWriterLevel(&packed, gzip.NoCompression))
	_, err := zw.Write(plain)
	require.NoError(t, errors.Join(err, zw.Close()))
	for name, body := range map[string][]byte{"plain": plain, "packed": packed.Bytes()} {
		require.Greater(t, len(body), intake.DefaultMaxBody, name)
		requireRefusal(t, s.post(door{path: "/s/"}, body, "Origin", "https://evil.example"))
		requireRefusal(t, s.send(http.MethodPost, door{path: "/s/"}, iotest.HalfReader(bytes.NewReader(body)), "Origin",
			"https://evil.example"))
		requireOK(t, s.post(door{path: "/s/"}, body, "Origin", bankOrigin))
	}
	assert.Equal(t, map[string]float64{bank: 4}, s.refused(t))
}

func TestGPC_nothingIsTakenWhereTheProductRespectsIt(t *testing.T) {
	s := newService(intake.Options{})
	v1 := door{path: "/i/v1/analytics/events", header: http.Header{"Authorization": {"Bearer " + bankToken}}}
	for _, d := range []door{{path: "/e/"}, {path: "/batch"}, v1} {
		body := bankClick(t)
		if d.path == v1.path {
			body = marshal(t, object{"batch": []object{click(object{"properties.token": bankToken})}})
		}
		w := s.post(d, body, "Sec-GPC", "1")
		requireCounts(t, w, 0, 1)
		assert.Contains(t, w.Body.String(), `"reasons":{"gpc":1}`)
		requireCounts(t, s.post(d, body, "Sec-GPC", "0"), 1, 0)
	}
	assert.Len(t, s.sink.take(bank), 3)
	assert.Equal(t, 3.0, s.counted(t)["ignored gpc"])
	requireCounts(t, s.post(captureDoor, marshal(t, click(object{})), "Sec-GPC", "1"), 1, 0)
	requireCounts(t, s.post(webhookDoor, marshal(t, click(object{})), "Sec-GPC", "1"), 1, 0)
}

func TestOrigins_refusalsAreCountedAndLoggedOncePerOrigin(t *testing.T) {
	var log bytes.Buffer
	s := newService(intake.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		for _, origin := range []string{"https://evil.example", "https://marketing.example",
			"https://" + strings.Repeat("x", 9000)} {
			requireRefusal(t, s.post(captureDoor, bankClick(t), "Origin", origin))
		}
	}
	assert.Equal(t, 1, strings.Count(log.String(), "origin=https://evil.example"))
	assert.Equal(t, 3, strings.Count(log.String(), "product_id=bank"))
	assert.Less(t, log.Len(), 2000)
	assert.Equal(t, map[string]float64{bank: 9}, s.refused(t))
	assert.Empty(t, s.counted(t), "nothing was taken in")
}

// Anyone can send any number of origins.
func TestOrigins_refusalsAreRememberedInBoundedMemory(t *testing.T) {
	s := newService(intake.Options{Logger: slog.New(slog.DiscardHandler)})
	click, long := bankClick(t), strings.Repeat("x", 200)
	grown := heaptest.After(func() {
		for i := range 4_000 {
			w := s.post(captureDoor, click, "Origin", fmt.Sprintf("https://%d.%s", i, long))
			assert.Equal(t, http.StatusForbidden, w.Code)
		}
	})
	assert.Less(t, grown, int64(3<<19))
	runtime.KeepAlive(s)
}
