// Package proctest runs the module's commands as separate processes, and checks the properties that
// all of them share.
package proctest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/depstest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Command is one of the module's commands, built once.
type Command struct{ path string }

// BuildAndRun builds the command in a folder of the module at root and runs the
// tests. It is for TestMain.
func (c *Command) BuildAndRun(m *testing.M, root, folder string) int {
	dir, err := os.MkdirTemp("", "liveactivity")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := c.build(root, folder, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds the command in a folder of the module at root for the duration of
// a test.
func Build(t *testing.T, root, folder string) *Command {
	t.Helper()
	c := &Command{}
	require.NoError(t, c.build(root, folder, t.TempDir()))
	return c
}

// Predecessor returns the liveactivity-server that must be able to run next to this one: the previous
// release, as defined in scripts/test-deps.sh.
func Predecessor(t *testing.T) *Command {
	t.Helper()
	return &Command{depstest.File(t, "predecessor/liveactivity-server")}
}

// Path returns the path of the command, for tests that run it on their own.
func (c *Command) Path() string { return c.path }

// watch stats every file that may be part of a command, so that go test does not
// reuse a cached result of older sources.
func watch(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		_, _ = os.Stat(path) // go test records the access
		return err
	})
}

// build builds the command in the module's folder into dir, without data that only a debugger
// needs. go run links it once for the tests of all packages, and runs cp with it.
func (c *Command) build(root, folder, dir string) error {
	if err := watch(root); err != nil {
		return err
	}
	c.path = filepath.Join(dir, "command")
	cmd := exec.Command("go", "run", "-exec=cp", "-ldflags=-s -w", ".", c.path)
	cmd.Dir = filepath.Join(root, folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the command: %w\n%s", err, out)
	}
	return nil
}

// Process is a running command.
type Process struct {
	Stdout, Stderr logtest.Buffer

	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}
}

// Launch starts the command in an empty folder, with these arguments and only
// env as its environment. It is killed when the test ends.
func (c *Command) Launch(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	return Launch(t, exec.Command(c.path, args...), env)
}

// LaunchBy is like Launch, but through a line of bash, which finds the command
// and its arguments in "$0" and "$@" and must exec it.
func (c *Command) LaunchBy(t *testing.T, line string, args ...string) *Process {
	t.Helper()
	return Launch(t, exec.Command("bash", append([]string{"-c", line, c.path}, args...)...), nil)
}

// Launch starts cmd like [Command.Launch]. If cmd has a standard error, Stderr stays empty.
func Launch(t *testing.T, cmd *exec.Cmd, env []string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Dir = t.TempDir()
	if p.cmd.Stdout = &p.Stdout; p.cmd.Stderr == nil {
		p.cmd.Stderr = &p.Stderr
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is enough
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have already exited
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote\n%s", cmd.Path, &p.Stderr)
		}
	})
	return p
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// URL waits until the process listens and returns its URL.
func (p *Process) URL() (url string) {
	p.t.Helper()
	waittest.Until(p.t, "it listens or has ended", func() (ok bool) {
		url, ok = p.Listening()
		return ok || p.HasExited()
	})
	require.NotEmpty(p.t, url, "it did not start: %s", &p.Stderr)
	return url
}

// Listening returns the process's URL once it listens.
func (p *Process) Listening() (url string, ok bool) {
	match := listening.FindStringSubmatch(p.Stdout.String())
	if match == nil {
		return "", false
	}
	return match[1], true
}

// PID returns the process's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// HasExited reports whether the process has ended.
func (p *Process) HasExited() bool { return waittest.Fired(p.exited) }

// Wait waits for the process to end and returns its exit code.
func (p *Process) Wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		require.Fail(p.t, "it does not end", "%s", &p.Stderr)
		return -1
	}
}

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// SignalUntilExit sends the process a signal repeatedly until it exits, and returns
// the exit code.
func (p *Process) SignalUntilExit(sig os.Signal) int {
	p.t.Helper()
	waittest.Until(p.t, "it has ended", func() bool {
		_ = p.cmd.Process.Signal(sig) // it may have just ended
		return p.HasExited()
	})
	return p.cmd.ProcessState.ExitCode()
}

// Stop ends the process in the way an operator would.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	assert.Zero(p.t, p.Wait(20*time.Second), "%s", &p.Stderr)
}

// Kill ends the process like kill -9.
func (p *Process) Kill() {
	p.t.Helper()
	require.False(p.t, p.HasExited(), "it has ended by itself: %s", &p.Stderr)
	p.Signal(syscall.SIGKILL)
	<-p.exited
}
