package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

var command proctest.Command

func TestMain(m *testing.M) { os.Exit(command.BuildAndRun(m, "../..", "cmd/liveactivity-server")) }

// launch starts the command with these arguments and no environment but env.
func launch(t *testing.T, env []string, args ...string) *proctest.Process {
	t.Helper()
	return command.Launch(t, env, args...)
}

const ends = 20 * time.Second // for a command that asks a fake desk

// ran runs the command until it ends with this status.
func ran(t *testing.T, status int, args ...string) *proctest.Process {
	t.Helper()
	p := launch(t, nil, args...)
	require.Equal(t, status, p.Wait(ends), "%s%s", &p.Stdout, &p.Stderr)
	return p
}

// anyPort is the address of every server of these tests.
const anyPort = proctest.AnyPort

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
			"integration_config": {"zendesk": {"base_url": "https://acme.zendesk.com",
				"email": "bot@acme.example", "api_token": "`+apiToken+`"}}}],
		"keys": [{"key": "`+key+`", "external_id": "acme"}]
	}`)
}

func pageview(uuid, url string) string {
	return fmt.Sprintf(`{"event":"$pageview","uuid":%q,"distinct_id":"ada","properties":{"$session_id":"s1",`+
		`"$current_url":%q},"$set":{"email":"ada@example.com"}}`, uuid, url)
}

// post posts an event to acme's webhook, which must take it.
func post(t *testing.T, url, event string) {
	t.Helper()
	status, body := proctest.Request(t, http.MethodPost, url+"/webhook/acme", event, "X-PostHog-Secret: "+webhookSecret)
	require.Equal(t, http.StatusOK, status, body)
}
