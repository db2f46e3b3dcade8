package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// parsed returns a YAML file below the root of the repository.
func parsed(t *testing.T, path string) object {
	t.Helper()
	var o object
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "../"+path)), &o), path)
	return o
}

func TestRelease_hasEveryCommandForEveryPlatform(t *testing.T) {
	commands := musttest.New(filepath.Glob("../../cmd/*/main.go"))
	var built, want []string
	for _, command := range commands {
		want = append(want, "./cmd/"+filepath.Base(filepath.Dir(command)))
	}
	for _, b := range at[[]any](t, parsed(t, ".goreleaser.yaml"), "builds") {
		built = append(built, at[string](t, b, "main"))
		assert.Equal(t, []any{"linux", "darwin", "windows"}, at[[]any](t, b, "goos"))
		assert.Equal(t, []any{"amd64", "arm64"}, at[[]any](t, b, "goarch"))
		assert.Contains(t, at[[]any](t, b, "flags"), "-trimpath", "builds are reproducible")
	}
	slices.Sort(built)
	assert.Equal(t, want, built)
}

func TestWorkflows_areYAML(t *testing.T) {
	paths := musttest.New(filepath.Glob("../../.github/*/*.yml"))
	require.NotEmpty(t, paths)
	for _, path := range paths {
		assert.NotEmpty(t, parsed(t, filepath.Join(".github", filepath.Base(filepath.Dir(path)), filepath.Base(path))))
	}
}

// The products of the chart's values form a valid product file.
func TestChart_hasProductsThatAreValid(t *testing.T) {
	products := musttest.New(json.Marshal(at[object](t, parsed(t, "deploy/chart/values.yaml"), "products")))
	file := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(file, products, 0o600))
	_, _, err := liveactivity.LoadFile(file, func(string) (string, bool) { return "x", true }, nil)
	require.NoError(t, err)
}

// The documented verification names the files and the workflow of the signature.
func TestRelease_isVerifiedByTheIdentityThatSignsIt(t *testing.T) {
	sign := at[object](t, parsed(t, ".goreleaser.yaml"), "signs.0")
	sums := at[string](t, parsed(t, ".goreleaser.yaml"), "checksum.name_template")
	bundle := strings.ReplaceAll(at[string](t, sign, "signature"), "${artifact}", sums)
	page := read(t, "../docs/security.md")
	assert.Contains(t, page, "cosign verify-blob "+sums+" --bundle "+bundle)
	workflow := regexp.MustCompile(`/(\.github/workflows/\w+\.yml)@'`).FindStringSubmatch(page)
	require.NotNil(t, workflow)
	steps := at[[]any](t, parsed(t, workflow[1]), "jobs.release.steps")
	assert.Contains(t, fmt.Sprint(steps...), "goreleaser/goreleaser-action")
}

// A change that breaks importers of the module is found and must be announced.
func TestAPICheck_comparesWithTheLastTag(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../scripts/apicheck.sh")
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	commit := func(tag ...string) {
		for _, args := range append([][]string{{"add", "."}, {"commit", "-m", "x"}}, tag) {
			output, err := run("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
			require.NoError(t, err, output)
		}
	}
	_, err = run("git", "init", "--quiet")
	require.NoError(t, err)
	write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	write("shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int) {}\n")
	write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n\n### Changed\n")
	commit("tag", "unrelated")

	for _, step := range []struct{ do, file, content, tag, says string }{
		{"no tag", "shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int) {}\n", "", "no version is tagged yet"},
		{"an addition", "more.go", "package shop\n\n// Sell sells.\nfunc Sell() {}\n", "v0.1.0", "compatible with v0.1.0"},
		{"a change", "shop.go", "package shop\n\n// Buy buys.\nfunc Buy(n int64) {}\n", "", "announce it in CHANGELOG.md"},
		{"a change that is announced", "CHANGELOG.md", "## [Unreleased]\n\n### Changed\n\n## [0.1.0]\n", "",
			"Buy: changed from func(int) to func(int64)"},
	} {
		if step.tag != "" {
			_, err := run("git", "tag", step.tag)
			require.NoError(t, err)
		}
		write(step.file, step.content)
		output, err := run(script)
		assert.Contains(t, output, step.says, step.do)
		assert.Equal(t, step.do == "a change", err != nil, "%s: %s", step.do, output)
	}
	commit("tag", "v1.0.0")
	write("shop.go", "package shop\n")
	output, err := run(script)
	assert.Error(t, err, "from 1.0 on nothing breaks")
	assert.Contains(t, output, "Buy: removed")
}
