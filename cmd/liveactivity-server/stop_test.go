package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// underWay posts half of an event to acme's webhook. The function returned
// sends the rest and returns the status of the answer.
func underWay(t *testing.T, url, event string) (finish func() int) {
	t.Helper()
	body := strings.Replace(event, "{", `{"api_key":"`+captureToken+`",`, 1)
	return proctest.UnderWay(t, url, "/e/", body) // an SDK's body may take longer than a webhook's
}

func TestStop_finishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	// Where the tests run under nohup, the server must not inherit that.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			p := launch(t, nil, anyPort, "--config="+acme(t))
			url := p.URL()
			finish := underWay(t, url, pageview("last", "https://app.example.com/last"))
			p.Signal(sig)
			proctest.HangsUp(t, url)
			assert.False(t, p.HasExited(), "it waits for the request")
			assert.Equal(t, http.StatusOK, finish())
			assert.Zero(t, p.Wait(waittest.Patience), "%s", &p.Stderr)
			assert.NotContains(t, p.Stderr.String(), "cut off")
		})
	}
}

// A closed log pipe does not end the process. A closed terminal does not end a process that was
// started to ignore it.
func TestProcess_outlivesItsTerminal(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"a standard error that is closed":         `exec "$0" "$@" 2>&-`,
		"a reader of standard error that is gone": `exec "$0" "$@" 2> >(:)`,
		"SIGHUP under nohup":                      `trap "" HUP; exec "$0" "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			p := command.LaunchBy(t, line, anyPort)
			url := p.URL()
			for range 20 { // each makes a line of the log
				status, _ := proctest.Request(t, http.MethodGet, url+"/none", "")
				require.Equal(t, http.StatusNotFound, status)
			}
			if strings.HasPrefix(name, "SIGHUP") {
				p.Signal(syscall.SIGHUP)
			}
			time.Sleep(50 * time.Millisecond) // a signal takes its time
			status, _ := proctest.Request(t, http.MethodGet, url+"/healthz", "")
			assert.Equal(t, http.StatusOK, status)
			p.Stop()
		})
	}
}

// Every line of the log has the format and the level of the flags, also from parts of the server
// that get no logger.
func TestLog_isAsTheFlagsAsk(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort, "--config="+acme(t), "--redis-url=redis://127.0.0.1:1", "--redis-prefix=x",
		"--log-format=json", "--log-level=warn")
	p.URL()
	waittest.Until(t, "the server says that it cannot connect", func() bool {
		return strings.Contains(p.Stderr.String(), `"msg":"cannot connect to Redis"`)
	})
	p.Kill()
	for line := range strings.Lines(p.Stderr.String()) {
		var entry struct{ Level string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		assert.Contains(t, []string{"WARN", "ERROR"}, entry.Level)
	}
}

// The root package's tests look for secrets in the log of every service. This is the command's.
func TestLog_neverHoldsSecrets(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			p := launch(t, nil, anyPort, "--config="+acme(t), "--admin-key="+adminKey, "--log-level=debug",
				"--log-format="+format)
			url := p.URL()
			post(t, url, pageview("u1", "https://app.example.com/a?token=query-s3cr3t"))
			for _, r := range [][]string{
				{http.MethodPost, "/e/", `{"api_key":"` + key + `","batch":[{`},
				{http.MethodPost, "/webhook/" + key, "{}", "X-PostHog-Secret: wrong-s3cr3t"},
				{http.MethodGet, "/users/acme/ada@example.com/live-activity?limit=" + key, "", "Authorization: Bearer " + key},
				{http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + key + `"}`, "Authorization: Bearer " + key,
					"Content-Type: application/json"},
				{http.MethodGet, "/" + key, "", "Cookie: " + key, "X-Request-Id: request-1"},
				{http.MethodPost, "/admin/products", `{"product_id":"initech",` +
					`"integration_config":{"zendesk":{"base_url":"s3cr3t"}}}`, "Authorization: Bearer " + adminKey},
			} {
				proctest.Request(t, r[0], url+r[1], r[2], r[3:]...)
			}
			p.Stop()
			log := p.Stderr.String()
			require.Contains(t, log, "request-1", "requests are logged")
			for _, secret := range []string{"s3cr3t", "ada@example.com", "whs_", "lak_", "phc_"} {
				assert.NotContains(t, log, secret)
			}
			assert.NotContains(t, p.Stdout.String(), "s3cr3t")
		})
	}
}

func TestStop_logsTheTotals(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort, "--config="+acme(t))
	url := p.URL()
	openStream(t, url)
	event := pageview("u1", "https://app.example.com/a")
	post(t, url, event)
	post(t, url, event)
	post(t, url, `{"event":"$rageclick","distinct_id":"ada"}`)
	p.Stop()
	assert.Regexp(t, `msg=stopped ran=[\d.]+m?s accepted=1 ignored=1 duplicate=1 actions=1 notes=0 summaries=0 offers=0 `+
		`readers=1 readers_cut_off=0\n`, p.Stderr.String())
}
