//go:build linux || darwin

package liveactivity_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// The test runs in a process of its own. For a while its files may not grow, as on a full disk.
func TestDataDir_mayBeFull(t *testing.T) {
	const child = "LIVEACTIVITY_TEST_FULL_DISK"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	dir := t.TempDir()
	s := start(t, withDataDir(dir))
	var unlimited syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &unlimited))
	fullStorage(t, s, func() {
		info := musttest.New(os.Stat(filepath.Join(dir, boltlog.FileName)))
		limit := unlimited
		limit.Cur = uint64(info.Size())
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	}, func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &unlimited)) })
}
