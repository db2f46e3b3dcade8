package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// proxies start a proxy that listens at a socket and passes every request on.
var proxies = map[string]func(t *testing.T, socket, target string) *exec.Cmd{
	"nginx": func(t *testing.T, socket, target string) *exec.Cmd { return nginx(t, socket, target, "") },
	"nginx that compresses": func(t *testing.T, socket, target string) *exec.Cmd {
		return nginx(t, socket, target, "gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1; proxy_http_version 1.1;")
	},
	"Node.js that compresses": func(t *testing.T, socket, target string) *exec.Cmd {
		script := musttest.New(filepath.Abs("testdata/proxy.cjs"))
		return exec.Command(depstest.Command(t, "node"), script, socket, target)
	},
}

// nginx has only the given settings and the places of its files.
func nginx(t *testing.T, socket, target, settings string) *exec.Cmd {
	dir := filepath.Dir(socket)
	config := filepath.Join(dir, "nginx.conf")
	paths := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `daemon off; master_process off; pid %s/nginx.pid;
events {}
http {
	access_log off;
	%s
	server {
		listen unix:%s;
		location / { %s proxy_pass %s; }
	}
}`, dir, paths, socket, settings, target), 0o600))
	return exec.Command(depstest.Command(t, "nginx"), "-p", dir, "-c", config, "-e", "stderr")
}

// startProxy starts a proxy and returns a client whose requests go through it.
func startProxy(t *testing.T, start func(t *testing.T, socket, target string) *exec.Cmd, target string) *http.Client {
	t.Helper()
	dir := musttest.New(os.MkdirTemp("", "proxy")) // t.TempDir is too long for a socket
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "socket")
	proctest.Launch(t, start(t, socket, target), []string{"NODE_PATH=" + depstest.Modules(t, depstest.NPM)})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	waittest.Until(t, "nginx listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return &http.Client{Transport: transport}
}

// events are the events of a stream, as they arrive.
type events struct {
	t          *testing.T
	id         string // of the last one
	compressed bool
	frames     chan ssetest.Frame
}

// follow opens the stream after the event with that ID, "" for none.
func (s *service) follow(t *testing.T, client *http.Client, after string) (e *events, cut func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := musttest.New(http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/stream/"+productID, nil))
	r.Header.Set("Authorization", "Bearer "+s.key)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	held := time.AfterFunc(waittest.Patience, cancel) // a proxy may hold even the headers back
	response, err := client.Do(r)
	held.Stop()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	e = &events{t: t, id: after, compressed: response.Uncompressed, frames: make(chan ssetest.Frame)}
	go func() {
		defer close(e.frames)
		for r := ssetest.NewReader(response.Body); ; {
			f, err := r.Next()
			if err != nil {
				return
			}
			select {
			case e.frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return e, func() {
		cancel()
		response.Body.Close()
	}
}

// next returns the data of the next event that is no heartbeat. It must arrive well before
// the next heartbeat, which could bring along an event that a proxy holds back.
func (e *events) next() string {
	e.t.Helper()
	late := time.After(eventlog.DefaultHeartbeat * 2 / 3)
	for {
		select {
		case f, ok := <-e.frames:
			require.True(e.t, ok, "the stream goes on")
			if f.Data != "{}" {
				e.id = f.ID
				return f.Data
			}
		case <-late:
			require.Fail(e.t, "an event is late")
		}
	}
}

// Proxies need no setting. The stream comes through event by event, even with compression, and goes
// on after a cut where it was.
func TestStream_passesThroughProxies(t *testing.T) {
	for name, start := range proxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			client := startProxy(t, start, s.url)
			report := func(n int) {
				body := fmt.Sprintf(`{"api_key":%q,"event":"$pageview","uuid":"%d","distinct_id":"ada",`+
					`"properties":{"$session_id":"s","$current_url":"https://shop.example/page-%[2]d"}}`, s.token, n)
				response, err := client.Post(s.url+"/e/", "application/json", strings.NewReader(body))
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusOK, response.StatusCode)
			}
			page := func(n int) string { return fmt.Sprintf(`"canonical_url":"https://shop.example/page-%d"`, n) }

			stream, cut := s.follow(t, client, "")
			assert.Equal(t, name == "nginx that compresses", stream.compressed, "only nginx does not look at no-transform")
			for n := range 5 {
				report(n)
				assert.Contains(t, stream.next(), page(n))
			}
			cut()
			report(5)
			report(6)
			stream, cut = s.follow(t, client, stream.id)
			defer cut()
			for n := 5; n <= 7; n++ {
				if n == 7 {
					report(n)
				}
				assert.Contains(t, stream.next(), page(n))
			}
		})
	}
}
