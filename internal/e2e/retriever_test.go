package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// chain are the commands, as processes of their own.
type chain struct{ server, retriever, bridge *proctest.Command }

// The commands work together as they are built, and other people's programs sign in.
func TestChain(t *testing.T) {
	c := &chain{
		server:    proctest.Build(t, "../..", "cmd/liveactivity-server"),
		retriever: proctest.Build(t, "../..", "cmd/liveactivity-retriever"),
		bridge:    proctest.Build(t, "../..", "cmd/liveactivity-bridge"),
	}
	for name, test := range map[string]func(*testing.T){
		"the wrong key ends a reader":          c.testRefusal,
		"programs that people run can sign in": c.testSignIn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
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

func (c *chain) testRefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"products": [{"product_id": "shop", "webhook_secret": "whs-s3cr3t"}],
		"keys": [{"key": "lak-s3cr3t", "external_id": "shop", "scopes": ["stream"]}]}`), 0o600))
	server := c.server.Launch(t, nil, proctest.AnyPort, "--config="+path)
	for _, command := range []*proctest.Command{c.retriever, c.bridge} {
		p := command.Launch(t, nil, proctest.AnyPort, "--stream-url="+server.URL()+"/stream/shop",
			"--token=lak-wrong-s3cr3t", "--log-level=error")
		assert.Equal(t, 1, p.Wait(waittest.Patience))
		assert.Regexp(t, `^liveactivity-\w+: stream: the server refuses the stream: 401 [^\n]+\n$`, p.Stderr.String())
		assert.NotContains(t, p.Stderr.String(), "s3cr3t")
	}
}
