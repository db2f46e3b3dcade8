package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binary is the path of the command, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "liveactivity-server")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "liveactivity-server")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is the command at work.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
}

// launch starts the command with these arguments and no environment but env.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have exited by now
		<-p.exited
	})
	return p
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// url waits until the server listens and returns where.
func (p *process) url() string {
	p.t.Helper()
	var url string
	ready := func() bool {
		match := listening.FindStringSubmatch(p.stdout.String())
		if match != nil {
			url = match[1]
		}
		return match != nil || p.hasExited()
	}
	require.Eventually(p.t, ready, 20*time.Second, time.Millisecond)
	require.NotEmpty(p.t, url, "it did not start: %s", &p.stderr)
	return url
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// wait waits for the end and returns the exit code.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		require.Fail(p.t, "it does not end", "%s", &p.stderr)
		return -1
	}
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// stop ends the server as an operator would.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	assert.Zero(p.t, p.wait(20*time.Second), "%s", &p.stderr)
}

// anyPort is the address of every server of these tests.
const anyPort = "--addr=127.0.0.1:0"

// request sends a request with headers given as "Name: value".
func request(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(got)
}

// The secrets of a product file; the log must never hold any.
const (
	webhookSecret = "whs-s3cr3t"
	captureToken  = "phc_s3cr3t"
	key           = "lak-s3cr3t"
	adminKey      = "admin-s3cr3t"
	apiToken      = "zendesk-s3cr3t"
)

// productFile writes a product file and returns its path.
func productFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func acme(t *testing.T) string {
	t.Helper()
	return productFile(t, `{
		"products": [{"product_id": "acme", "webhook_secret": "`+webhookSecret+`", "capture_tokens": ["`+captureToken+`"],
			"integration_config": {"zendesk": {"base_url": "https://acme.zendesk.com", "email": "bot@acme.example", "api_token": "`+apiToken+`"}}}],
		"keys": [{"key": "`+key+`", "external_id": "acme"}]
	}`)
}

func pageview(uuid, url string) string {
	return fmt.Sprintf(`{"event":"$pageview","uuid":%q,"distinct_id":"ada","properties":{"$session_id":"s1","$current_url":%q},"$set":{"email":"ada@example.com"}}`, uuid, url)
}

// post posts an event to acme's webhook, which must take it.
func post(t *testing.T, url, event string) {
	t.Helper()
	status, body := request(t, http.MethodPost, url+"/webhook/acme", event, "X-PostHog-Secret: "+webhookSecret)
	require.Equal(t, http.StatusOK, status, body)
}
