// Package proctest runs the module's commands as processes of their own.
package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/logtest"
)

// Command is a command of the module, built once.
type Command struct{ path string }

// BuildAndRun builds the command in the current folder and runs the tests: it
// is for TestMain.
func (c *Command) BuildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "liveactivity")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	c.path = filepath.Join(dir, "command")
	if out, err := exec.Command("go", "build", "-o", c.path, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Process is a command at work.
type Process struct {
	Stdout, Stderr logtest.Buffer

	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}
}

// Launch starts the command in an empty folder, with these arguments and no
// environment but env. It is killed at the end of the test.
func (c *Command) Launch(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(c.path, args...), exited: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have exited by now
		<-p.exited
	})
	return p
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// URL waits until the process listens and returns where.
func (p *Process) URL() string {
	p.t.Helper()
	var url string
	require.Eventually(p.t, func() bool {
		match := listening.FindStringSubmatch(p.Stdout.String())
		if match != nil {
			url = match[1]
		}
		return match != nil || p.HasExited()
	}, 20*time.Second, time.Millisecond)
	require.NotEmpty(p.t, url, "it did not start: %s", &p.Stderr)
	return url
}

// HasExited reports whether the process has ended.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Wait waits for the end and returns the exit code.
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

// Stop ends the process as an operator would.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	assert.Zero(p.t, p.Wait(20*time.Second), "%s", &p.Stderr)
}
