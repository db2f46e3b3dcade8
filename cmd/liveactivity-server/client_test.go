package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

func TestSend_isReadBackAndTailed(t *testing.T) {
	t.Parallel()
	file := acme(t)
	server := launch(t, nil, anyPort, "--config="+file)
	url := server.URL()
	tail := launch(t, nil, "tail", "--url="+url, "--config="+file)
	waittest.Until(t, "the stream is open", func() bool {
		return strings.Contains(tail.Stderr.String(), "stream is open")
	})

	sent := ran(t, 0, "send", "--url="+url, "--config="+file, "--product=acme", "--user=grace",
		"--email=grace@acme.example", "--click=Export\u202e CSV")
	assert.Equal(t, "acme accepted an event of grace\nread back: User clicked Export CSV on the dashboard page\n",
		strings.ReplaceAll(sent.Stdout.String(), "  ", " "))
	waittest.Until(t, "it is printed", func() bool { return strings.HasSuffix(tail.Stdout.String(), "dashboard page\n") })
	assert.Regexp(t, `^\d\d:\d\d:\d\d  grace@acme\.example  User clicked Export +CSV on the dashboard page\n$`,
		tail.Stdout.String())
	tail.Signal(os.Interrupt)
	assert.Zero(t, tail.Wait(ends), tail.Stderr.String())

	viewed := ran(t, 0, "send", "--url="+url, "--product=acme", "--webhook-secret="+webhookSecret,
		"--page=https://app.acme.example/pricing")
	assert.Equal(t, "acme accepted an event of ada\n", viewed.Stdout.String(), "without a key nothing is read")
	anonymous := ran(t, 0, "send", "--url="+url, "--config="+file, "--user=", "--session=visit")
	assert.Equal(t, "acme accepted an event of session visit\n", anonymous.Stdout.String())
	recent := launch(t, nil, "tail", "--url="+url, "--product=acme", "--key="+key, "--since=10m")
	waittest.Until(t, "earlier entries are printed", func() bool {
		return strings.Count(recent.Stdout.String(), "\n") == 3
	})
}

// As in `liveactivity-server tail | head -n 1`.
func TestTail_endsWithItsReader(t *testing.T) {
	t.Parallel()
	url := launch(t, nil, anyPort, "--config="+acme(t)).URL()
	post(t, url, pageview("first", "https://app.acme.example/first"))
	tail := command.LaunchBy(t, `exec "$0" "$@" > >(head -n 1)`, "tail", "--url="+url, "--product=acme", "--key="+key,
		"--since=10m")
	waittest.Until(t, "its reader has one line", func() bool {
		return strings.HasSuffix(tail.Stdout.String(), "first page\n")
	})
	n := 0
	waittest.Until(t, "it does not go on for nobody", func() bool {
		n++
		post(t, url, pageview(fmt.Sprint(n), "https://app.acme.example/next"))
		return tail.HasExited()
	})
	assert.Zero(t, tail.Wait(ends))
	assert.NotContains(t, tail.Stderr.String(), "pipe")
}

func TestSubcommands_failWithoutRoomForTheirOutput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"},
		{"check", "--config=" + productFile(t, `{"products": [{"product_id": "acme"}]}`)}} {
		p := command.LaunchBy(t, `exec "$0" "$@" >/dev/full`, args...)
		assert.Equal(t, 1, p.Wait(ends), args)
		assert.Contains(t, p.Stderr.String(), "the output is not complete: write /dev/stdout: no space left on device")
	}
}

// The secret goes only to the server named.
func TestSend_followsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Fail(t, "it is asked", r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/webhook/away" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(proxy.Close)
	for product, said := range map[string]string{
		"acme": "answers 307 Temporary Redirect: it leads to " + elsewhere.URL + "/webhook/acme\n",
		"away": "answers 502 Bad Gateway\n",
	} {
		p := ran(t, 1, "send", "--url="+proxy.URL, "--product="+product, "--webhook-secret="+webhookSecret)
		assert.Contains(t, p.Stderr.String(), said)
	}
}

// An interrupted command reports no fault of a peer that had not answered yet.
func TestSubcommands_blameNobodyForAnInterruption(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else it would not hear of the end
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	file := productFile(t, `{"products": [{"product_id": "acme", "webhook_secret": "x", "integration_config": {"zendesk":
		{"base_url": "`+silent.URL+`", "email": "bot@acme.example", "api_token": "x"}}}]}`)
	for _, command := range []string{"send", "check", "zendesk test"} {
		args := append(strings.Fields(command), "--config="+file, "--product=acme")
		if command != "check" {
			args = append(args, "--url="+silent.URL)
		}
		p := launch(t, nil, args...)
		waittest.Receive(t, asked)
		p.Signal(os.Interrupt)
		assert.Equal(t, 1, p.Wait(ends), command)
		said := p.Stdout.String() + p.Stderr.String()
		assert.Contains(t, said, "interrupt signal received", command)
		for _, blame := range []string{"reached", "answers", "missing", "- "} {
			assert.NotContains(t, said, blame, command)
		}
	}
}

func TestClientCommands_nameTheMistake(t *testing.T) {
	t.Parallel()
	url := launch(t, nil, anyPort, "--config="+acme(t)).URL()
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"a wrong secret": {[]string{"send", "--url=" + url, "--product=acme", "--webhook-secret=x"},
			"401 Unauthorized: The header X-Webhook-Secret or X-PostHog-Secret is missing or wrong."},
		"another product": {[]string{"send", "--url=" + url, "--webhook-secret=x"}, "404 Not Found: Unknown product."},
		"a wrong key": {[]string{"send", "--url=" + url, "--product=acme", "--webhook-secret=" + webhookSecret,
			"--key=x"}, "401 Unauthorized"},
		"nobody's event": {[]string{"send", "--url=" + url, "--product=acme", "--webhook-secret=" + webhookSecret,
			"--page=", "--user=", "--session="}, "the event was ignored: "},
		"no secret":  {[]string{"send", "--url=" + url}, "--webhook-secret: is missing"},
		"no address": {[]string{"send", "--url=localhost", "--webhook-secret=x"}, "--url: must be a URL"},
		"no server": {[]string{"send", "--url=http://127.0.0.1:1", "--webhook-secret=x"},
			"no server answers at http://127.0.0.1:1"},
		"no key":            {[]string{"tail", "--url=" + url}, "--key: is missing"},
		"a key of no scope": {[]string{"tail", "--url=" + url, "--product=acme", "--key=x"}, "401"},
		"no file": {[]string{"check", "--config=nofile.json"},
			"\n--config: product file: open nofile.json: no such file or directory"},
		"a time to come": {[]string{"tail", "--key=x", "--since=-5m"},
			"--since: must be a number of seconds or a duration such as 4h, above zero"},
		"no time at all": {[]string{"zendesk", "test", "--timeout=0"}, "--timeout: must be a number of seconds"},
		"nobody healthy": {[]string{"healthcheck", "--addr=127.0.0.1:1"}, "no server answers"},
		"no port":        {[]string{"healthcheck", "--addr=here"}, "--addr: must be HOST:PORT"},
		"no PostHog":     {[]string{"posthog", "provision"}, "POSTHOG_API_KEY: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			p := ran(t, 1, tt.args...)
			assert.Contains(t, p.Stderr.String(), tt.says)
			assert.NotContains(t, p.Stderr.String(), "s3cr3t")
		})
	}
}

func TestClientCommands_readTheFileBesideOtherMistakes(t *testing.T) {
	t.Parallel()
	file := acme(t)
	for _, command := range []string{"send", "tail"} {
		p := ran(t, 1, command, "--url=localhost", "--config="+file)
		assert.Contains(t, p.Stderr.String(), "--url: must be a URL", command)
		assert.NotContains(t, p.Stderr.String(), "is missing", command)
	}
}

func TestHealthcheck_asksTheServerOfThisMachine(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(launch(t, nil, anyPort).URL(), "http://")
	_, port, _ := strings.Cut(addr, ":")
	p := launch(t, []string{"LIVEACTIVITY_ADDR=0.0.0.0:" + port}, "healthcheck")
	assert.Zero(t, p.Wait(ends), p.Stderr.String())
}

func TestVersion_isOneLineOrJSON(t *testing.T) {
	t.Parallel()
	p := ran(t, 0, "--version")
	assert.Regexp(t, `^(devel|v\d+\.\d+\.\d+\S*)\n$`, p.Stdout.String())
	assert.Empty(t, p.Stderr.String())
	p = ran(t, 0, "version", "--json")
	var build map[string]any
	require.NoError(t, json.Unmarshal([]byte(p.Stdout.String()), &build))
	assert.Equal(t, runtime.Version(), build["go"])
	assert.NotEmpty(t, build["version"])
	assert.Contains(t, build, "commit")
}

// PostHog sends the product's secret to the product's address.
func TestPostHogProvision_createsTheDestination(t *testing.T) {
	t.Parallel()
	var created map[string]any
	posthog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer phx_s3cr3t", r.Header.Get("Authorization"))
		if r.Method == http.MethodPost {
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&created))
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = w.Write([]byte(`{"results":[]}`))
	}))
	t.Cleanup(posthog.Close)
	file := productFile(t, `{"products": [{"product_id": "acme", "webhook_secret": "`+webhookSecret+`",
		"events": {"Invoice Sent": {}, "Checkout *": {}, "$exception": {}, "$pageview": {}}}]}`)
	run := func(args ...string) *proctest.Process {
		p := launch(t, []string{"POSTHOG_API_KEY=phx_s3cr3t"},
			append([]string{"posthog", "provision", "--config=" + file, "--product=acme",
				"--public-url=https://live.example.com/la/", "--posthog-host=" + posthog.URL, "--project=7"}, args...)...)
		assert.Zero(t, p.Wait(ends), p.Stderr.String())
		return p
	}
	const advice = "events \"Checkout *\": PostHog sends no events by the beginning of their name; add them in its page " +
		"by hand\n"
	assert.Equal(t, advice+"destination \"liveactivity: acme\": would be created\n", run("--dry-run").Stdout.String())
	assert.Nil(t, created)
	assert.Equal(t, advice+"destination \"liveactivity: acme\": created\n", run().Stdout.String())
	var names []string
	for _, event := range created["filters"].(map[string]any)["events"].([]any) {
		names = append(names, event.(map[string]any)["id"].(string))
	}
	assert.Equal(t, []string{"$pageview", "$screen", "$autocapture", "$identify", "$set", "$create_alias", "$exception",
		"Invoice Sent"}, names)
	inputs := created["inputs"].(map[string]any)
	assert.Equal(t, "https://live.example.com/la/webhook/acme", inputs["url"].(map[string]any)["value"])
	assert.Equal(t, webhookSecret, inputs["headers"].(map[string]any)["value"].(map[string]any)["X-PostHog-Secret"])
	assert.Equal(t, "destination \"liveactivity: acme\": is not there\n", run("--remove").Stdout.String())
}
