package durability_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// A server with a file of its own is killed again and again. Whatever it has
// acknowledged is there, once and in order, for lookups and for readers.
func TestKill_file(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 1, "--data-dir="+t.TempDir())
	k := &fileKiller{storm: s, rng: s.dice.generator()}
	k.life = s.start(s.servers[0])
	s.fill(fillRequests, fillPages)
	s.send(4)
	s.follow(2)
	s.register(250 * time.Millisecond)
	s.probe()
	began := time.Now()
	kills := int(number(t, killsVar, defaultKills))
	for k.kills < kills {
		k.round()
	}
	t.Logf("%d kills, %.1f per second; %s", kills, float64(kills)/time.Since(began).Seconds(), s)
	s.end()
	s.require(k.life.terminate())
	k.restart()
	s.audit()
}

// A server that is killed while it makes its file starts the next time.
func TestKill_fileWhileItIsMade(t *testing.T) {
	t.Parallel()
	for range births {
		s := newStorm(t, 1, "--data-dir="+filepath.Join(t.TempDir(), "data"))
		rng := s.dice.generator()
		for range 2 {
			l := s.start(s.servers[0])
			s.pause(upTo(rng, 25*time.Millisecond))
			s.require(l.kill())
		}
		l := s.start(s.servers[0])
		s.fill(1, 1)
		s.require(l.kill())
	}
}

// births is how many files are made.
const births = 10

// What the log holds before the killing begins, so that reading it takes a while.
const (
	fillRequests = 4
	fillPages    = 1000
)

// fileKiller kills the one server of a storm.
type fileKiller struct {
	storm *storm
	rng   *rand.Rand
	life  *life
	kills int
}

// auditEvery is how many kills there are between two audits.
const auditEvery = 40

// round kills the server at some moment and starts it again.
func (k *fileKiller) round() {
	s := k.storm
	switch p := k.rng.IntN(20); {
	case k.kills%auditEvery == auditEvery-1:
		k.audit()
		return
	case p < 5: // while it starts, or has just begun
		s.pause(upTo(k.rng, 60*time.Millisecond))
	case p < 6: // while it stops
		s.require(k.life.ready(s.ctx))
		s.pause(upTo(k.rng, 150*time.Millisecond))
		k.stop()
		return
	case p < 10: // when it has just begun
		s.require(k.life.ready(s.ctx))
		s.pause(upTo(k.rng, 10*time.Millisecond))
	default:
		s.require(k.life.ready(s.ctx))
		s.pause(upTo(k.rng, 150*time.Millisecond))
	}
	k.kill()
}

// kill kills the server and starts it again.
func (k *fileKiller) kill() {
	k.storm.require(k.life.kill())
	k.kills++
	k.life = k.storm.start(k.storm.servers[0])
}

// stop asks the server to stop and does not always wait until it has.
func (k *fileKiller) stop() {
	if k.rng.IntN(2) == 0 {
		k.storm.require(k.life.terminate())
		k.life = k.storm.start(k.storm.servers[0])
		return
	}
	k.storm.require(k.life.interrupt())
	k.storm.pause(upTo(k.rng, 20*time.Millisecond))
	k.storm.require(k.life.finish())
	k.kills++
	k.life = k.storm.start(k.storm.servers[0])
}

// restart starts the server and waits until it listens.
func (k *fileKiller) restart() {
	k.life = k.storm.start(k.storm.servers[0])
	k.storm.require(k.life.ready(k.storm.ctx))
}

// audit waits until no sender is active, kills the server, and compares what is
// there then with the truth.
func (k *fileKiller) audit() {
	s := k.storm
	s.require(k.life.ready(s.ctx))
	s.calm.Lock()
	defer s.calm.Unlock()
	s.require(k.life.kill())
	k.kills++
	k.restart()
	s.audit()
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

// filler is the number of the client that fills the log.
const filler = 2000
