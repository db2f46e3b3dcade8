package posthog_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/httpxtest"
)

func TestToken_isTakenFromWhereSDKsPutIt(t *testing.T) {
	bare := func() object { return click(object{"properties.token": nil}) }
	with := func(key string) object {
		e := bare()
		e[key] = shopToken
		return e
	}
	for name, body := range map[string]any{
		"api_key of a batch":                        object{"api_key": shopToken, "batch": []any{bare()}},
		"token of a batch":                          object{"token": shopToken, "batch": []any{bare()}},
		"api_key of an event":                       with("api_key"),
		"token of an event":                         []any{with("token")},
		"properties.token of an event":              object{"batch": []any{click(nil)}},
		"properties.token of an event in a webhook": object{"event": click(nil)},
		"beside an event of a webhook":              []any{object{"event": bare(), "token": shopToken}},
	} {
		s := newService()
		requireCounts(t, s.post(captureDoor, marshal(t, body)), 1, 0)
		assert.Len(t, s.sink.take(shop), 1, name)
	}
	w := newService().post(door{path: "/e/?api_key=" + shopToken + "&token=" + shopToken}, marshal(t, bare()),
		"Authorization", "Bearer "+shopToken)
	httpxtest.Detail(t, http.StatusUnauthorized, w.Result())
}
