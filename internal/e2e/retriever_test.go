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

// visit reports ada's view of a page as PostHog's webhook does, which the server must take. It returns the
// text that readers get of it.
func (o *origin) visit(page string) string {
	o.t.Helper()
	body := fmt.Sprintf(`{"event":{"uuid":%q,"event":"$pageview","distinct_id":"u-ada","timestamp":%q,
		"properties":{"$session_id":"ada","$current_url":"https://shop.example.com/%s?utm=1"}}}`,
		uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano), page)
	status, answer := proctest.Request(o.t, http.MethodPost, o.url+"/webhook/shop", body,
		"X-PostHog-Secret: "+chainWebhookSecret)
	require.Equal(o.t, http.StatusOK, status, answer)
	require.Contains(o.t, answer, `"accepted":1`)
	return fmt.Sprintf("User landed on the %s page (https://shop.example.com/%[1]s)", page)
}

// asker is a retriever at work.
type asker struct {
	*proctest.Process
	t   *testing.T
	url string
}

// startAsker starts a retriever of the server's stream, which makes no summaries.
func (c *chain) startAsker(t *testing.T, o *origin) *asker {
	t.Helper()
	p := c.retriever.Launch(t, nil, append(o.stream(chainKey), "--threshold=1000")...)
	return &asker{Process: p, t: t, url: p.URL()}
}

// dated matches the beginning of a record's line.
var dated = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: `)

// ask returns the lines of ada's records, oldest first.
func (a *asker) ask() []string {
	a.t.Helper()
	status, answer := proctest.Request(a.t, http.MethodGet, a.url+"/events?session_id=ada", "")
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

func (c *chain) testKill(t *testing.T) {
	o := c.startOrigin(t, "--data-dir="+t.TempDir())
	a := c.startAsker(t, o)
	const rounds, visits = 3, 10
	var want []string
	for round := range rounds {
		for i := range visits {
			want = append(want, o.visit(fmt.Sprintf("round%c%c", 'a'+round, 'a'+i)))
		}
		o.restart() // at once: the retriever may not have read it all
		if round == 1 {
			waittest.Equal(t, want, a.ask)
		}
	}
	want = append(want, o.visit("end"))
	waittest.Equal(t, want, a.ask)
	a.Kill()
	again := c.startAsker(t, o)
	waittest.Equal(t, want, again.ask)
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
