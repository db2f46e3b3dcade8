package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// flags are the flags of the command.
var flags = proctest.Flags{
	{"addr", "LIVEACTIVITY_ADDR", "127.0.0.1:8080", "localhost"},
	{"config", "LIVEACTIVITY_CONFIG", "", "/none/products.json"},
	{"data-dir", "LIVEACTIVITY_DATA_DIR", "", "/dev/null/data"},
	{"redis-url", "LIVEACTIVITY_REDIS_URL", "", "localhost:6379"},
	{"redis-prefix", "LIVEACTIVITY_REDIS_PREFIX", "liveactivity", "unused"},
	{"activity-ttl", "ACTIVITY_TTL_S", "14400", "0.9"},
	{"activity-max-events", "ACTIVITY_MAX_EVENTS", "50", "0"},
	{"log-max-bytes", "LIVEACTIVITY_LOG_MAX_BYTES", "67108864", "65535"},
	{"state-max-bytes", "LIVEACTIVITY_STATE_MAX_BYTES", "536870912", "65535"},
	{"admin-key", "LIVEACTIVITY_ADMIN_KEY", "", "x "},
	{"public-url", "LIVEACTIVITY_PUBLIC_URL", "", "live.example.com"},
	{"heartbeat", "LIVEACTIVITY_HEARTBEAT", "15s", "99ms"},
	{"metrics-addr", "LIVEACTIVITY_METRICS_ADDR", "", "localhost"},
	{"llm-model", "LIVEACTIVITY_LLM_MODEL", "", "any"}, // without OPENAI_API_KEY
	{"log-format", "LIVEACTIVITY_LOG_FORMAT", "text", "xml"},
	{"log-level", "LIVEACTIVITY_LOG_LEVEL", "info", "loud"},
}

func TestHelp_showsEveryFlagWithItsVariableAndDefault(t *testing.T) {
	t.Parallel()
	command.CheckHelp(t, []string{"LIVEACTIVITY_ADMIN_KEY=" + adminKey}, flags)
}

// The reference has a row for each flag and for nothing else.
func TestReference_listsEveryFlag(t *testing.T) {
	reference := musttest.New(os.ReadFile("../../docs/reference.md"))
	row := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\| ([^|]*)\\|")
	rows := row.FindAllStringSubmatch(string(reference), -1)
	require.Len(t, rows, len(flags))
	for i, f := range flags {
		assert.Equal(t, []string{f.Name, f.Env}, rows[i][1:3])
		if f.Default == "" {
			assert.Empty(t, strings.TrimSpace(rows[i][3]), f.Name)
			continue
		}
		assert.Contains(t, rows[i][3], "`"+f.Default+"`", f.Name)
	}
}

func TestFlags_areRefusedWhenWrong(t *testing.T) {
	t.Parallel()
	command.CheckRefusals(t, []string{"LIVEACTIVITY_ADDR=127.0.0.1:0"}, flags)
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"an unknown flag":    {[]string{"--no-such-flag"}, "--no-such-flag"},
		"an argument":        {[]string{"serve"}, "serve"},
		"a flag without":     {[]string{"--addr"}, "--addr: needs a value (--help"},
		"a flag then a flag": {[]string{"--data-dir", "--addr=127.0.0.1:0"}, "--data-dir: needs a value (--help"},
		"a flag before a -": {[]string{"--activity-max-events", "-1"},
			"--activity-max-events: needs = before a value that begins with - (--help"},
		"a flag nearly":    {[]string{"--datadir=x"}, "did you mean"},
		"a command nearly": {[]string{"zendesk", "provison", "--product=acme"}, "did you mean"},
	} {
		t.Run(name, func(t *testing.T) {
			words := proctest.Refused(t, launch(t, nil, tt.args...))
			assert.Contains(t, words, tt.says)
			assert.Contains(t, words, "--help")
		})
	}
}

// Every mistake is named at once, with those of the product file, by the flag or the variable that was set. A flag
// goes first. An unreadable value does not hide the mistakes beside it.
func TestErrors_nameEveryFlagAndVariableThatIsWrong(t *testing.T) {
	t.Parallel()
	path := productFile(t, `{"products": [{"product_id": "a/b", "webhook_secret": "`+webhookSecret+`"}], "keys": `+
		`[{"key": "`+key+`", "external_id": "acne"}]}`)
	words := proctest.Refused(t, launch(t, []string{"LIVEACTIVITY_HEARTBEAT=1ms", "LIVEACTIVITY_LOG_MAX_BYTES=1",
		"LIVEACTIVITY_DATA_DIR=/x", "ACTIVITY_TTL_S=soon"},
		"--log-max-bytes=2", "--redis-url=redis://localhost", "--addr=localhost", "--activity-max-events=many",
		"--public-url=live.example.com", "--metrics-addr=localhost", "--config="+path))
	for _, want := range []string{"LIVEACTIVITY_HEARTBEAT: must be at least 100ms\n",
		"--log-max-bytes: must be at least 65536\n", "LIVEACTIVITY_DATA_DIR, --redis-url: ", "ACTIVITY_TTL_S: ", "--addr: ",
		"--activity-max-events: ", "--public-url: ", "--metrics-addr: ", path + ": products[0].product_id",
		path + ": keys[0].external_id"} {
		assert.Contains(t, words, "\n"+want)
	}
	assert.NotContains(t, words, "LIVEACTIVITY_LOG_MAX_BYTES")
	assert.NotContains(t, words, "s3cr3t")
}

// Every variable has the effect of its flag.
func TestEnvironment_isTaken(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{
		"LIVEACTIVITY_ADDR=127.0.0.1:0", "LIVEACTIVITY_CONFIG=" + acme(t), "LIVEACTIVITY_ADMIN_KEY=" + adminKey,
		"LIVEACTIVITY_PUBLIC_URL=https://live.example.com", "LIVEACTIVITY_HEARTBEAT=100ms", "ACTIVITY_TTL_S=60",
		"ACTIVITY_MAX_EVENTS=2", "LIVEACTIVITY_LOG_MAX_BYTES=65536", "LIVEACTIVITY_LOG_FORMAT=json",
		"LIVEACTIVITY_LOG_LEVEL=debug",
	})
	url := p.URL()
	status, body := proctest.Request(t, http.MethodGet, url+"/admin/products", "", "X-Admin-Key: "+adminKey)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "https://live.example.com/stream/acme")

	const events = 60 // of more than 2 KB each
	for n := range events {
		post(t, url, pageview(fmt.Sprint("u", n), "https://app.example.com/"+strings.Repeat("x", 1000)))
	}
	_, body = proctest.Request(t, http.MethodGet, url+"/users/acme/ada/live-activity", "", "Authorization: Bearer "+key)
	assert.Contains(t, body, `"count":2`)
	_, body = proctest.Request(t, http.MethodGet, url+"/metrics", "")
	assert.NotContains(t, body, fmt.Sprintf(`liveactivity_log_entries{product_id="acme"} %d`, events))

	old := time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339)
	_, body = proctest.Request(t, http.MethodPost, url+"/webhook/acme",
		strings.Replace(pageview("late", "https://app.example.com/a"), `{`, `{"timestamp":"`+old+`",`, 1),
		"X-PostHog-Secret: "+webhookSecret)
	assert.JSONEq(t, `{"status":"ok","accepted":0,"ignored":1,"reasons":{"expired":1}}`, body)

	frame, err := ssetest.NewReader(openStream(t, url).Body).Next()
	require.NoError(t, err)
	assert.Equal(t, "heartbeat", frame.Event)
	p.Stop()
	for line := range strings.SplitSeq(strings.TrimSpace(p.Stderr.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), line)
	}
	assert.Contains(t, p.Stderr.String(), `"level":"DEBUG"`)
}

// An empty variable is a mistake wherever the server would start without an intended setting.
func TestEnvironment_mayNotBeEmptyWhereThatWouldHideAMistake(t *testing.T) {
	t.Parallel()
	var empty []string
	for _, name := range []string{"CONFIG", "DATA_DIR", "REDIS_URL", "REDIS_PREFIX", "METRICS_ADDR", "ADMIN_KEY",
		"PUBLIC_URL", "LLM_MODEL", "LOG_MAX_BYTES", "STATE_MAX_BYTES"} {
		empty = append(empty, "LIVEACTIVITY_"+name+"=")
	}
	words := proctest.Refused(t, launch(t, empty, anyPort))
	for _, variable := range empty {
		assert.Contains(t, words, "\n"+strings.TrimSuffix(variable, "=")+": must not be empty")
	}
}

// The flag goes before its variable.
func TestMetricsAddr_movesTheMetrics(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{"LIVEACTIVITY_METRICS_ADDR=localhost"}, anyPort, "--metrics-addr", "127.0.0.1:0")
	url := p.URL()
	var metrics string
	waittest.Until(t, "it names the address of the metrics", func() bool {
		match := regexp.MustCompile(`(?m)^metrics at (http://\S+)$`).FindStringSubmatch(p.Stdout.String())
		if match != nil {
			metrics = match[1]
		}
		return match != nil
	})
	status, body := proctest.Request(t, http.MethodGet, metrics, "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "liveactivity_")
	status, _ = proctest.Request(t, http.MethodGet, url+"/metrics", "")
	assert.Equal(t, http.StatusNotFound, status, "no longer at the public address")
	status, body = proctest.Request(t, http.MethodGet, strings.TrimSuffix(metrics, "/metrics")+"/healthz", "")
	assert.Equal(t, http.StatusNotFound, status, "nothing but metrics there")
	assert.Contains(t, body, `"detail"`)
	p.Stop()
}

func TestAddr_thatIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	first := launch(t, nil, anyPort)
	taken := strings.TrimPrefix(first.URL(), "http://")
	p := launch(t, []string{"LIVEACTIVITY_METRICS_ADDR=" + taken}, anyPort)
	assert.Contains(t, proctest.Refused(t, p), "LIVEACTIVITY_METRICS_ADDR: cannot listen on "+taken)
}

// openStream opens acme's stream.
func openStream(t *testing.T, url string) *http.Response {
	t.Helper()
	resp := proctest.Do(t, http.MethodGet, url+"/stream/acme", "", "Authorization: Bearer "+key)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp
}

var (
	shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")
	ofCommand  = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )?liveactivity-server (.*)$`)
	docFlag    = regexp.MustCompile(`--[a-z-]+`)
	// elsewhere begins the lines for other programs than curl and this one.
	elsewhere = regexp.MustCompile(`^(go mod|claude|cosign|sha256sum|curl .*:8090/)`)
	ofSource  = regexp.MustCompile(`^go run \./(\S+)`)
)

// Every shell line in the documentation works. A curl line works at a server. A line of this
// command names subcommands and flags that exist.
func TestDocs_showLinesThatWork(t *testing.T) {
	t.Parallel()
	intercom := helpdesktest.NewIntercom(nil)
	t.Cleanup(intercom.Close)
	config := productFile(t, `{
		"products": [{"product_id": "acme", "webhook_secret": "x", "integration_config": {
			"intercom": `+string(intercom.Config())+`,
			"proactive": {"enabled": true, "body": "Need a hand?", "reply_option_labels": ["Yes"]}}}],
		"keys": [{"key": "`+key+`", "external_id": "acme"}]}`)
	server := launch(t, nil, anyPort, "--admin-key="+adminKey, "--public-url=http://127.0.0.1:9", "--config="+config).URL()
	pages := musttest.New(filepath.Glob("../../docs/*.md"))
	curls, commands := 0, 0
	for _, path := range append(pages, "../../README.md") {
		page := musttest.New(os.ReadFile(path))
		for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
			for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", ""), "\n") {
				line = strings.TrimSpace(line)
				switch command := ofCommand.FindStringSubmatch(line); {
				case command != nil:
					hasFlags(t, path, command[1])
					commands++
				case ofSource.MatchString(line):
					assert.FileExists(t, filepath.Join("../..", ofSource.FindStringSubmatch(line)[1], "main.go"), path)
				case strings.HasPrefix(line, "make "):
					output, err := exec.Command("bash", "-c", "cd ../.. && "+line+" --dry-run").CombinedOutput()
					assert.NoError(t, err, "%s: %s: %s", path, line, output)
				case strings.HasPrefix(line, "export "):
					output, err := exec.Command("bash", "-euc", line).CombinedOutput()
					assert.NoError(t, err, "%s: %s: %s", path, line, output)
				case line != "" && !elsewhere.MatchString(line):
					assert.Regexp(t, "^curl ", line, path)
					curls++
					assert.Regexp(t, `^20\d|^404 .*/admin/grants/acme/[0-9a-f]+$`,
						curl(strings.ReplaceAll(line, "https://live.example.com", server)), "%s: %s", path, line)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, curls, 14)
	assert.GreaterOrEqual(t, commands, 10)
}

// curl runs a line of bash and returns the status of the answer and the URL. The example of a
// grant is nobody's.
func curl(line string) string {
	if _, stream := strings.CutPrefix(line, "curl -N"); stream {
		line += " --max-time 1" // it has no end
	}
	cmd := exec.Command("bash", "-c", line+` --silent --output /dev/null --write-out '%{http_code} %{url}'`)
	cmd.Env = append(os.Environ(), "KEY="+key, "ADMIN_KEY="+adminKey)
	output, _ := cmd.Output() // the status says whether it worked
	return string(output)
}

// hasFlags checks that the help of a command shows the flags of a line.
func hasFlags(t *testing.T, path, line string) {
	t.Helper()
	words, _, _ := strings.Cut(line, "--")
	p := ran(t, 0, append(strings.Fields(words), "--help")...)
	for _, flag := range docFlag.FindAllString(line, -1) {
		assert.Contains(t, p.Stdout.String(), flag, "%s: %s", path, line)
	}
}
