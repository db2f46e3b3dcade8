package pages_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
)

// The pages' scripts fit their types, those in JSDoc included, and pass the linter.
func TestScripts_areTypeCheckedAndLinted(t *testing.T) {
	const root = "../.."
	folders := []string{"internal/pages", "internal/console/page", "internal/demo/page", "bridge/page", "examples"}
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			_, _ = os.Stat(path) // go test takes note of it
			return err
		}))
	}
	modules := depstest.Modules(t, depstest.Lint)
	for name, args := range map[string][]string{
		"tsc": {filepath.Join(modules, "typescript/bin/tsc"), "--project", "internal/pages"},
		"oxlint": append([]string{filepath.Join(modules, "oxlint/bin/oxlint"), "--deny-warnings", "--deny=correctness",
			"--deny=eqeqeq",
			"--deny=no-shadow", "--deny=no-var"}, folders...),
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(depstest.Command(t, "node"), args...)
			cmd.Dir = root
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}
