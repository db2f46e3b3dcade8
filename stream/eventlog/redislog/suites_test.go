package redislog

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/activity/document/documenttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// open returns a log that runs, in a space of its own, and is released at the
// end of the test. The options may be nil.
func open(t testing.TB, url string, o *Options) *Log {
	t.Helper()
	var set Options
	if o != nil {
		set = *o
	}
	if set.Prefix == "" {
		set.Prefix = t.Name()
	}
	log := opened(t, url, &set)
	run(t, log)
	return log
}

// opened returns a log that does not run: it does not hear of the commits of others.
func opened(t testing.TB, url string, o *Options) *Log {
	t.Helper()
	log, err := Open(url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Release()) })
	return log
}

// run runs the log until the end of the test.
func run(t testing.TB, log *Log) {
	t.Helper()
	stop := waittest.Run(t, func(ctx context.Context) error { return log.Run(ctx, nil) })
	t.Cleanup(func() { require.NoError(t, stop()) })
}

// onEach runs the test on every kind of Redis that there is: a single server,
// a cluster, and Valkey where it is installed.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	onSingle(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)[0].URL()) })
}

// onSingle is onEach without a cluster. A node of a cluster runs the same scripts, and finds the
// keys that TestLog and TestDocuments use wherever it may find any.
func onSingle(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("single", func(t *testing.T) { test(t, redistest.Start(t).URL()) })
	if valkey, err := exec.LookPath("valkey-server"); err == nil {
		t.Run("valkey", func(t *testing.T) { test(t, redistest.StartBinary(t, valkey).URL()) })
	}
}

func TestLog(t *testing.T) {
	on := func(url string) func(t *testing.T, r eventlog.Retention) eventlog.Log {
		return func(t *testing.T, r eventlog.Retention) eventlog.Log { return open(t, url, &Options{Retention: r}) }
	}
	for name, suite := range map[string]func(t *testing.T, url string){
		"Log":     func(t *testing.T, url string) { eventlogtest.TestLog(t, on(url)) },
		"State":   func(t *testing.T, url string) { eventlogtest.TestState(t, on(url)) },
		"Storage": func(t *testing.T, url string) { eventlogtest.TestStorage(t, "redis", on(url)) },
		"Activity": func(t *testing.T, url string) {
			eventlogtest.TestActivity(t, func(t *testing.T, o activitytest.Options) eventlog.Log {
				return open(t, url, &Options{Retention: eventlog.Retention{TTL: o.TTL, StateMaxBytes: 2 * o.MaxBytes},
					MaxEvents: o.MaxEvents})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSingle(t, suite)
		})
	}
}

// A process that does not run its log, and has hardly any of it in memory, reads the rest from
// Redis, with the same outcome.
func TestLog_isReadFromACluster(t *testing.T) {
	t.Parallel()
	url := redistest.Cluster(t)[0].URL()
	eventlogtest.TestLog(t, func(t *testing.T, r eventlog.Retention) eventlog.Log {
		return opened(t, url, &Options{Retention: r, Prefix: t.Name(), TailBytes: 1})
	})
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		documenttest.TestStore(t, func(t *testing.T) document.Store {
			return open(t, url, nil).Documents()
		})
	})
}
