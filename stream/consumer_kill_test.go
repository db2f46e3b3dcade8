package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
)

// mortal is a consumer that can end like one whose process is killed. Only its finished entries and
// its saves up to then remain.
type mortal struct {
	url    string
	cursor memoryCursor
	done   notes // a line for each entry
}

// start starts the consumer and returns a function that kills it. One session in four is slow.
// Every entry takes a moment before it is done, and another one after.
func (m *mortal) start(t *testing.T) (kill func()) {
	t.Helper()
	var dead atomic.Bool // nothing counts any more
	pause := func(sessionID string) {
		limit := time.Millisecond
		if sessionID[len(sessionID)-1]%4 == 0 {
			limit = 10 * time.Millisecond
		}
		time.Sleep(time.Duration(rand.Int64N(int64(limit))))
	}
	m.cursor.saving = func(string) (error, bool) { return nil, dead.Load() }
	opts := quick()
	opts.Since, opts.Cursor, opts.MaxPending = time.Unix(0, 0), &m.cursor, 100
	c := startConsumer(t, m.url, stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
		pause(b.SessionID)
		if !dead.Load() {
			m.done.add("%s %d", b.SessionID, b.Actions[0].Index)
		}
		pause(b.SessionID)
		return nil
	}}, opts)
	return func() {
		dead.Store(true)
		c.stop(t)
	}
}

// distinct returns how many different lines there are.
func distinct(lines []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(lines))))
}

// audit is an account of the entries that the consumers so far have handled.
type audit struct {
	done    map[string]int // how many entries of each session are handled
	read    int            // how many lines were looked at
	doubled int
}

// check checks the entries handled by a consumer that has ended. In each session the consumer may
// have begun with the last entry of the one before it. All other entries must come once and in
// order.
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

// A consumer with a cursor store can be killed at any time: no entry is lost, and only the entries
// that a handler was at work on come again.
func TestConsumer_survivesKills(t *testing.T) {
	const kills, sessions, entries = 25, 12, 3000
	s := newStream(t, nil)
	m := &mortal{url: s.URL(), cursor: memoryCursor{t: t}}
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
		kill := m.start(t)
		if enough := a.read + rand.IntN(100); i%4 > 0 && enough < entries { // else whenever, also before it has begun
			waittest.Until(t, fmt.Sprintf("%d entries are done", enough), func() bool { return len(m.done.all()) >= enough })
		}
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond)))) // when it is killed
		kill()
		a.check(t, m.done.all())
	}
	kill := m.start(t)
	sending.Wait()
	waittest.Until(t, "all is handled", func() bool { return distinct(m.done.all()) == entries })
	kill()
	a.check(t, m.done.all())
	t.Logf("%d entries of %d came again after %d kills", a.doubled, entries, kills)
	assert.Equal(t, entries, a.total())
	assert.LessOrEqual(t, a.doubled, kills*sessions)
	assert.Positive(t, a.doubled, "the kills met nothing at work")
}
