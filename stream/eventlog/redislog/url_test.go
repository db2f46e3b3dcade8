package redislog

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/redistest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

func TestOpen_refusesInvalidArguments(t *testing.T) {
	const secret = "s3cr3t"
	cases := map[string]string{
		"nothing":                         "",
		"no URL":                          "localhost:6379",
		"another scheme":                  "http://user:" + secret + "@localhost:6379",
		"no host":                         "redis://",
		"no host but a password":          "redis://:" + secret + "@",
		"password without a host":         "redis://user:" + secret,
		"password with a slash":           "redis://user:" + secret + "/x@localhost:6379",
		"password with a hash":            "redis://user:" + secret + "#x@localhost:6379",
		"password with a question mark":   "redis://user:" + secret + "?x@localhost:6379",
		"password with a percent sign":    "redis://user:" + secret + "%zz@localhost:6379",
		"password with a space":           "redis://user:" + secret + " x@localhost:6379",
		"port that is none":               "redis://user:" + secret + "@localhost:port",
		"database that is none":           "redis://user:" + secret + "@localhost:6379/db",
		"database below none":             "redis://user:" + secret + "@localhost:6379/-1",
		"two databases":                   "redis://user:" + secret + "@localhost:6379/1/2",
		"unknown parameter":               "redis://user:" + secret + "@localhost:6379?colour=red",
		"bad parameter":                   "redis://user:" + secret + "@localhost:6379?pool_size=many",
		"further address without a port":  "redis://user:" + secret + "@localhost:6379?addr=localhost",
		"further address with a password": "redis://localhost:6379?addr=user:" + secret + "@localhost:6380",
		"reading from replicas":           "redis://user:" + secret + "@localhost:6379?read_only=true",
		"query that is none":              "redis://localhost:6379?%zz=" + secret,
	}
	for name, url := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(url, nil)
			require.Equal(t, []string{"redislog.URL"}, musttest.Mistakes(t, err))
			require.NotContains(t, err.Error(), secret)
		})
	}
}

func TestOpen_reportsEveryMistake(t *testing.T) {
	_, err := Open("", &Options{MaxEvents: -1, TailBytes: -1, Prefix: "a{b}",
		Retention: eventlog.Retention{TTL: -1, MaxBytes: -1, StateMaxBytes: -1, TotalBytes: -1}})
	assert.Equal(t, []string{"eventlog.Retention.TTL", "eventlog.Retention.MaxBytes", "eventlog.Retention.StateMaxBytes",
		"eventlog.Retention.TotalBytes",
		"redislog.MaxEvents", "redislog.TailBytes", "redislog.Prefix", "redislog.URL"}, musttest.Mistakes(t, err))
}

func TestOpen_takesEveryFormOfURL(t *testing.T) {
	for _, url := range []string{
		"redis://localhost", "redis://localhost:6379/", "redis://localhost:6379/3", "rediss://localhost:6379",
		"redis://[::1]:6379",
		"redis://:password@localhost", "redis://user:p%2Fa%40s@localhost", "redis://a:6379?addr=b:6379&addr=c:6379",
		"redis://localhost?pool_size=5&read_timeout=1s",
	} {
		opened(t, url, nil)
	}
}

// works requires that the log at the URL works: commands, scripts, transactions and messages.
func works(t *testing.T, url string, o *Options) {
	t.Helper()
	a, b := pair(t, url, o)
	require.NoError(t, a.Ping(t.Context()))
	r := follow(t, b, newest(t, b))
	appendOne(t, a, entry("s", "ada"))
	r.has(t, 1)
	require.Equal(t, []string{"Click ada"}, labels(t, b, "ada"))
}

func TestOpen_withUserAndPassword(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "default-password", "--user", "app", "on", ">p/a@s:s",
		"~TestOpen_*", "&TestOpen_*", "-@all", "+@read", "+@write", "+@scripting", "+@pubsub", "+@connection", "+time",
		"+cluster|slots")
	host := server.Addr
	t.Run("of the default user", func(t *testing.T) { works(t, "redis://:default-password@"+host, nil) })
	t.Run("of a user of few rights", func(t *testing.T) { works(t, "redis://app:p%2Fa%40s%3As@"+host, nil) })
	for name, url := range map[string]string{
		"wrong password": "redis://app:s3cr3t@" + host,
		"wrong user":     "redis://nobody:s3cr3t@" + host,
		"no password":    "redis://" + host,
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, url, nil)
			for _, name := range []string{"Ping", "Append"} {
				err := calls(log, 0)[name](t.Context())
				require.Error(t, err)
				assert.NotContains(t, err.Error(), "s3cr3t")
				assert.Regexp(t, "WRONGPASS|NOAUTH", err.Error())
			}
		})
	}
}

func TestOpen_ofAClusterWithAPassword(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t, "--user", "app", "on", ">password", "~*", "&*", "+@all")
	works(t, "redis://app:password@"+nodes[1].Addr, nil)
}

func TestOpen_withTLS(t *testing.T) {
	server, trusts := redistest.StartTLS(t)
	t.Run("that is trusted", func(t *testing.T) {
		works(t, server.URL(), &Options{TLS: &tls.Config{RootCAs: trusts}})
	})
	t.Run("that is not", func(t *testing.T) {
		log := open(t, server.URL(), nil)
		waittest.Until(t, "a ping fails by the certificate, not for lack of time", func() bool {
			err := log.Ping(t.Context())
			require.Error(t, err)
			return strings.Contains(err.Error(), "certificate")
		})
	})
	t.Run("left out", func(t *testing.T) {
		log := open(t, "redis://"+server.Addr, nil)
		require.Error(t, log.Ping(t.Context()))
	})
}

func TestOpen_withADatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	zero, three := open(t, server.URL(), nil), open(t, server.URL()+"/3", nil)
	appendOne(t, three, entry("s", "ada"))
	require.Empty(t, labels(t, zero, "ada"))
	require.Equal(t, []string{"Click ada"}, labels(t, three, "ada"))

	nodes := redistest.Cluster(t)
	require.ErrorContains(t, open(t, nodes[0].URL()+"/3", nil).Ping(t.Context()), "SELECT is not allowed in cluster mode")
}

func TestOpen_leavesNothingRunning(t *testing.T) {
	server := redistest.Start(t)
	for name, disturb := range map[string]func(){"nothing happens": func() {}, "Redis is gone": server.Kill} {
		t.Run(name, func(t *testing.T) {
			works(t, server.URL(), nil)
			log := open(t, server.URL(), &Options{Prefix: "other" + t.Name()})
			appendOne(t, log, eventlogtest.Entry("s", 0))
			disturb()
			_ = log.Ping(t.Context()) // it may fail
		})
		leaktest.NoneOf(t, "eventlog/redislog.", "redis/go-redis")
		server.Kill()
		server.Restart()
	}
}
