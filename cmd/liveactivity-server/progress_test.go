package main_test

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/jsontext"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
)

// largeEntries is the number of entries in a large log.
const largeEntries = 1200

// largeLog makes a log of acme that takes a while to read back.
func largeLog(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	log, err := boltlog.Open(dir, nil)
	require.NoError(t, err)
	now := activity.Seconds(time.Now())
	b := activity.Batch{Type: activity.BatchType, ProductID: "acme", SessionID: "s", UserID: "u", ForwardedAt: now}
	for i := range 50 {
		a := activity.NewAction(activity.TypePageview, activity.Target{},
			fmt.Sprintf("https://app.example.com/%d/%s", i, strings.Repeat("x", 200)))
		a.TimestampStart, a.TimestampEnd = now, now
		b.Actions = append(b.Actions, activity.BatchAction{Action: a, SessionID: b.SessionID, UserID: b.UserID})
	}
	b.Count = len(b.Actions)
	data, err := jsontext.Marshal(&b)
	require.NoError(t, err)
	entries := slices.Repeat([]eventlog.Entry{{SessionID: b.SessionID, Data: data}}, largeEntries)
	for portion := range slices.Chunk(entries, largeEntries/4) {
		require.NoError(t, log.Append(t.Context(), "acme", portion))
	}
	require.NoError(t, log.Release())
	return dir
}

var barShown = regexp.MustCompile(`\r\x1b\[K\[ *=* *\] +\d+ %  reading the log back: [ \d,]{5} of 1,200 entries`)

// launchOnTerminal starts the command with a terminal of 80 columns as standard error. Stderr
// then holds the terminal output, including control characters.
func launchOnTerminal(t *testing.T, env []string, args ...string) *proctest.Process {
	t.Helper()
	screen, tty, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	require.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 80}))
	cmd := exec.Command(command.Path(), args...)
	cmd.Stderr = tty
	p := proctest.Launch(t, cmd, env)
	require.NoError(t, tty.Close()) // the process has its own copy
	go func() { _, _ = io.Copy(&p.Stderr, screen) }()
	return p
}

// On a terminal the progress through a large log is a bar. Elsewhere it is plain text.
func TestStart_showsHowFarTheLogIsReadBack(t *testing.T) {
	t.Parallel()
	args := []string{anyPort, "--config=" + acme(t), "--data-dir=" + largeLog(t)}
	const readBack = `msg="the log was read back" entries=1200`
	shown := launchOnTerminal(t, []string{"GOMAXPROCS=1", "TERM=xterm"}, args...)
	waittest.Until(t, "the log is read back", func() bool { return strings.Contains(shown.Stderr.String(), readBack) })
	shown.URL()
	shown.Stop()
	text := shown.Stderr.String()
	bars := barShown.FindAllString(text, -1)
	require.NotEmpty(t, bars, "%q", text)
	_, after, _ := strings.Cut(text, readBack)
	steps := slices.Compact(barShown.FindAllString(after, -1))
	assert.LessOrEqual(t, len(steps), 1, "no more than the step that was about to be shown: %q", steps)

	logged := launch(t, nil, args...)
	waittest.Until(t, "the log is read back", func() bool { return strings.Contains(logged.Stderr.String(), readBack) })
	logged.Stop()
	assert.NotContains(t, logged.Stderr.String(), "\x1b")
}

// Neither a new log nor an empty one shows progress.
func TestStart_saysNothingOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	dir := ""
	for _, isFirst := range []bool{true, false} {
		waittest.Until(t, "a start is quick and shows nothing", func() bool { // a busy machine may take long, and say so
			if isFirst {
				dir = t.TempDir()
			}
			p := launchOnTerminal(t, []string{"TERM=xterm"}, anyPort, "--config="+acme(t), "--data-dir="+dir)
			p.URL()
			time.Sleep(500 * time.Millisecond) // longer than anything quick
			p.Stop()
			assert.NotContains(t, p.Stderr.String(), "read back")
			return !strings.Contains(p.Stderr.String(), "\x1b")
		})
	}
}

func TestStop_logsTheTotals(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, anyPort, "--config="+acme(t))
	url := p.URL()
	openStream(t, url)
	event := pageview("u1", "https://app.example.com/a")
	post(t, url, event)
	post(t, url, event)
	post(t, url, `{"event":"$rageclick","distinct_id":"ada"}`)
	p.Stop()
	assert.Regexp(t, `msg=stopped ran=[\d.]+m?s accepted=1 ignored=1 duplicate=1 actions=1 notes=0 summaries=0 offers=0 `+
		`readers=1 readers_cut_off=0\n`, p.Stderr.String())
}
