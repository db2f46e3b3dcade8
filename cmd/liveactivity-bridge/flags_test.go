package main_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// flags are the flags of the command.
var flags = proctest.Flags{
	{"addr", "LIVEACTIVITY_BRIDGE_ADDR", "127.0.0.1:8070", "localhost"},
	{"allowed-origin", "LIVEACTIVITY_BRIDGE_ALLOWED_ORIGINS", "", "https://portal.example.com/page"},
	{"stream-url", "LIVEACTIVITY_STREAM_URL", "", "live.example.com/stream/acme"},
	{"token", "LIVEACTIVITY_STREAM_TOKEN", "", token + "\n"},
	{"activity-ttl", "ACTIVITY_TTL_S", "14400", "0"},
	{"log-format", "LIVEACTIVITY_LOG_FORMAT", "text", "xml"},
	{"log-level", "LIVEACTIVITY_LOG_LEVEL", "info", "loud"},
}

// elsewhere is the environment of a bridge whose stream does not exist.
var elsewhere = []string{"LIVEACTIVITY_BRIDGE_ADDR=127.0.0.1:0",
	"LIVEACTIVITY_STREAM_URL=http://127.0.0.1:1/stream/acme", "LIVEACTIVITY_STREAM_TOKEN=" + token}

// Not parallel: others would take the time.
func TestStart_takesLessThanASecond(t *testing.T) { command.CheckStartTime(t, nil) }

func TestHelp_showsEveryFlagWithItsVariableAndDefault(t *testing.T) {
	t.Parallel()
	command.CheckHelp(t, []string{"LIVEACTIVITY_STREAM_TOKEN=" + token}, flags)
}

func TestStart_reportsThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	command.CheckPortTaken(t, nil)
}

func TestStart_printsTheAddressToOpen(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", ":0"} {
		s := launch(t, nil, "--addr="+addr)
		waittest.Until(t, "it names its page", func() bool { return strings.Contains(s.Stdout.String(), "in a browser") })
		assert.True(t, strings.HasPrefix(s.Stdout.String(), "listening on "+s.url+"\n"))
		_, page, _ := strings.Cut(s.Stdout.String(), "open ")
		page, _, _ = strings.Cut(page, " ")
		status, body := proctest.Request(t, http.MethodGet, page, "")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, "<!doctype html>")
		s.Stop()
	}
}

func TestFlags_areRefusedWhenWrong(t *testing.T) {
	t.Parallel()
	command.CheckRefusals(t, elsewhere, flags)
	for name, args := range map[string][]string{
		"any origin":  {"--allowed-origin=*"},
		"one of two":  {"--allowed-origin=https://portal.example.com,localhost:3000"},
		"no stream":   {"--token=" + token, "--stream-url="},
		"two at once": {"--addr=localhost", "--stream-url=http://user:s3cr3t@127.0.0.1/stream/acme"},
	} {
		t.Run(name, func(t *testing.T) {
			words := proctest.Refused(t, command.Launch(t, elsewhere, args...))
			for _, arg := range args {
				assert.Contains(t, words, strings.SplitN(arg, "=", 2)[0])
			}
			assert.Contains(t, words, "--help")
			assert.NotContains(t, words, "s3cr3t")
		})
	}
}

func TestFlags_aStreamNeedsAToken(t *testing.T) {
	t.Parallel()
	words := proctest.Refused(t, command.Launch(t, nil, proctest.AnyPort, "--stream-url=http://127.0.0.1:1/stream/acme"))
	assert.Contains(t, words, "--token: is missing")
	assert.Equal(t, 1, strings.Count(words, "token"), "%s", words)
	words = proctest.Refused(t, command.Launch(t, nil, proctest.AnyPort, "--stream-url=live.example.com"))
	assert.Contains(t, words, "--token: is missing")
	assert.Contains(t, words, "URL must be like", "all mistakes at once")
}

// Every variable has the effect of its flag.
func TestEnvironment_isTaken(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	s := launch(t, []string{
		"LIVEACTIVITY_BRIDGE_ADDR=127.0.0.1:0",
		"LIVEACTIVITY_BRIDGE_ALLOWED_ORIGINS=https://portal.example.com,http://localhost:3000,https://*.acme.example",
		"LIVEACTIVITY_STREAM_URL=" + stream.URL(), "LIVEACTIVITY_STREAM_TOKEN=" + token, "ACTIVITY_TTL_S=1.5",
		"LIVEACTIVITY_LOG_FORMAT=json", "LIVEACTIVITY_LOG_LEVEL=debug",
	})
	begun := time.Now()
	stream.Send(activitytest.NewBatch("acme", "s1", "ada",
		activitytest.Click(begun, "Save", "https://portal.example.com/")))
	for _, origin := range []string{"https://portal.example.com", "http://localhost:3000", "https://eu.acme.example"} {
		assert.Equal(t, origin, s.sharedWith(origin))
	}
	assert.Empty(t, s.sharedWith("https://portal.example.com.evil.example"))
	waittest.Until(t, "the batch is handled", func() bool {
		return strings.Contains(s.get("/metrics"), "\nliveactivity_consumer_acknowledged_total{type=\"actions\"} 1\n")
	})
	waittest.Until(t, "the action expires", func() bool { return strings.Contains(s.get("/context/s1"), `"actions":[]`) })
	assert.GreaterOrEqual(t, time.Since(begun), 1500*time.Millisecond, "it was there until then")
	s.Stop()
	for line := range strings.SplitSeq(strings.TrimSpace(s.Stderr.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), line)
	}
	assert.Contains(t, s.Stderr.String(), `"level":"DEBUG"`)
	assert.NotContains(t, s.Stdout.String()+s.Stderr.String(), "s3cr3t")
}
