package posthog_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
)

const evil = "https://evil.example"

// passes are tokens, each with an origin that may use it.
var passes = [][2]string{{bankToken, bankOrigin}, {bankToken, ""}, {shopToken, evil}, {"phc_unknown", evil}}

// Pages of other origins than the listed ones send nothing to a product, wherever the token is, and read
// nothing of its answers.
func TestOrigins_holdForEveryToken(t *testing.T) {
	s := newService()
	for _, path := range []string{"/array/%s/config", "/array/%s/config.js", "/ingest/array/%s/config",
		"/api/surveys/?token=%s", "/api/early_access_features/?token=%s", "/flags/definitions?token=%s",
		"/api/feature_flag/local_evaluation/?token=%s&x"} {
		w := s.call("GET", fmt.Sprintf(path, bankToken), "Origin", evil)
		httpxtest.Detail(t, http.StatusForbidden, w.Result())
		for _, ok := range passes {
			assert.Equal(t, http.StatusOK, s.call("GET", fmt.Sprintf(path, ok[0]), "Origin", ok[1]).Code)
		}
	}
	body := func(token string) []byte {
		return marshal(t, object{"token": token, "batch": []object{click(object{"token": token})}})
	}
	recording := func(token string) []byte {
		return gzipped(marshal(t, []any{object{"event": "$snapshot", "properties": object{"token": token}}}))
	}
	for _, path := range []string{"/e/", "/batch", v1Door.path, "/flags/?v=2", "/decide/?v=3", "/s/", "/ingest/s"} {
		for _, encode := range []func(string) []byte{body, recording} {
			for _, ok := range passes[:3] {
				w := s.post(door{path: path}, encode(ok[0]), "Origin", ok[1], "Authorization", "Bearer "+ok[0])
				assert.Equal(t, http.StatusOK, w.Code, path)
			}
			w := s.post(door{path: path}, encode(bankToken), "Origin", evil, "Authorization", "Bearer "+bankToken)
			httpxtest.Detail(t, http.StatusForbidden, w.Result())
		}
	}
}

// A recording may be larger than the limit of a body of events.
func TestSDK_takesLargeRecordings(t *testing.T) {
	s := newService()
	large := bytes.Repeat([]byte(" "), intake.DefaultMaxBody+1)
	for _, origin := range []string{"", evil} {
		assert.Equal(t, http.StatusOK, s.post(door{path: "/s/"}, large, "Origin", origin).Code)
		httpxtest.Detail(t, http.StatusRequestEntityTooLarge, s.post(door{path: "/flags/"}, large, "Origin", origin).Result())
	}
	large = append(large, large...)
	httpxtest.Detail(t, http.StatusRequestEntityTooLarge, s.post(door{path: "/s/"}, large).Result())
}
