package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/mcptool"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

const (
	key    = "key-of-the-shop"
	secret = "secret of the shop"
)

// shop is the example at work.
type shop struct {
	t      *testing.T
	url    string
	stdout logtest.Buffer
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of run, once done
}

var listening = regexp.MustCompile(`(?m)^listening on (\S+)$`)

// start returns when the shop listens. It runs until the test ends.
func start(t *testing.T, args ...string) *shop {
	t.Helper()
	t.Setenv("SHOP_KEY", key)
	t.Setenv("SHOP_WEBHOOK_SECRET", secret)
	ctx, cancel := context.WithCancel(context.Background())
	s := &shop{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = run(ctx, append([]string{"--addr", "127.0.0.1:0"}, args...), &s.stdout)
	}()
	t.Cleanup(s.stop)
	waittest.Until(t, "the shop listens", func() bool {
		match := listening.FindStringSubmatch(s.stdout.String())
		if match != nil {
			s.url = match[1]
		}
		return match != nil
	})
	return s
}

// stop ends the shop, which must succeed.
func (s *shop) stop() {
	s.t.Helper()
	s.cancel()
	select {
	case <-s.done:
		require.NoError(s.t, s.err)
	case <-time.After(waittest.Patience):
		require.Fail(s.t, "it does not stop")
	}
}

// do makes a request and returns the answer. The header is "Name: value".
func (s *shop) do(method, path, header, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if name, value, ok := strings.Cut(header, ": "); ok {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(answer)
}

// get is do with the shop's key, and expects success.
func (s *shop) get(path string) string {
	s.t.Helper()
	status, answer := s.do(http.MethodGet, path, "Authorization: Bearer "+key, "")
	require.Equal(s.t, http.StatusOK, status, answer)
	return answer
}

func event(user, page string) string {
	return fmt.Sprintf(`{"event":"$pageview","distinct_id":%q,"properties":{"$session_id":"session of %s","$current_url":"https://shop.example/%s"}}`, user, user, page)
}

// report reports a page view by the webhook.
func (s *shop) report(user, page string) {
	s.t.Helper()
	status, answer := s.do(http.MethodPost, "/webhook/shop", "X-PostHog-Secret: "+secret, event(user, page))
	require.Equal(s.t, http.StatusOK, status, answer)
	require.JSONEq(s.t, `{"status":"ok","accepted":1,"ignored":0}`, answer)
}

// prints waits until a line was printed.
func (s *shop) prints(line string) {
	s.t.Helper()
	waittest.Until(s.t, "it prints "+line, func() bool { return strings.Contains(s.stdout.String(), line+"\n") })
}

func TestRun_servesBesideItsOwnPages(t *testing.T) {
	s := start(t)
	s.report("ada", "cart")
	status, answer := s.do(http.MethodPost, "/i/v0/e/", "", `{"api_key":"phc_shop","batch":[`+event("bob", "checkout")+`]}`)
	require.Equal(t, http.StatusOK, status, answer)

	s.prints("ada: User landed on the cart page")
	s.prints("bob: User landed on the checkout page")
	_, welcome := s.do(http.MethodGet, "/", "", "")
	assert.Equal(t, "Welcome to the shop.\n", welcome)
	assert.Equal(t, "User landed on the cart page\n", s.get("/support/ada"))
	assert.Equal(t, "User landed on the checkout page\n", s.get("/support/bob"))
	assert.Empty(t, s.get("/support/nobody"))
	var live activity.LiveActivity
	require.NoError(t, json.Unmarshal([]byte(s.get("/users/shop/ada/live-activity")), &live))
	require.Equal(t, 1, live.Count)
	assert.Equal(t, "https://shop.example/cart", live.Actions[0].RawURL)
}

func TestRun_refusesRequestsWithoutAKey(t *testing.T) {
	s := start(t)
	s.report("ada", "cart")
	for _, path := range []string{"/users/shop/ada/live-activity", "/stream/shop", "/support/ada", "/mcp"} {
		for _, header := range []string{"", "Authorization: Bearer guess"} {
			status, answer := s.do(http.MethodGet, path, header, "")
			assert.Equal(t, http.StatusUnauthorized, status, path)
			assert.NotContains(t, answer, "cart")
		}
	}
	status, _ := s.do(http.MethodPost, "/webhook/shop", "X-PostHog-Secret: guess", event("ada", "home"))
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Equal(t, "User landed on the cart page\n", s.get("/support/ada"))
}

// withKey is a transport that sends the shop's key.
type withKey struct{}

func (withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+key)
	return http.DefaultTransport.RoundTrip(r)
}

func TestRun_answersAgents(t *testing.T) {
	s := start(t)
	s.report("ada", "cart")
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: withKey{}}}
	session, err := client.Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: mcptool.ToolName, Arguments: map[string]any{"product_id": "shop", "user_id": "ada"},
	})
	require.NoError(t, err)
	require.False(t, result.IsError)
	assert.Contains(t, fmt.Sprint(result.StructuredContent), "User landed on the cart page")
}

// openStream returns an open stream, from the time since.
func (s *shop) openStream(since string) *bufio.Reader {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+"/stream/shop?since="+since, nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	return bufio.NewReader(response.Body)
}

// Who listens is sent everything that was acknowledged, also what no buffer
// holds, and a proper end.
func TestRun_stopsInOrder(t *testing.T) {
	const requests, events = 30, 100 // some 1.5 MB
	s := start(t)
	reader := s.openStream("0")
	for i := range requests {
		body := "[" + strings.TrimSuffix(strings.Repeat(event(fmt.Sprint("user ", i), "home")+",", events), ",") + "]"
		for j := range events {
			body = strings.Replace(body, "/home", fmt.Sprint("/page-", j), 1)
		}
		status, answer := s.do(http.MethodPost, "/webhook/shop", "X-PostHog-Secret: "+secret, body)
		require.Equal(t, http.StatusOK, status, answer)
	}
	s.cancel()
	select {
	case <-s.done:
		require.Fail(t, "it did not wait for its reader")
	case <-time.After(100 * time.Millisecond):
	}
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Equal(t, requests*events, strings.Count(string(rest), `"type":"pageview"`))
	s.stop()
	_, err = net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	assert.Error(t, err, "nobody listens any more")
}

// A request that has begun is answered, though the listener is closed, and
// what it brought is kept.
func TestRun_finishesRequestsInFlight(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--data-dir", dir)
	addr := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	body := event("ada", "cart")
	fmt.Fprintf(conn, "POST /webhook/shop HTTP/1.1\r\nHost: shop\r\nX-PostHog-Secret: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", secret, len(body))
	answers := bufio.NewReader(conn)
	status, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", status)

	s.cancel()
	waittest.Until(t, "the address refuses connections", func() bool {
		other, err := net.Dial("tcp", addr)
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	})
	fmt.Fprint(conn, body)
	answer, err := io.ReadAll(answers)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "HTTP/1.1 200 OK")
	s.stop()
	assert.Equal(t, "User landed on the cart page\n", start(t, "--data-dir", dir).get("/support/ada"))
}

func TestRun_goesOnInAFolder(t *testing.T) {
	dir := t.TempDir()
	first := start(t, "--data-dir", dir)
	first.report("ada", "cart")
	first.stop()

	second := start(t, "--data-dir", dir)
	assert.Equal(t, "User landed on the cart page\n", second.get("/support/ada"))
	second.report("ada", "checkout")
	assert.Equal(t, "User landed on the cart page\nUser landed on the checkout page\n", second.get("/support/ada"))
	second.prints("ada: User landed on the checkout page")
	assert.NotContains(t, second.stdout.String(), "cart", "the consumer prints what is new")
	reader := second.openStream("0")
	second.stop()
	all, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(all), `"type":"actions"`), "the stream has both")
}

func TestRun_forgetsInMemory(t *testing.T) {
	first := start(t)
	first.report("ada", "cart")
	first.stop()
	assert.Empty(t, start(t).get("/support/ada"))
}

// What goes wrong at the start leaves nothing open: the folder is free again.
func TestRun_failsInOrder(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := t.TempDir()
	err = run(t.Context(), []string{"--addr", taken.Addr().String(), "--data-dir", dir}, io.Discard)
	require.ErrorContains(t, err, "address already in use")
	start(t, "--data-dir", dir)
}
