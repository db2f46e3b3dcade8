package durability_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/redislog"
)

// Three processes compete for a lease and write numbers while they have it. The holder is killed or
// paused for longer than its lease lasts, and Redis is killed. Another process takes over in time,
// the numbers go on without a gap, and the earlier holder writes nothing more.
func TestKill_leases(t *testing.T) {
	t.Parallel()
	g := newGuild(t, 3)
	for range leaseRounds {
		for _, ordeal := range []func(*worker){g.killHolder, g.pauseHolder, g.killRedis, g.pauseRedis} {
			ordeal(g.holder())
		}
	}
	g.end()
}

const (
	leaseRounds = 2                           // of every fault that the holder meets
	leaseTTL    = time.Second                 // short, so that the tests are
	tick        = 10 * time.Millisecond       // between two looks at a condition
	pace        = 3 * time.Millisecond        // of a holder, between two numbers
	afterwards  = 20                          // writes after the lease is lost; they succeed only while it is free
	holderVar   = "LIVEACTIVITY_LEASE_HOLDER" // makes this program a holder, with its value for configuration
)

// guild is the processes that compete for a lease, and the log of their work.
type guild struct {
	t       *testing.T
	rng     *rand.Rand
	redis   *redistest.Server
	log     *redislog.Log
	workers []*worker
	slowest time.Duration // until another took over

	mu    sync.Mutex
	work  []numbered // in the order of the log
	wrong error
}

func newGuild(t *testing.T, workers int) *guild {
	t.Helper()
	// The data survives a kill, though not a loss of power, and the test wants many writes.
	g := &guild{t: t, rng: newDice(t).generator(), redis: redistest.Start(t, "--appendfsync", "no")}
	g.log = musttest.New(redislog.Open(g.redis.URL(), nil))
	t.Cleanup(func() { require.NoError(t, g.log.Release()) })
	waittest.Run(t, func(ctx context.Context) error { return g.log.Run(ctx, nil) })
	waittest.Run(t, g.follow)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(g)
		}
	})
	for i := range workers {
		g.workers = append(g.workers, &worker{name: fmt.Sprintf("worker %d", i+1)})
		g.start(g.workers[i])
	}
	return g
}

// start starts a worker's process, which ends with the test at the latest.
func (g *guild) start(w *worker) {
	g.t.Helper()
	config := musttest.New(json.Marshal(holder{Name: w.name, RedisURL: g.redis.URL()}))
	cmd := exec.Command(musttest.New(os.Executable()))
	musttest.New(cmd.StdinPipe()) // its end ends the holder
	w.lives = append(w.lives, proctest.Launch(g.t, cmd, []string{holderVar + "=" + string(config)}))
}

// follow reads the log until ctx ends and looks for mistakes in it.
func (g *guild) follow(ctx context.Context) error {
	source := musttest.New(eventlog.NewSource(g.log, jobProduct))
	return source.Entries(ctx, eventlog.ID{}, func(_ eventlog.ID, entries []eventlog.Entry) error {
		g.add(entries)
		return nil
	})
}

func (g *guild) add(entries []eventlog.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range entries {
		var next, last numbered
		if len(g.work) > 0 {
			last = g.work[len(g.work)-1]
		}
		err := json.Unmarshal(e.Data, &next)
		switch {
		case g.wrong != nil:
			return
		case err != nil:
			g.wrong = err
		case next.N != last.N+1:
			g.wrong = fmt.Errorf("entry %s is %+v, right after %+v: numbers must go on by one", e.ID, next, last)
		case next.Token < last.Token || next.Token == last.Token && next.Holder != last.Holder:
			g.wrong = fmt.Errorf("entry %s is %+v, right after %+v: a holder of before writes", e.ID, next, last)
		}
		g.work = append(g.work, next)
	}
}

// newest returns the newest entry there is, and how many there are.
func (g *guild) newest() (last numbered, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = len(g.work); n > 0 {
		last = g.work[n-1]
	}
	return last, n
}

// await waits for a condition and returns the time that it took. It ends the test after too long,
// or at a mistake in the log.
func (g *guild) await(what string, is func() bool) time.Duration {
	g.t.Helper()
	began := time.Now()
	waittest.Until(g.t, what, func() bool { return g.failure() != nil || is() })
	require.NoError(g.t, g.failure())
	return time.Since(began)
}

func (g *guild) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wrong
}

func (g *guild) String() string {
	last, n := g.newest()
	var b strings.Builder
	fmt.Fprintf(&b, "there are %d entries, the newest is %+v", n, last)
	for _, w := range g.workers {
		deeds := w.deeds()
		fmt.Fprintf(&b, "\n%s: last deeds %v", w.name, deeds[max(0, len(deeds)-8):])
	}
	return b.String()
}

// holder waits until work goes on and returns the worker.
func (g *guild) holder() *worker {
	g.t.Helper()
	_, before := g.newest()
	enough := before + 3 + g.rng.IntN(100)
	g.await("a worker works", func() bool {
		_, n := g.newest()
		return n >= enough
	})
	last, _ := g.newest()
	for _, w := range g.workers {
		if w.name == last.Holder {
			return w
		}
	}
	require.FailNow(g.t, "nobody has written the newest entry", "%+v", last)
	return nil
}

// succeeded waits until a holder with another token works.
func (g *guild) succeeded(token uint64) {
	g.t.Helper()
	took := g.await(fmt.Sprintf("another takes over from the holder of %d", token), func() bool {
		last, _ := g.newest()
		return last.Token > token
	})
	g.slowest = max(g.slowest, took)
}

// killHolder kills the holder, and starts it again when another has taken over.
func (g *guild) killHolder(w *worker) {
	g.t.Helper()
	last, _ := g.newest()
	w.life().Kill()
	g.succeeded(last.Token)
	g.start(w)
}

// pauseHolder stops the holder until another has taken over. When the holder goes on, it must find its lease lost.
func (g *guild) pauseHolder(w *worker) {
	g.t.Helper()
	last, _ := g.newest()
	w.life().Signal(syscall.SIGSTOP)
	g.succeeded(last.Token)
	w.life().Signal(syscall.SIGCONT)
	g.await(w.name+" finds that it has lost the lease", func() bool {
		return slices.ContainsFunc(w.deeds(), func(d deed) bool { return d.What == deedRefused && d.Token == last.Token })
	})
}

// killRedis kills Redis and starts it again. The work goes on.
func (g *guild) killRedis(*worker) {
	g.t.Helper()
	g.redis.Kill()
	<-time.After(upTo(g.rng, leaseTTL/2))
	g.redis.Restart()
	g.holder()
}

// pauseRedis pauses Redis, perhaps for longer than the lease lasts. The work goes on.
func (g *guild) pauseRedis(*worker) {
	g.t.Helper()
	g.redis.Pause()
	<-time.After(upTo(g.rng, 2*leaseTTL))
	g.redis.Resume()
	g.holder()
}

// end kills all workers and compares their deeds with the log.
func (g *guild) end() {
	g.t.Helper()
	for _, w := range g.workers {
		w.life().Kill()
	}
	docs, err := g.log.Documents().Get(g.t.Context(), jobProduct, jobCounter)
	require.NoError(g.t, err)
	counted, err := strconv.Atoi(string(docs[0].Value))
	require.NoError(g.t, err)
	g.await(fmt.Sprintf("the log has %d entries", counted), func() bool {
		_, n := g.newest()
		return n >= counted
	})
	require.Len(g.t, g.work, counted, "the counter and the log must agree")
	tokens := map[uint64]string{}
	written := 0
	for _, w := range g.workers {
		for _, d := range w.deeds() {
			g.compare(w, d, tokens)
			if d.What == deedWrote {
				written++
			}
		}
	}
	g.t.Logf("%d entries under %d tokens, of which %d were acknowledged; the slowest takeover took %s", counted,
		len(tokens), written, g.slowest.Round(tick))
}

// compare compares a worker's deed with the log.
func (g *guild) compare(w *worker, d deed, tokens map[uint64]string) {
	g.t.Helper()
	switch d.What {
	case deedHeld:
		require.NotContains(g.t, tokens, d.Token, "%s has got the token of another", w.name)
		tokens[d.Token] = w.name
	case deedWrote:
		require.LessOrEqual(g.t, d.N, uint64(len(g.work)), "%s: %v: acknowledged and not there", w.name, d)
		require.Equal(g.t, numbered{w.name, d.Token, d.N}, g.work[d.N-1], "%s: %v: acknowledged and not there", w.name, d)
	}
}

// worker is a place where a holder runs, is killed and runs again.
type worker struct {
	name  string
	lives []*proctest.Process
}

func (w *worker) life() *proctest.Process { return w.lives[len(w.lives)-1] }

func (w *worker) deeds() (all []deed) {
	for _, life := range w.lives {
		for line := range strings.Lines(life.Stdout.String()) {
			var d deed
			if n, _ := fmt.Sscanf(line, "%s %d %d\n", &d.What, &d.Token, &d.N); n == 3 && strings.HasSuffix(line, "\n") {
				all = append(all, d)
			}
		}
	}
	return all
}

// holder works whenever it has the lease. It writes its deeds to its standard output, a [deed] to a line.
type holder struct {
	Name     string `json:"name"`
	RedisURL string `json:"redis_url"`

	log *redislog.Log
}

// The names of the holders' product, lease and counter.
const (
	jobProduct = "jobs"
	jobLease   = "job"
	jobCounter = "counter"
)

// deed is one act of a holder, as it prints it.
type deed struct {
	What  string // one of those below
	Token uint64 // the lease's
	N     uint64 // the counter, for a written number
}

// The deeds of holders.
const (
	deedHeld    = "held"    // got the lease
	deedWrote   = "wrote"   // wrote the next number
	deedRefused = "refused" // found that the lease was lost
)

func (d deed) print() { fmt.Printf("%s %d %d\n", d.What, d.Token, d.N) }

// numbered is a holder's entry in the log: the next number, and the token it was written under.
type numbered struct {
	Holder string `json:"holder"`
	Token  uint64 `json:"token"`
	N      uint64 `json:"n"`
}

// runHolder is the program of a holder. It works until it is killed, or its
// standard input ends with the process that started it.
func runHolder(config string) int {
	var h holder
	if err := json.Unmarshal([]byte(config), &h); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if h.log, err = redislog.Open(h.RedisURL, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // it is never written to
	}()
	go func() { _ = h.log.Run(ctx, nil) }() // returns nil
	if err := document.WithLease(ctx, h.log.Documents(), jobProduct, jobLease, leaseTTL, h.work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// work writes numbers while the lease lasts, and tries to go on when it is over.
func (h *holder) work(ctx context.Context, lease *document.Lease) error {
	token := uint64(lease.Token())
	deed{deedHeld, token, 0}.print()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.write(lease)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	if !errors.Is(context.Cause(ctx), document.ErrLost) {
		return nil
	}
	for range afterwards {
		h.write(lease)
	}
	return nil
}

// write appends the next number and moves the counter, in one step that needs
// the lease. A failure leaves open whether it happened.
func (h *holder) write(lease *document.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	docs, err := h.log.Documents().Get(ctx, jobProduct, jobCounter)
	if err != nil {
		return
	}
	n, _ := strconv.ParseUint(string(docs[0].Value), 10, 64) // zero before the first
	n++
	token := uint64(lease.Token())
	data, _ := json.Marshal(numbered{h.Name, token, n}) // numbers and a name always encode
	err = h.log.Append(ctx, jobProduct, []eventlog.Entry{{SessionID: jobLease, Data: data}},
		lease.Check(), document.Put(docs[0], []byte(strconv.FormatUint(n, 10)), 0))
	var conflict *document.ConflictError
	switch {
	case err == nil:
		deed{deedWrote, token, n}.print()
	case errors.As(err, &conflict) && conflict.Name == lease.Check().Name:
		deed{deedRefused, token, n}.print()
	}
}
