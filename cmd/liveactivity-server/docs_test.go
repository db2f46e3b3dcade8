package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

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
