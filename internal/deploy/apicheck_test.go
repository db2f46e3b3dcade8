package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
