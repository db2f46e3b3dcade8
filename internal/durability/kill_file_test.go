package durability_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server with a file of its own is killed again and again. Lookups and readers find everything
// that it has acknowledged, once and in order.
func TestKill_file(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 1, "--data-dir="+t.TempDir())
	k := &fileKiller{newKiller(s)}
	k.restart(0)
	s.fill(fillRequests, fillPages)
	s.beginAll()
	began := time.Now()
	kills := int(number(t, killsVar, defaultKills))
	for k.kills < kills {
		k.round()
	}
	t.Logf("%d kills, %.1f per second; %s", kills, float64(kills)/time.Since(began).Seconds(), s)
	s.end()
	k.terminate(0)
	k.startAll()
	s.audit()
}

// A server that is killed while it creates its file starts the next time.
func TestKill_fileWhileItIsMade(t *testing.T) {
	t.Parallel()
	for range births {
		s := newStorm(t, 1, "--data-dir="+filepath.Join(t.TempDir(), "data"))
		rng := s.dice.generator()
		for range 2 {
			l := s.start(s.servers[0])
			s.pause(upTo(rng, 25*time.Millisecond))
			l.Kill()
		}
		l := s.start(s.servers[0])
		s.fill(1, 1)
		l.Kill()
	}
}

const (
	births     = 10   // files created
	auditEvery = 40   // kills
	filler     = 2000 // the number of the client that fills the log
)

// The size of the log before the killing begins, so that reading it takes a while.
const (
	fillRequests = 4
	fillPages    = 1000
)

type fileKiller struct{ *killer }

// round kills the server at some moment and starts it again.
func (k *fileKiller) round() {
	switch p := k.rng.IntN(20); {
	case k.kills%auditEvery == auditEvery-1:
		k.ready(0)
		k.audit()
		return
	case p < 5: // while it starts, or has just begun
		k.pause(upTo(k.rng, 60*time.Millisecond))
	case p < 6: // while it stops
		k.ready(0)
		k.pause(upTo(k.rng, 150*time.Millisecond))
		k.stop()
		return
	case p < 10: // when it has just begun
		k.ready(0)
		k.pause(upTo(k.rng, 10*time.Millisecond))
	default:
		k.ready(0)
		k.pause(upTo(k.rng, 150*time.Millisecond))
	}
	k.kill(0)
	k.restart(0)
}

// stop asks the server to stop, does not always wait until it has, and starts it again.
func (k *fileKiller) stop() {
	if k.rng.IntN(2) == 0 {
		k.terminate(0)
	} else {
		k.life(0).Signal(syscall.SIGTERM)
		k.pause(upTo(k.rng, 20*time.Millisecond))
		require.LessOrEqual(k.t, k.life(0).SignalUntilExit(syscall.SIGKILL), 0, "the exit code")
		k.kills++
	}
	k.restart(0)
}

// fill sends so many requests of so many pages, twenty to a session.
func (s *storm) fill(requests, pages int) {
	c := &sender{storm: s, rng: s.dice.generator(), client: filler}
	for n := range requests {
		r := &request{client: c.client, number: n, fresh: pages}
		for i := range pages {
			r.pages = append(r.pages, c.page(r, session{fmt.Sprintf("fill-%d-%d", n, i/20), fmt.Sprintf("filler_%d", i/20)}))
		}
		s.truth.announce(r.pages...)
		r.encode(c.rng)
		c.insist(r)
	}
	s.require(nil)
}
