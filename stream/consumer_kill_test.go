package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
)

// killedEnv makes the test binary a consumer that is to be killed. Its value
// is the folder where it keeps what it has done, a space and the URL of the
// stream.
const killedEnv = "LIVEACTIVITY_KILLED_CONSUMER"

func init() {
	dir, url, ok := strings.Cut(os.Getenv(killedEnv), " ")
	if !ok {
		return
	}
	go func() { // it ends with the test at the latest
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Fprintln(os.Stderr, runKilled(dir, url))
	os.Exit(1) // it does not end by itself
}

// fileCursor keeps a cursor in a file.
type fileCursor struct{ path string }

func (f fileCursor) Load(context.Context) (string, error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

func (f fileCursor) Save(_ context.Context, text string) error {
	if err := os.WriteFile(f.path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}

// runKilled consumes and writes a line into a ledger for each entry. One
// session in four is slow, and some entries take a moment before they are in
// the ledger, some after.
func runKilled(dir, url string) error {
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	pause := func(sessionID string) {
		limit := time.Millisecond
		if sessionID[len(sessionID)-1]%4 == 0 {
			limit = 10 * time.Millisecond
		}
		time.Sleep(time.Duration(rand.Int64N(int64(limit))))
	}
	c, err := stream.NewConsumer(url, "token", stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
		pause(b.SessionID)
		_, err := fmt.Fprintf(ledger, "%s %d\n", b.SessionID, b.Actions[0].Index)
		pause(b.SessionID)
		return err
	}}, &stream.ConsumerOptions{Since: time.Unix(0, 0), Cursor: fileCursor{filepath.Join(dir, "cursor")}, MaxPending: 100,
		MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// killed is a consumer process that is killed again and again.
type killed struct {
	dir, url string
	stderr   logtest.Buffer
}

// start starts the process and returns what kills it.
func (k *killed) start(t *testing.T) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killedEnv+"="+k.dir+" "+k.url)
	cmd.Stderr = &k.stderr
	_, err = cmd.StdinPipe() // closed by Wait
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it has not ended before, as is checked below
		_ = cmd.Wait()
		assert.Equal(t, -1, cmd.ProcessState.ExitCode(), "it was not killed but ended: %s", &k.stderr)
	})
	t.Cleanup(kill)
	return kill
}

// lines returns what is in the ledger. A line is written whole.
func (k *killed) lines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "ledger"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// distinct returns how many different lines there are.
func distinct(lines []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(lines))))
}

// audit is an account of what the processes so far have done.
type audit struct {
	done    map[string]int // how many entries of each session are handled
	read    int            // how many lines were looked at
	doubled int
}

// check looks at what a process has written that is over. Of each session it
// may have begun with the entry that the process before ended with; all else
// must come once and in order.
func (a *audit) check(t *testing.T, lines []string) {
	t.Helper()
	begun := map[string]bool{}
	for _, line := range lines[a.read:] {
		var session string
		var n int
		_, err := fmt.Sscanf(line, "%s %d", &session, &n)
		require.NoError(t, err, "%q", line)
		if !begun[session] && n == a.done[session]-1 {
			a.doubled++
		} else {
			require.Equal(t, a.done[session], n, "of %s", session)
			a.done[session]++
		}
		begun[session] = true
	}
	a.read = len(lines)
}

func (a *audit) total() (n int) {
	for _, done := range a.done {
		n += done
	}
	return n
}

// A consumer with a cursor store can be killed whenever: nothing is lost, and
// only what a handler was at work on comes again.
func TestConsumer_survivesKills(t *testing.T) {
	const kills, sessions, entries = 25, 12, 3000
	s := newStream(t, nil)
	k := &killed{dir: t.TempDir(), url: s.URL()}
	var sending sync.WaitGroup
	stop := make(chan struct{})
	defer sending.Wait()
	defer close(stop)
	sending.Go(func() {
		numbers := map[string]int{}
		for range entries {
			b := clicked(fmt.Sprint("session-", rand.IntN(sessions)), "x")
			b.Actions[0].Index = numbers[b.SessionID]
			numbers[b.SessionID]++
			s.Send(b)
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.Int64N(int64(2 * time.Millisecond)))):
			}
		}
	})
	a := &audit{done: map[string]int{}}
	for i := range kills {
		kill := k.start(t)
		if enough := a.read + rand.IntN(100); i%4 > 0 && enough < entries { // else whenever, also before it has begun
			waittest.Until(t, fmt.Sprintf("%d lines are written", enough), func() bool { return len(k.lines(t)) >= enough })
		}
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond)))) // when it is killed
		kill()
		a.check(t, k.lines(t))
	}
	kill := k.start(t)
	sending.Wait()
	waittest.Until(t, "all is handled", func() bool { return distinct(k.lines(t)) == entries })
	kill()
	a.check(t, k.lines(t))
	t.Logf("%d entries of %d came again after %d kills", a.doubled, entries, kills)
	assert.Equal(t, entries, a.total())
	assert.LessOrEqual(t, a.doubled, kills*sessions)
	assert.Positive(t, a.doubled, "the kills met nothing at work")
}
