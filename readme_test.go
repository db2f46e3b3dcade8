package liveactivity_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestREADME_showsCodeThatRuns makes sure that every Go block of the README
// stands, up to indentation, in the examples, which the tests compile and run.
func TestREADME_showsCodeThatRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	blocks := goBlock.FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.Contains(t, unindented(string(examples)), unindented(block[1]))
	}
}

// TestREADME_showsTheSnippet makes sure that the script in the README is the one
// that is generated.
func TestREADME_showsTheSnippet(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	snippet, err := connector.Snippet("https://live.example.com", "acme", "")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```html\n"+snippet+"```\n")
}

// TestREADME_showsConfigurationsThatAreValid makes sure that what is pasted from the
// README is taken.
func TestREADME_showsConfigurationsThatAreValid(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	whole, parts := 0, 0
	for _, block := range jsonBlock.FindAllStringSubmatch(string(readme), -1) {
		config := block[1]
		switch trimmed := strings.TrimSpace(config); {
		case strings.HasPrefix(trimmed, `"signing_secret"`):
			config, parts = `{"products": [{"product_id": "acme", "integration_config": {"zendesk": {"base_url": "https://acme.zendesk.com", "oauth_token": "x",`+config+`}}}]}`, parts+1
		case strings.HasPrefix(trimmed, `"intercom"`), strings.HasPrefix(trimmed, `"proactive"`):
			config, parts = `{"products": [{"product_id": "acme", "integration_config": {`+config+`}}]}`, parts+1
		case strings.Contains(config, `"products"`):
			whole++
		default:
			continue
		}
		path := filepath.Join(t.TempDir(), "products.json")
		require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
		_, _, err := liveactivity.LoadFile(path, func(string) (string, bool) { return "x", true }, nil)
		require.NoError(t, err, config)
	}
	require.Equal(t, 2, whole)
	require.Equal(t, 3, parts)
}

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")

func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
