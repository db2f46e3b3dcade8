package proctest

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exitTime is the maximum time for a command with nothing to do to exit.
const exitTime = 20 * time.Second

// Flags are a command's flags, each with its variable, its default, and a value
// that it refuses ("" if it accepts any).
type Flags []struct{ Name, Env, Default, Bad string }

// CheckHelp checks that --help shows exactly these flags, each with its variable and its
// default. The environment does not change the help, and is not printed.
func (c *Command) CheckHelp(t *testing.T, env []string, flags Flags) {
	t.Helper()
	p := c.Launch(t, env, "--help")
	assert.Zero(t, p.Wait(exitTime))
	assert.Empty(t, p.Stderr.String())
	entries := helpEntries(p.Stdout.String())
	want := []string{"help", "version"}
	for _, f := range flags {
		want = append(want, f.Name)
		assert.Contains(t, entries[f.Name], "($"+f.Env+")")
		assert.Contains(t, entries[f.Name], f.Default)
	}
	assert.ElementsMatch(t, want, slices.Collect(maps.Keys(entries)))
	for _, e := range env {
		_, value, _ := strings.Cut(e, "=")
		assert.NotContains(t, p.Stdout.String(), value, "the environment is not printed")
	}
}

var flagName = regexp.MustCompile(`^ +(?:-\w, )?--([a-z-]+)`)

// helpEntries returns the text about each flag, from its name to the next flag's, on one
// line.
func helpEntries(help string) map[string]string {
	entries := map[string]string{}
	_, help, _ = strings.Cut(help, "\nFlags:\n")
	var name string
	for line := range strings.SplitSeq(help, "\n") {
		if match := flagName.FindStringSubmatch(line); match != nil {
			name = match[1]
		}
		if name != "" {
			entries[name] += strings.TrimSpace(line) + " "
		}
	}
	return entries
}

// CheckRefusals checks that the command, with the environment env, refuses to start with a bad
// value for any of the flags. Its message must name the flag or the variable, whichever was set, or
// the value.
func (c *Command) CheckRefusals(t *testing.T, env []string, flags Flags) {
	t.Helper()
	for _, f := range flags {
		if f.Bad == "" {
			continue
		}
		bad := regexp.QuoteMeta(f.Bad)
		t.Run(f.Name, func(t *testing.T) {
			assert.Regexp(t, "--"+f.Name+"[:,]|"+bad, Refused(t, c.Launch(t, env, "--"+f.Name+"="+f.Bad)))
		})
		t.Run(f.Env, func(t *testing.T) {
			assert.Regexp(t, f.Env+"[:,]|"+bad, Refused(t, c.Launch(t, append(slices.Clone(env), f.Env+"="+f.Bad))))
		})
	}
}

// CheckPortTaken starts two processes on one port, both with this environment and arguments. It
// checks that the second reports the conflict and does not disturb the first.
func (c *Command) CheckPortTaken(t *testing.T, env []string, args ...string) {
	t.Helper()
	first := c.Launch(t, env, append(slices.Clone(args), AnyPort)...)
	addr := strings.TrimPrefix(first.URL(), "http://")
	words := Refused(t, c.Launch(t, env, append(slices.Clone(args), "--addr="+addr)...))
	assert.Contains(t, words, "--addr: cannot listen on "+addr)
	assert.Contains(t, words, "address already in use")
	status, _ := Request(t, http.MethodGet, first.URL()+"/healthz", "")
	assert.Equal(t, http.StatusOK, status, "the first is not disturbed")
}

// CheckStartTime checks that the command listens within a second of its start.
// It tries several times, since other tests may keep the machine busy.
func (c *Command) CheckStartTime(t *testing.T, env []string, args ...string) {
	t.Helper()
	const attempts = 5
	least := time.Hour
	for range attempts {
		begun := time.Now()
		p := c.Launch(t, env, append(slices.Clone(args), AnyPort)...)
		p.URL()
		least = min(least, time.Since(begun))
		p.Kill()
		if least < time.Second {
			return
		}
	}
	assert.Less(t, least, time.Second, "in the best of %d starts", attempts)
}

// Refused checks that the command exited with code 1, a message on stderr and nothing on stdout,
// and returns the message.
func Refused(t *testing.T, p *Process) string {
	t.Helper()
	assert.Equal(t, 1, p.Wait(exitTime))
	assert.Empty(t, p.Stdout.String())
	assert.NotContains(t, p.Stderr.String(), "goroutine")
	require.NotEmpty(t, p.Stderr.String())
	return p.Stderr.String()
}
