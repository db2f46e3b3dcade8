//go:build linux

package eventlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/waittest"
)

// The server runs in a process of its own, so that what it uses can be read
// from the system. Every entry has 580 bytes of data and is a POST and an
// Append of its own; handling them is part of the server's time.
//
// Publishers post as fast as they are answered, but wait while the slowest
// reader has more than a bounded number of entries to come. Without that bound
// a latency only says how long the queue is that publishers managed to build.
//
// For scale every figure has one beside it of a server that does the least
// possible, measured in the same run: see bareHub.
//
//	go test -run '^$' -bench 'Fanout|IdleReaders' ./stream
//
// Where other-cores is not about zero the machine was busy with something else
// and the other figures mean little. LIVEACTIVITY_FANOUT_PROFILE names a folder
// for CPU profiles of the servers.
const (
	fanoutProfileEnv = "LIVEACTIVITY_FANOUT_PROFILE"

	fanoutWarmUp  = time.Second
	fanoutMeasure = 4 * time.Second

	fanoutPublishers = 4
	fanoutDeliveries = 50_000 // in flight at most: entries times readers
)

func BenchmarkFanout(b *testing.B) {
	for _, readers := range []int{100, 1000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			compareFanout(b, fanoutLoad{readers: readers, publishers: fanoutPublishers, lines: 1,
				inFlight: fanoutDeliveries / int64(readers)})
		})
	}
}

// BenchmarkFanoutUnbounded lets publishers run away from the readers.
func BenchmarkFanoutUnbounded(b *testing.B) {
	for _, readers := range []int{100, 1000} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			compareFanout(b, fanoutLoad{readers: readers, publishers: fanoutPublishers, lines: 1})
		})
	}
}

// BenchmarkFanoutOpenRate has publishers keep to a rate that makes a million
// deliveries a second, below what the machine can do. Less gathers between two
// writes then, and a delivery costs more than under full load.
func BenchmarkFanoutOpenRate(b *testing.B) {
	for _, load := range []fanoutLoad{
		{readers: 100, publishers: fanoutPublishers, lines: 1, rate: 2500},
		{readers: 1000, publishers: fanoutPublishers, lines: 1, rate: 250},
	} {
		b.Run(fmt.Sprintf("readers=%d/entries=%d", load.readers, load.publishers*load.rate), func(b *testing.B) {
			compareFanout(b, load)
		})
	}
}

// compareFanout reports the figures of a load, on the package under test and
// on the baseline in turn.
func compareFanout(b *testing.B, load fanoutLoad) {
	var ours, bare fanoutFigures
	for b.Loop() {
		ours.add(measureFanout(b, load, fanoutServerConfig{}))
		bare.add(measureFanout(b, load, fanoutServerConfig{Bare: true}))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours.perMillion(), "cpu-s/Mdeliveries")
	b.ReportMetric(bare.perMillion(), "bare-cpu-s/Mdeliveries")
	b.ReportMetric(ours.perMillion()/bare.perMillion(), "x-bare")
	b.ReportMetric(ours.perSecond(), "deliveries/s")
	b.ReportMetric(bare.perSecond(), "bare-deliveries/s")
	b.ReportMetric(milliseconds(ours.p50), "p50-ms")
	b.ReportMetric(milliseconds(ours.p99), "p99-ms")
	b.ReportMetric(milliseconds(bare.p99), "bare-p99-ms")
	b.ReportMetric(float64(ours.lost), "lost")
	b.ReportMetric(float64(ours.doubled), "doubled")
	b.ReportMetric(ours.others.Seconds()/ours.elapsed.Seconds(), "other-cores")
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// fanoutFigures are what a load came to, or several. Latencies are those of
// the worst.
type fanoutFigures struct {
	elapsed   time.Duration
	cpu       time.Duration // of the server
	others    time.Duration // processor time of neither the server nor the load
	delivered int64
	p50, p99  time.Duration
	lost      int64
	doubled   int64
}

func (f *fanoutFigures) add(g fanoutFigures) {
	f.elapsed += g.elapsed
	f.cpu += g.cpu
	f.others += g.others
	f.delivered += g.delivered
	f.p50 = max(f.p50, g.p50)
	f.p99 = max(f.p99, g.p99)
	f.lost += g.lost
	f.doubled += g.doubled
}

func (f *fanoutFigures) perMillion() float64 { return f.cpu.Seconds() / float64(f.delivered) * 1e6 }
func (f *fanoutFigures) perSecond() float64  { return float64(f.delivered) / f.elapsed.Seconds() }

// measureFanout puts a load on a server of its own.
func measureFanout(b *testing.B, load fanoutLoad, config fanoutServerConfig) fanoutFigures {
	b.Helper()
	if dir := os.Getenv(fanoutProfileEnv); dir != "" {
		name := fmt.Sprintf("%s-bare=%t.prof", strings.ReplaceAll(b.Name(), "/", "-"), config.Bare)
		config.Profile = filepath.Join(dir, name)
	}
	s := startFanoutServer(b, config)
	defer s.stop()
	run := startFanoutRun(s, load)
	wait := run.startFor(fanoutWarmUp + fanoutMeasure)
	f := run.observe(fanoutWarmUp, fanoutMeasure)
	wait()
	f.lost, f.doubled = run.missing(), run.doubled
	f.p50, f.p99 = run.quantile(.5), run.quantile(.99)
	require.Zero(b, run.broken, "streams broken")
	return f
}

// observe takes figures down for a time, after another.
func (run *fanoutRun) observe(after, during time.Duration) fanoutFigures {
	time.Sleep(after)
	before := run.figures()
	run.timed.Store(true)
	time.Sleep(during)
	run.timed.Store(false)
	f := run.figures()
	f.elapsed -= before.elapsed
	f.cpu -= before.cpu
	f.others -= before.others
	f.delivered -= before.delivered
	return f
}

var fanoutEpoch = time.Now()

// figures returns what has been used and delivered since some time past.
func (run *fanoutRun) figures() fanoutFigures {
	tb := run.server.tb
	f := fanoutFigures{elapsed: time.Since(fanoutEpoch), cpu: run.server.cpu(), delivered: run.delivered.Load()}
	f.others = machineCPU(tb) - f.cpu - processCPU(tb, os.Getpid())
	return f
}

// BenchmarkFanoutStalledReader reports what 100 readers get while one more
// reads nothing, as a share of what they get otherwise, and how much more
// memory the server has then.
func BenchmarkFanoutStalledReader(b *testing.B) {
	const readers, pairs, round = 100, 5, time.Second
	s := startFanoutServer(b, fanoutServerConfig{MaxBytes: 8 << 20}) // full before the first round
	run := startFanoutRun(s, fanoutLoad{readers: readers, publishers: fanoutPublishers, lines: 1,
		inFlight: fanoutDeliveries / readers})
	run.startFor(fanoutWarmUp)()
	var free, stalled stalledRounds
	for b.Loop() {
		for i := range 2 * pairs {
			if i%4 == 0 || i%4 == 3 { // what changes with time hits both alike
				free.add(run, round)
				continue
			}
			fd := s.stall()
			stalled.add(run, round)
			require.NoError(b, syscall.Close(fd))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stalled.rate()/free.rate(), "rate-ratio")
	b.ReportMetric(free.rate(), "deliveries/s")
	b.ReportMetric((stalled.rss()-free.rss())/1024, "stalled-KB")
	b.ReportMetric(free.rss()/1024, "rss-KB")
	b.ReportMetric(float64(run.missing()), "lost")
	b.ReportMetric(float64(run.doubled), "doubled")
	require.Zero(b, run.broken, "streams broken")
}

// stalledRounds are rounds of a load in the same circumstances.
type stalledRounds struct {
	n         int
	delivered int64
	elapsed   time.Duration
	memory    int64 // in bytes, at the end of the rounds, added up
}

func (r *stalledRounds) add(run *fanoutRun, d time.Duration) {
	delivered, start := run.delivered.Load(), time.Now()
	run.startFor(d)()
	r.n++
	r.elapsed += time.Since(start)
	r.delivered += run.delivered.Load() - delivered
	r.memory += run.server.settledRSS()
}

func (r *stalledRounds) rate() float64 { return float64(r.delivered) / r.elapsed.Seconds() }
func (r *stalledRounds) rss() float64  { return float64(r.memory) / float64(r.n) }

// BenchmarkIdleReaders reports the memory that readers cost on whom nothing is
// sent: as they are once all have come and had a few entries, fresh before
// those, and settled, when the server has given back what it does not use.
func BenchmarkIdleReaders(b *testing.B) {
	const readers = 10_000
	var limit syscall.Rlimit
	require.NoError(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.Greater(b, limit.Cur, uint64(readers+100), "open files")
	for b.Loop() {
		s := startFanoutServer(b, fanoutServerConfig{})
		before := s.rss()
		kb := func(rss int64) float64 { return float64(rss-before) / readers / 1024 }
		run := startFanoutRun(s, fanoutLoad{readers: readers, publishers: 1, lines: 1, inFlight: 1})
		b.ReportMetric(kb(s.rss()), "fresh-KB/reader")
		run.startUntil(10)()
		b.ReportMetric(kb(s.rss()), "KB/reader")
		b.ReportMetric(kb(s.settledRSS()), "settled-KB/reader")
		b.ReportMetric(float64(run.missing()), "lost")
		s.stop()
	}
	b.ReportMetric(0, "ns/op")
}

func TestFanout_separateProcesses(t *testing.T) {
	const readers, entries = 50, 5_000
	s := startFanoutServer(t, fanoutServerConfig{WriteTimeout: time.Hour})
	stalled := s.stall()
	run := startFanoutRun(s, fanoutLoad{readers: readers, publishers: fanoutPublishers, lines: 10, inFlight: 2000})
	run.startUntil(entries / fanoutPublishers)()

	assert.EqualValues(t, readers*entries, run.delivered.Load(), "a stalled reader disturbs nobody")
	assertComplete(t, run.fanoutReaders, run.publishers)

	late := startFanoutReaders(t, []int{stalled}, newFanoutWindow(0))
	waittest.Until(t, "a stalled reader catches up when it goes on reading", func() bool { return late.delivered.Load() == entries })
	assertComplete(t, late, run.publishers)
}

// assertComplete ends the reading.
func assertComplete(t *testing.T, rs *fanoutReaders, publishers []*fanoutPublisher) {
	t.Helper()
	rs.close()
	assert.Zero(t, rs.lost, "entries lost on the way")
	assert.Zero(t, missingAtEnd(rs, publishers), "entries lost at the end")
	assert.Zero(t, rs.doubled, "entries doubled or out of order")
	assert.Zero(t, rs.gaps, "gap events")
	assert.Zero(t, rs.broken, "streams that ended, made no sense or went backwards")
}
