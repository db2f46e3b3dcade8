package durability_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// server is a place where the command runs, is killed and runs again.
type server struct {
	name   string
	path   string
	args   []string
	stderr tail // of all its lives

	address atomic.Pointer[string] // nil while it takes no requests
}

// life is one process of a server.
type life struct {
	server    *server
	cmd       *exec.Cmd
	listening chan struct{} // closed when it takes requests
	exited    chan struct{} // closed when it is gone
	code      int           // the exit code then, -1 after a signal
}

// url returns the address that the server listens at, if it does.
func (s *server) url() (string, bool) {
	address := s.address.Load()
	if address == nil {
		return "", false
	}
	return *address, true
}

// start starts a process. The one before must be gone.
func (s *server) start() (*life, error) {
	l := &life{server: s, cmd: exec.Command(s.path, s.args...), listening: make(chan struct{}),
		exited: make(chan struct{})}
	l.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	l.cmd.Stderr = &s.stderr
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	fmt.Fprintf(&s.stderr, "--- process %d\n", l.cmd.Process.Pid)
	go l.follow(stdout)
	return l, nil
}

// follow waits for the process to listen, and then for its end.
func (l *life) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			l.server.address.Store(&url)
			close(l.listening)
		}
	}
	_ = l.cmd.Wait() // the exit code says enough
	l.code = l.cmd.ProcessState.ExitCode()
	l.server.address.Store(nil)
	close(l.exited)
}

// Errors of a life.
var (
	errEnded = errors.New("the process has ended by itself")
	errSlow  = errors.New("it takes too long")
)

// ready waits until the process takes requests.
func (l *life) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	select {
	case <-l.listening:
		return nil
	case <-l.exited:
		return fmt.Errorf("%s: starting: %w with code %d", l.server.name, errEnded, l.code)
	case <-ctx.Done():
		return fmt.Errorf("%s: starting: %w", l.server.name, context.Cause(ctx))
	}
}

// kill ends the process as kill -9 does, and fails if it has ended already.
func (l *life) kill() error {
	select {
	case <-l.exited:
		return fmt.Errorf("%s: %w with code %d", l.server.name, errEnded, l.code)
	default:
	}
	_ = l.cmd.Process.Kill() // it is there, or has ended this moment
	<-l.exited
	return nil
}

// interrupt asks the process to end, and does not wait for it.
func (l *life) interrupt() error {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: SIGTERM: %w", l.server.name, err)
	}
	return nil
}

// stopTime bounds the time of a stop: the ten seconds that a server promises, and some for a busy
// machine.
const stopTime = 15 * time.Second

// terminate ends the process as an operator does, and fails unless it ends
// well and in time.
func (l *life) terminate() error {
	if err := l.interrupt(); err != nil {
		return err
	}
	select {
	case <-l.exited:
	case <-time.After(stopTime):
		return fmt.Errorf("%s: after SIGTERM: %w", l.server.name, errSlow)
	}
	if l.code != 0 {
		return fmt.Errorf("%s: after SIGTERM: exit code %d", l.server.name, l.code)
	}
	if strings.Contains(l.server.stderr.String(), streamsCut) {
		return fmt.Errorf("%s: after SIGTERM: %s", l.server.name, streamsCut)
	}
	return nil
}

// streamsCut is the log message of a server that could not send its streams all of their data.
const streamsCut = "streams were cut off"

// finish kills a process that was asked to end, unless it has ended well.
func (l *life) finish() error {
	_ = l.cmd.Process.Kill() // it may have ended
	<-l.exited
	if l.code > 0 {
		return fmt.Errorf("%s: after SIGTERM: exit code %d", l.server.name, l.code)
	}
	return nil
}

// killer kills the servers of a storm, and starts them again.
type killer struct {
	*storm
	rng   *rand.Rand
	lives []*life // of the servers
	kills int
}

func newKiller(s *storm) *killer {
	return &killer{storm: s, rng: s.dice.generator(), lives: make([]*life, len(s.servers))}
}

// restart starts a server whose process is gone.
func (k *killer) restart(i int) { k.lives[i] = k.start(k.servers[i]) }

// ready waits until a server listens.
func (k *killer) ready(i int) { k.require(k.lives[i].ready(k.ctx)) }

// kill kills a server, which may be starting.
func (k *killer) kill(i int) {
	k.require(k.lives[i].kill())
	k.kills++
}

// terminate ends a server as an operator does.
func (k *killer) terminate(i int) { k.require(k.lives[i].terminate()) }

// startAll starts the servers and waits until they listen.
func (k *killer) startAll() {
	for i := range k.lives {
		k.restart(i)
	}
	for i := range k.lives {
		k.ready(i)
	}
}

func (k *killer) killAll() {
	for i := range k.lives {
		k.kill(i)
	}
}

func (k *killer) terminateAll() {
	for i := range k.lives {
		k.ready(i)
		k.terminate(i)
	}
}

// audit waits until no sender is active and kills all servers, so that nothing is in flight. Then
// it compares the stored data with the truth.
func (k *killer) audit() {
	k.calm.Lock()
	defer k.calm.Unlock()
	k.killAll()
	k.startAll()
	k.storm.audit()
}

// tailBytes is the size of the end of a server's output that a failed test shows.
const tailBytes = 6 << 10

// tail keeps the end of the text written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailBytes {
		t.b = append([]byte(nil), t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

// String returns the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b[max(0, len(t.b)-tailBytes):])
}
