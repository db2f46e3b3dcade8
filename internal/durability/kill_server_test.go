package durability_test

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// server is a place where the command runs, is killed and runs again.
type server struct {
	name string
	path string
	args []string
	life atomic.Pointer[proctest.Process] // the newest, nil before the first
}

// url returns the address that the server listens at, if it does.
func (s *server) url() (string, bool) {
	if life := s.life.Load(); life != nil && !life.HasExited() {
		return life.Listening()
	}
	return "", false
}

// stopTime bounds the time of a stop: the ten seconds that a server promises, and some for a busy
// machine.
const stopTime = 15 * time.Second

// streamsCut is the log message of a server that could not send its streams all of their data.
const streamsCut = "streams were cut off"

// killer kills the servers of a storm, and starts them again.
type killer struct {
	*storm
	rng   *rand.Rand
	kills int
}

func newKiller(s *storm) *killer {
	return &killer{storm: s, rng: s.dice.generator()}
}

// life returns a server's process.
func (k *killer) life(i int) *proctest.Process { return k.servers[i].life.Load() }

// restart starts a server whose process is gone.
func (k *killer) restart(i int) { k.start(k.servers[i]) }

// ready waits until a server listens.
func (k *killer) ready(i int) { k.life(i).URL() }

// kill kills a server, which may be starting.
func (k *killer) kill(i int) {
	k.life(i).Kill()
	k.kills++
}

// terminate ends a server as an operator does. The server must end well and in time.
func (k *killer) terminate(i int) {
	life := k.life(i)
	life.Signal(syscall.SIGTERM)
	require.Zero(k.t, life.Wait(stopTime), k.servers[i].name)
	require.NotContains(k.t, life.Stderr.String(), streamsCut, k.servers[i].name)
}

// startAll starts the servers and waits until they listen.
func (k *killer) startAll() {
	for i := range k.servers {
		k.restart(i)
	}
	for i := range k.servers {
		k.ready(i)
	}
}

func (k *killer) killAll() {
	for i := range k.servers {
		k.kill(i)
	}
}

func (k *killer) terminateAll() {
	for i := range k.servers {
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
