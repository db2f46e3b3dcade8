package durability_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/proctest"
)

// The settings of every server.
const (
	product       = "acme"
	webhookSecret = "whs-s3cr3t"
	productKey    = "lak-s3cr3t"
	adminKey      = "admin-s3cr3t"
)

const productFile = `{
	"products": [{"product_id": "` + product + `", "webhook_secret": "` + webhookSecret + `"}],
	"keys": [{"key": "` + productKey + `", "external_id": "` + product + `"}]
}`

// storm is clients and readers at work on some servers while these are killed. The first failure ends it.
type storm struct {
	t       *testing.T
	dice    *dice
	truth   *truth
	servers []*server
	timeout time.Duration // of an attempt of a client
	client  *http.Client

	impatience time.Duration // some attempts are given up earlier; zero for none
	balancer   *balancer     // between the clients and the servers; nil for none

	ctx  context.Context // ends when the storm fails
	fail context.CancelCauseFunc

	calm    sync.RWMutex // held by each client from a request's first attempt to its acknowledgement
	over    chan struct{}
	senders sync.WaitGroup // end when it is over
	others  sync.WaitGroup // end with ctx

	readers  []*reader
	registry registry
	lookups  atomic.Int64 // checked
	audits   int
}

// newStorm returns a storm on so many servers, which are not started. The end of the test ends every running one.
func newStorm(t *testing.T, servers int, args ...string) *storm {
	t.Helper()
	file := filepath.Join(t.TempDir(), "products.json")
	require.NoError(t, os.WriteFile(file, []byte(productFile), 0o600))
	s := &storm{t: t, dice: newDice(t), truth: newTruth(), timeout: 5 * time.Second, over: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	s.ctx, s.fail = context.WithCancelCause(t.Context())
	args = append([]string{proctest.AnyPort, "--config=" + file, "--admin-key=" + adminKey, "--heartbeat=1s",
		"--log-level=warn"}, args...)
	for i := range servers {
		s.servers = append(s.servers, &server{name: fmt.Sprintf("server %d", i+1), path: command.Path(), args: args})
	}
	t.Cleanup(func() {
		s.fail(errTestEnds)
		s.senders.Wait()
		s.others.Wait()
		s.client.CloseIdleConnections()
	})
	return s
}

var (
	errTestEnds = errors.New("the test ends")
	errDown     = errors.New("not listening")
)

// start starts a server's process, which ends with the test at the latest.
func (s *storm) start(sv *server) *proctest.Process {
	s.t.Helper()
	life := proctest.Launch(s.t, exec.Command(sv.path, sv.args...), nil)
	sv.life.Store(life)
	return life
}

// beginAll starts clients and readers of every kind.
func (s *storm) beginAll() {
	s.send(4)
	s.follow(2)
	s.register(250 * time.Millisecond)
	s.probe()
}

// require ends the test if there is an error, or has been one.
func (s *storm) require(err error) {
	s.t.Helper()
	if err != nil {
		s.fail(err)
	}
	require.NoError(s.t, context.Cause(s.ctx), "%s=%d", seedVar, s.dice.seed)
}

// pause waits, and reports whether the storm goes on.
func (s *storm) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isOver reports whether clients must not begin anything new.
func (s *storm) isOver() bool {
	select {
	case <-s.over:
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}

// end ends the sending. Requests in flight are still acknowledged.
func (s *storm) end() {
	close(s.over)
	s.senders.Wait()
	s.require(nil)
}

func (s *storm) String() string {
	pages, requests, retries := s.truth.counts()
	resumed := 0
	for _, r := range s.readers {
		r.mu.Lock()
		resumed += r.resumed
		r.mu.Unlock()
	}
	return fmt.Sprintf("acknowledged: %d events in %d requests with %d attempts repeated, %d registrations; %d lookups "+
		"checked, readers resumed %d times",
		pages, requests, retries, len(s.registry.all()), s.lookups.Load(), resumed)
}

func (s *storm) any(rng *rand.Rand) *server { return s.servers[rng.IntN(len(s.servers))] }

type answer struct {
	status     int
	retryAfter string
	body       []byte
}

// ask sends a request with headers given as "Name: value", and reads the whole answer. Without an
// answer it returns an error.
func (s *storm) ask(ctx context.Context, sv *server, timeout time.Duration, method, path, body string,
	headers ...string) (answer, error) {
	url, ok := sv.url()
	if !ok {
		return answer{}, errDown
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("Retry-After"), bytes.TrimSpace(got)}, err
}

// isAway reports whether the answer is the only allowed refusal: storage cannot be reached, come again.
func (a answer) isAway() bool {
	return a.status == http.StatusServiceUnavailable && a.retryAfter != ""
}

func (a answer) String() string { return fmt.Sprintf("%d %.200s", a.status, a.body) }

// backoff is the time that clients wait before they try again.
func backoff(rng *rand.Rand) time.Duration { return time.Millisecond + upTo(rng, 5*time.Millisecond) }

// call sends a request to one of the servers and returns the server's name. Through a balancer it must not fail.
func (s *storm) call(rng *rand.Rand, timeout time.Duration, method, path, body string,
	headers ...string) (a answer, where string, err error) {
	if s.balancer == nil {
		sv := s.any(rng)
		a, err = s.ask(s.ctx, sv, timeout, method, path, body, headers...)
		return a, sv.name, err
	}
	if a, where, err = s.balancer.ask(timeout, method, path, body, headers...); err != nil {
		s.fail(fmt.Errorf("%s %s: sent to %s: %w", method, path, where, err))
	}
	return a, where, err
}

// insist sends a request until the answer is good, and fails the storm for one
// that is neither good nor 503. It reports false when the storm has failed.
func (s *storm) insist(rng *rand.Rand, good int, method, path, body string, headers ...string) (answer, bool) {
	for {
		a, where, err := s.call(rng, s.timeout, method, path, body, headers...)
		switch {
		case err == nil && a.status == good:
			return a, true
		case err == nil && !a.isAway():
			s.fail(fmt.Errorf("%s: %s %s: %s", where, method, path, a))
		}
		if !s.pause(backoff(rng)) {
			return answer{}, false
		}
	}
}

// These environment variables set the length of the tests of killing.
const (
	killsVar  = "LIVEACTIVITY_KILLS"  // the number of kills in TestKill_file
	faultsVar = "LIVEACTIVITY_FAULTS" // the number of faults in each part of TestKill_redis
	seedVar   = "LIVEACTIVITY_SEED"   // of the random choices; the order of processes is not one
)

// These values are enough for CI.
const (
	defaultKills  = 40
	defaultFaults = 16
)

var command proctest.Command

func TestMain(m *testing.M) {
	os.Exit(command.BuildAndRun(m, "../..", "cmd/liveactivity-server"))
}

// number returns the value of an environment variable, or the preset.
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

// dice is the source of all randomness in a test. Each actor has a generator of its own, so that no
// actor changes another's numbers.
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

const (
	patience   = 30 * time.Second       // for an expected event
	tick       = 10 * time.Millisecond  // between two looks at a condition
	stopTime   = 15 * time.Second       // the ten seconds that a server promises, and some for a busy machine
	streamsCut = "streams were cut off" // logged by a server that could not send its streams all of their data
)

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

type killer struct {
	*storm
	rng   *rand.Rand
	kills int
}

func newKiller(s *storm) *killer {
	return &killer{storm: s, rng: s.dice.generator()}
}

func (k *killer) life(i int) *proctest.Process { return k.servers[i].life.Load() }

func (k *killer) restart(i int) { k.start(k.servers[i]) }

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
