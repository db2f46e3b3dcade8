package e2e

import (
	"context"
	"encoding/json"
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

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
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

// python is the client in Python at work.
type python struct {
	*proctest.Process
	t *testing.T
}

// startPython runs the client until the test ends, or until it ends itself.
func startPython(t *testing.T, url, product, key string) *python {
	t.Helper()
	script := musttest.New(filepath.Abs("testdata/stream_client.py"))
	cmd := exec.Command(depstest.Command(t, "python3"), script, url, product)
	return &python{proctest.Launch(t, cmd, []string{"TOKEN=" + key}), t}
}

// objects returns the lines that a process has written, each an object.
func objects(t *testing.T, output *logtest.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(output.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // there is more to come
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		all = append(all, object)
	}
	return all
}

// awaitNote waits until the client has written so many notes of a kind, and returns them.
func (p *python) awaitNote(what string, count int) (notes []map[string]any) {
	p.t.Helper()
	waittest.Until(p.t, fmt.Sprintf("it has taken %d notes of %q", count, what), func() bool {
		notes = nil
		for _, note := range objects(p.t, &p.Stderr) {
			if note["note"] == what {
				notes = append(notes, note)
			}
		}
		return len(notes) >= count
	})
	return notes
}

// receives waits until the client has received that many payloads, and compares them with those of a
// reader in Go. It returns the last one.
func (p *python) receives(s *service, count int) (last string) {
	p.t.Helper()
	var got []activity.Batch
	waittest.Until(p.t, fmt.Sprintf("%d payloads came", count), func() bool {
		got = nil
		for line := range strings.Lines(p.Stdout.String()) {
			var b activity.Batch
			if last = line; json.Unmarshal([]byte(line), &b) == nil { // otherwise there is more to come
				got = append(got, b)
			}
		}
		return len(got) >= count
	})
	want := s.startReader("?since=0").awaitBatches(p.t, count)
	require.Equal(p.t, want, got)
	return last
}

// The Python client of the hosted service reads the stream unchanged.
func TestPython_readsTheStream(t *testing.T) {
	log, secret := musttest.New(memorylog.New(nil)), ""
	s := startService(t, func(o *liveactivity.Options) {
		o.Log, o.Heartbeat, secret = log, 200*time.Millisecond, o.Products[0].WebhookSecret
	})
	ingest := func(events ...string) {
		body := `[` + strings.Join(events, ",") + `]`
		status, answer := proctest.Request(t, http.MethodPost, s.url+"/webhook/"+productID, body, "X-PostHog-Secret: "+secret)
		require.Equal(t, http.StatusOK, status, answer)
	}
	event := func(name, session, user, properties string) string {
		return fmt.Sprintf(`{"event":%q,"distinct_id":%q,"properties":{"$session_id":%q,%s}}`, name, user, session,
			properties)
	}
	p := startPython(t, s.url, productID, s.key)
	p.awaitNote("connected", 1)
	ingest(event("$identify", "s1", "ada", `"$set":{"email":"ada@example.com"}`),
		event("$pageview", "s1", "ada", `"$current_url":"https://Shop.example/products/42?ref=mail"`),
		event("$pageview", "s2", "bob\u0085\u2028&<ü>", `"$current_url":"https://shop.example/"`),
		event("$autocapture", "s1", "ada", `"$current_url":"https://shop.example/products/42","$event_type":"click",`+
			`"$elements_chain":"button:nth-child=\"1\"nth-of-type=\"1\"text=\"Add “Tea” to cart\""`))
	p.receives(s, 2)

	sessions := musttest.New(directory.New(log.Documents(), time.Hour))
	require.NoError(t, sessions.Amend(t.Context(), productID, "s1", nil, func(a *directory.Amendment) error {
		a.Session.ConversationID = "conversation_7"
		return nil
	}))
	ingest(event("$pageview", "s1", "ada", `"$current_url":"https://shop.example/help"`))
	assert.Contains(t, p.receives(s, 3), `"conversation_id": "conversation_7"`)

	for _, data := range []string{`{"type":"news","product_id":"shop"}`, `no JSON`,
		`{"type":"summary","product_id":"shop","session_id":"s1","summary":"Looked at tea.\nThen asked for help.",` +
			`"replaces":3,"forwarded_at":1795316386.25}`} {
		require.NoError(t, log.Append(t.Context(), productID, []eventlog.Entry{{SessionID: "s1", Data: []byte(data)}}))
	}
	assert.Contains(t, p.receives(s, 4), `"summary": "Looked at tea.\nThen asked for help.", "replaces": 3`)
	p.awaitNote("heartbeat", 2)

	s.cut()
	p.awaitNote("connected", 2)
	ingest(event("$pageview", "s2", "bob", `"$current_url":"https://shop.example/bye"`))
	p.receives(s, 5)
	p.hasReadAll()

	late := startPython(t, s.url, productID+"?last_event_id=9999999999999-0", s.key)
	late.receives(s, 5)
	gap := late.awaitNote("ignored", 1)[0]
	assert.Equal(t, "gap", gap["event"])
	assert.Contains(t, gap["data"], `"requested":"9999999999999-0"`)
}

// hasReadAll fails the test if the client received an unknown event.
func (p *python) hasReadAll() {
	p.t.Helper()
	for _, note := range objects(p.t, &p.Stderr) {
		switch note["note"] {
		case "ignored", "no JSON", "malformed", "refused":
			assert.Fail(p.t, "the client was sent an event that it does not know", "%v", note)
		}
	}
}
