package durability_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

// The tests of killing are as long as these environment variables say.
const (
	killsVar  = "LIVEACTIVITY_KILLS"  // how often TestKill_file kills its server
	faultsVar = "LIVEACTIVITY_FAULTS" // how many faults there are in each part of TestKill_redis
	seedVar   = "LIVEACTIVITY_SEED"   // of what is random; the order in which processes run is not
)

// What is enough for CI.
const (
	defaultKills  = 120
	defaultFaults = 40
)

var command proctest.Command

func TestMain(m *testing.M) {
	if config := os.Getenv(holderVar); config != "" {
		os.Exit(runHolder(config))
	}
	os.Exit(command.BuildAndRun(m, "../..", "cmd/liveactivity-server"))
}

// number returns the value of an environment variable, or what is preset.
func number(t *testing.T, name string, preset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return preset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// dice is where everything random of a test comes from: a generator for each
// of those who act, so that what one does is not changed by the others.
type dice struct {
	seed uint64
	mu   sync.Mutex
	next uint64
}

// newDice returns dice with the seed of the environment, or a new one.
func newDice(t *testing.T) *dice {
	t.Helper()
	seed := number(t, seedVar, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedVar, seed)
	return &dice{seed: seed}
}

// generator returns the next generator. It is for one goroutine.
func (d *dice) generator() *rand.Rand {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return rand.New(rand.NewPCG(d.seed, d.next))
}

// upTo returns a random duration below limit.
func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}
