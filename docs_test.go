package liveactivity_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// documentation returns the README and the pages of docs, by path.
func documentation() map[string]string {
	paths := musttest.New(filepath.Glob("docs/*.md"))
	pages := map[string]string{}
	for _, path := range append(paths, "README.md") {
		page := musttest.New(os.ReadFile(path))
		pages[path] = string(page)
	}
	return pages
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Every Go block of the documentation stands in the examples, apart from indentation. The tests
// compile and run the examples.
func TestDocs_showCodeThatRuns(t *testing.T) {
	examples := musttest.New(os.ReadFile("example_test.go"))
	blocks := 0
	for path, page := range documentation() {
		for _, block := range goBlock.FindAllStringSubmatch(page, -1) {
			assert.Contains(t, unindented(string(examples)), unindented(block[1]), path)
			blocks++
		}
	}
	require.Positive(t, blocks)
}

// The script in the documentation is the generated one.
func TestDocs_showTheSnippet(t *testing.T) {
	snippet := musttest.New(connector.Snippet("https://live.example.com", "acme", ""))
	require.Contains(t, documentation()["docs/help-desks.md"], "```html\n"+snippet+"```\n")
}

// A configuration pasted from the documentation into a product file loads.
func TestDocs_showConfigurationsThatAreValid(t *testing.T) {
	whole, parts := 0, 0
	for path, page := range documentation() {
		for _, block := range jsonBlock.FindAllStringSubmatch(page, -1) {
			config := block[1]
			switch trimmed := strings.TrimSpace(config); {
			case strings.HasPrefix(trimmed, `"signing_secret"`):
				config, parts = `{"products": [{"product_id": "acme", "integration_config": {"zendesk": {"base_url": `+
					`"https://acme.zendesk.com", "oauth_token": "x",`+config+`}}}]}`, parts+1
			case strings.HasPrefix(trimmed, `"intercom"`), strings.HasPrefix(trimmed, `"proactive"`):
				config, parts = `{"products": [{"product_id": "acme", "integration_config": {`+config+`}}]}`, parts+1
			case strings.HasPrefix(trimmed, `"identity"`):
				config, parts = `{"products": [{"product_id": "acme", `+config+`}]}`, parts+1
			case strings.Contains(config, `"products"`):
				whole++
			default:
				continue
			}
			file := filepath.Join(t.TempDir(), "products.json")
			require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
			_, _, err := liveactivity.LoadFile(file, func(string) (string, bool) { return "x", true }, nil)
			require.NoError(t, err, "%s: %s", path, config)
		}
	}
	require.Equal(t, 3, whole)
	require.Equal(t, 4, parts)
}

var (
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")
	fenced    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// A link between the pages, or to a file, leads to an existing target.
func TestDocs_linkToExistingTargets(t *testing.T) {
	pages := documentation()
	for path, page := range pages {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			target, anchor, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			_, err := os.Stat(file)
			assert.NoError(t, err, "%s: %s", path, m[0])
			if anchor != "" {
				assert.Contains(t, anchors(pages[file]), anchor, "%s: %s", path, m[0])
			}
		}
	}
}

// anchors returns the anchors of a page's headings.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		words := strings.ToLower(strings.Map(func(r rune) rune {
			if strings.ContainsRune("`,.:?!'()/", r) {
				return -1
			}
			return r
		}, m[1]))
		all = append(all, strings.ReplaceAll(words, " ", "-"))
	}
	return all
}

// A newcomer reads the README to its end.
func TestREADME_isShort(t *testing.T) {
	assert.LessOrEqual(t, len(strings.Fields(documentation()["README.md"])), 1200)
}

func unindented(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
