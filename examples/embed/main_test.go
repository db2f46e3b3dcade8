package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"

	"github.com/liveactivity/liveactivity/activity/recent"
)

// shop is the example at work.
type shop struct {
	t       *testing.T
	url     string
	product liveactivity.Product
	key     liveactivity.Key
	cancel  context.CancelFunc
	done    chan error
}

// start runs the shop until the test ends. It must stop in order.
func start(t *testing.T) *shop {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &shop{t: t, url: "http://" + listener.Addr().String(), done: make(chan error, 1)}
	s.product, s.key = liveactivity.NewProduct("shop")
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(t.Context())
	go func() {
		s.done <- serve(ctx, listener, &liveactivity.Options{Products: []liveactivity.Product{s.product},
			Keys: []liveactivity.Key{s.key}, Logger: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		s.cancel()
		assert.NoError(t, <-s.done)
	})
	return s
}

// do makes a request with a header "Name: value" and returns the answer.
func (s *shop) do(method, path, header, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	name, value, _ := strings.Cut(header, ": ")
	r.Header.Set(name, value)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(answer)
}

// get makes a request with the shop's key, which must succeed.
func (s *shop) get(path string) string {
	s.t.Helper()
	status, answer := s.do(http.MethodGet, path, "Authorization: Bearer "+s.key.Key, "")
	require.Equal(s.t, http.StatusOK, status, answer)
	return answer
}

// report reports a page view by the webhook.
func (s *shop) report(user, page string) {
	s.t.Helper()
	status, answer := s.do(http.MethodPost, "/webhook/shop", "X-PostHog-Secret: "+s.product.WebhookSecret, fmt.Sprintf(
		`{"event":"$pageview","distinct_id":%q,"properties":{"$session_id":"session of `+
			`%s","$current_url":"https://shop.example/%s"}}`, user, user, page))
	require.Equal(s.t, http.StatusOK, status, answer)
	require.JSONEq(s.t, `{"status":"ok","accepted":1,"ignored":0}`, answer)
}

func TestShop_servesBesideItsOwnPages(t *testing.T) {
	s := start(t)
	s.report("ada", "cart")
	s.report("bob", "checkout")
	assert.Equal(t, "User landed on the cart page\n", s.get("/support/ada"))
	assert.Equal(t, "User landed on the checkout page\n", s.get("/support/bob"))
	assert.Empty(t, s.get("/support/nobody"))
	var live recent.LiveActivity
	require.NoError(t, json.Unmarshal([]byte(s.get("/users/shop/ada/live-activity")), &live))
	require.Equal(t, 1, live.Count)
	assert.Equal(t, "https://shop.example/cart", live.Actions[0].RawURL)
}

func TestShop_refusesRequestsWithoutAKey(t *testing.T) {
	s := start(t)
	s.report("ada", "cart")
	for _, path := range []string{"/users/shop/ada/live-activity", "/stream/shop", "/support/ada", "/mcp"} {
		for _, header := range []string{"Authorization: Bearer", "Authorization: Bearer guess"} {
			status, answer := s.do(http.MethodGet, path, header, "")
			assert.Equal(t, http.StatusUnauthorized, status, path)
			assert.NotContains(t, answer, "cart")
		}
	}
}
