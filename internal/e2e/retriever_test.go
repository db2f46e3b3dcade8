package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// The secrets of the product of a chain.
const (
	chainWebhookSecret = "whs-s3cr3t"
	chainKey           = "lak-s3cr3t"
)

// chain are the commands, as processes of their own.
type chain struct{ server, retriever, bridge *proctest.Command }

// The commands work as they are built: users' actions go all the way from PostHog's webhook through the
// server and its stream to clients of a retriever, and other people's programs sign in.
func TestChain(t *testing.T) {
	c := &chain{
		server:    proctest.Build(t, "../..", "cmd/liveactivity-server"),
		retriever: proctest.Build(t, "../..", "cmd/liveactivity-retriever"),
		bridge:    proctest.Build(t, "../..", "cmd/liveactivity-bridge"),
	}
	for name, test := range map[string]func(*testing.T){
		"nothing is lost or doubled when a server is killed": c.testKill,
		"the wrong key ends a reader":                        c.testRefusal,
		"programs that people run can sign in":               c.testSignIn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// origin is a server that keeps its address and data when it is killed and started again.
type origin struct {
	*proctest.Process
	t       *testing.T
	command *proctest.Command
	args    []string
	url     string
}

// startOrigin starts a server of one product.
func (c *chain) startOrigin(t *testing.T, args ...string) *origin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(path, []byte(`{
		"products": [{"product_id": "shop", "webhook_secret": "`+chainWebhookSecret+`"}],
		"keys": [{"key": "`+chainKey+`", "external_id": "shop", "scopes": ["stream"]}]}`), 0o600))
	o := &origin{t: t, command: c.server, args: append([]string{"--config=" + path, "--addr=" + lowAddr(t),
		"--heartbeat=200ms"}, args...)}
	o.start()
	return o
}

// lowPorts is the number of ports tried.
var lowPorts atomic.Int32

// lowAddr returns a free address. It stays free without a listener, because the system gives
// connections higher ports. Each process begins at a port of its own.
func lowAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := 20_000 + (os.Getpid()*17+int(lowPorts.Add(1)))%12_000
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			require.NoError(t, listener.Close())
			return listener.Addr().String()
		}
	}
	require.Fail(t, "there is no free port")
	return ""
}

// start starts the server at its address.
func (o *origin) start() {
	o.t.Helper()
	o.Process = o.command.Launch(o.t, nil, o.args...)
	o.url = o.URL()
}

// restart kills the server and starts it again.
func (o *origin) restart() {
	o.t.Helper()
	o.Kill()
	o.start()
}

// stream returns the flags of a reader of the server's stream.
func (o *origin) stream(key string) []string {
	return []string{proctest.AnyPort, "--stream-url=" + o.url + "/stream/shop", "--token=" + key}
}

// report sends the server an event in a session as PostHog's webhook does. The
// server must take it.
func (o *origin) report(session, event, properties string) {
	o.t.Helper()
	body := fmt.Sprintf(`{"event":{"uuid":%q,"event":%q,"distinct_id":"u-%s","timestamp":%q,
		"properties":{"$session_id":%q,%s}},"person":{"properties":{"email":"%s@Example.com"}}}`,
		uuid.NewString(), event, session, time.Now().UTC().Format(time.RFC3339Nano), session, properties, session)
	status, answer := proctest.Request(o.t, http.MethodPost, o.url+"/webhook/shop", body,
		"X-PostHog-Secret: "+chainWebhookSecret)
	require.Equal(o.t, http.StatusOK, status, answer)
	require.Contains(o.t, answer, `"accepted":1`)
}

// visit reports a page view and returns the text that readers get of it.
func (o *origin) visit(session, page string) string {
	o.t.Helper()
	o.report(session, "$pageview", fmt.Sprintf(`"$current_url":"https://shop.example.com/%s?utm=1"`, page))
	return fmt.Sprintf("User landed on the %s page (https://shop.example.com/%s)",
		strings.ReplaceAll(page, "-", " "), page)
}

// asker is a retriever at work.
type asker struct {
	*proctest.Process
	t   *testing.T
	url string
}

// startAsker starts a retriever of the server's stream.
func (c *chain) startAsker(t *testing.T, o *origin, args ...string) *asker {
	t.Helper()
	p := c.retriever.Launch(t, nil, append(o.stream(chainKey), args...)...)
	return &asker{Process: p, t: t, url: p.URL()}
}

// dated matches the beginning of a record's line.
var dated = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: `)

// ask returns the lines of a query's records, oldest first.
func (a *asker) ask(query string) []string {
	a.t.Helper()
	status, answer := proctest.Request(a.t, http.MethodGet, a.url+"/events?"+query, "")
	require.Equal(a.t, http.StatusOK, status, answer)
	var body struct{ Records []struct{ Content string } }
	require.NoError(a.t, json.Unmarshal([]byte(answer), &body))
	things := []string{}
	for _, r := range slices.Backward(body.Records) {
		for line := range strings.SplitSeq(r.Content, "\n") {
			things = append(things, dated.ReplaceAllString(line, ""))
		}
	}
	return things
}

// await waits until a query's records have exactly these lines, oldest first.
func (a *asker) await(query string, want ...string) {
	a.t.Helper()
	waittest.Equal(a.t, want, func() []string { return a.ask(query) })
}

// awaitMetric waits until the retriever's metrics have a line.
func (a *asker) awaitMetric(line string) {
	a.t.Helper()
	waittest.Until(a.t, "the metrics have "+line, func() bool {
		_, metrics := proctest.Request(a.t, http.MethodGet, a.url+"/metrics", "")
		return strings.Contains(metrics, "\n"+line+"\n")
	})
}

func (c *chain) testKill(t *testing.T) {
	o := c.startOrigin(t, "--data-dir="+t.TempDir())
	a := c.startAsker(t, o, "--threshold=1000")
	const rounds, visits = 3, 10
	var want []string
	for round := range rounds {
		for i := range visits {
			want = append(want, o.visit("ada", fmt.Sprintf("round-%c-step-%c", 'a'+round, 'a'+i)))
		}
		o.restart() // at once: the retriever may not have read it all
		if round == 1 {
			a.await("session_id=ada", want...)
		}
	}
	want = append(want, o.visit("ada", "end"))
	a.await("session_id=ada", want...)
	bob := o.visit("bob", "home")
	a.await("email=BOB@example.com", bob)
	a.await("email=ada@example.com", want...)
	a.Kill()
	again := c.startAsker(t, o, "--threshold=1000")
	again.await("session_id=ada", want...)
	again.awaitMetric("liveactivity_consumer_gaps_total 0")
	again.Stop()
	o.Stop()
	assert.NotContains(t, a.Stderr.String()+again.Stderr.String(), "s3cr3t")
}

func (c *chain) testRefusal(t *testing.T) {
	o := c.startOrigin(t)
	for _, command := range []*proctest.Command{c.retriever, c.bridge} {
		p := command.Launch(t, nil, append(o.stream("lak-wrong-s3cr3t"), "--log-level=error")...)
		assert.Equal(t, 1, p.Wait(waittest.Patience))
		assert.Regexp(t, `^liveactivity-\w+: stream: the server refuses the stream: 401 [^\n]+\n$`, p.Stderr.String())
		assert.NotContains(t, p.Stderr.String(), "s3cr3t")
	}
}
