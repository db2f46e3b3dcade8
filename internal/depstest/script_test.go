package depstest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The script asks a person before it installs anything. It installs without asking where nobody can
// answer. Without apt-get it tells the user to install the programs.
func TestScript_asksBeforeItInstalls(t *testing.T) {
	const question = "redis-server is missing. Install"
	for name, tt := range map[string]struct {
		system, answer, ci string
		isTerminal         bool
		says               string
		installs, asks     bool
	}{
		"no terminal":      {system: "Linux", says: "could not install", installs: true},
		"CI on a terminal": {system: "Linux", isTerminal: true, ci: "true", says: "could not install", installs: true},
		"a person says yes": {system: "Linux", isTerminal: true, answer: "y\n", says: "could not install",
			installs: true, asks: true},
		"a person says no": {system: "Linux", isTerminal: true, answer: "n\n", says: "nothing was installed", asks: true},
		"a person at a Mac": {system: "Darwin", isTerminal: true,
			says: "redis-server is missing: run brew install redis, then"},
		"an unknown system": {system: "Plan9", isTerminal: true, says: "redis-server is missing: install it by hand, then"},
		"only Return":       {system: "Linux", isTerminal: true, answer: "\n", says: "nothing was installed", asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, content string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o700))
			}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "scripts"), 0o700))
			for _, tool := range []string{"bash", "cat", "dirname", "env", "id", "mkdir", "mktemp", "rm"} {
				path, err := exec.LookPath(tool)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(path, filepath.Join(dir, "bin", tool)))
			}
			write("bin/uname", "#!/bin/sh\necho "+tt.system+"\n")
			if tt.system == "Linux" {
				write("bin/apt-get", "#!/bin/sh\necho x > "+dir+"/installed\n[ \"$1\" = update ]\n")
				write("bin/sudo", "#!/bin/sh\nexec \"$@\"\n")
			}
			script, err := os.ReadFile("../../scripts/test-deps.sh")
			require.NoError(t, err)
			write("scripts/test-deps.sh", string(script))

			cmd := exec.Command("/bin/bash", filepath.Join(dir, "scripts/test-deps.sh"))
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin"), "CI=" + tt.ci}
			if tt.isTerminal {
				screen, tty, err := pty.Open()
				require.NoError(t, err)
				defer screen.Close()
				defer tty.Close()
				_, err = io.WriteString(screen, tt.answer)
				require.NoError(t, err)
				cmd.Stdin = tty
			}
			output, err := cmd.CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(output), tt.says)
			assert.Equal(t, tt.asks, strings.HasPrefix(string(output), question), "%s", output)
			_, err = os.Stat(filepath.Join(dir, "installed"))
			assert.Equal(t, tt.installs, err == nil)
		})
	}
}
