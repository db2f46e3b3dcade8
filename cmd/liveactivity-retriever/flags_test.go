package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/llmtest"
	"github.com/liveactivity/liveactivity/internal/proctest"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// flags are the flags of the command.
var flags = proctest.Flags{
	{"stream-url", "LIVEACTIVITY_STREAM_URL", "", "live.example.com/stream/acme"},
	{"token", "LIVEACTIVITY_STREAM_TOKEN", "", token + "\n"},
	{"addr", "LIVEACTIVITY_RETRIEVER_ADDR", "127.0.0.1:8090", "localhost"},
	{"key-by", "LIVEACTIVITY_RETRIEVER_KEY_BY", "session_id", "user_id"},
	{"debounce-ms", "LIVEACTIVITY_RETRIEVER_DEBOUNCE_MS", "0", "-1"},
	{"threshold", "LIVEACTIVITY_RETRIEVER_THRESHOLD", "20", "0"},
	{"max-chunks", "LIVEACTIVITY_RETRIEVER_MAX_CHUNKS", "50", "0"},
	{"max-sessions", "LIVEACTIVITY_RETRIEVER_MAX_SESSIONS", "100000", "many"},
	{"activity-ttl", "ACTIVITY_TTL_S", "14400", "0"},
	{"api-key", "LIVEACTIVITY_RETRIEVER_API_KEY", "", apiKey + " " + apiKey},
	{"llm-model", "LIVEACTIVITY_LLM_MODEL", "", "gpt-none"},
	{"log-format", "LIVEACTIVITY_LOG_FORMAT", "text", "xml"},
	{"log-level", "LIVEACTIVITY_LOG_LEVEL", "info", "loud"},
}

// enough is the environment of a retriever that starts although its stream does not exist.
var enough = []string{"LIVEACTIVITY_RETRIEVER_ADDR=127.0.0.1:0",
	"LIVEACTIVITY_STREAM_URL=http://127.0.0.1:1/stream/acme", "LIVEACTIVITY_STREAM_TOKEN=" + token}

// Not parallel: others would take the time.
func TestStart_takesLessThanASecond(t *testing.T) { command.CheckStartTime(t, enough) }

func TestHelp_showsEveryFlagWithItsVariableAndDefault(t *testing.T) {
	t.Parallel()
	command.CheckHelp(t, []string{"LIVEACTIVITY_STREAM_TOKEN=" + token, "LIVEACTIVITY_RETRIEVER_API_KEY=" + apiKey,
		"OPENAI_API_KEY=" + openAIKey}, flags)
}

func TestStart_reportsThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	command.CheckPortTaken(t, enough)
}

func TestStart_printsItsAddress(t *testing.T) {
	t.Parallel()
	s := launch(t, enough)
	waittest.Until(t, "it has started", func() bool { return strings.Contains(s.Stdout.String(), "Dify") })
	assert.True(t, strings.HasPrefix(s.Stdout.String(), "listening on "+s.url+"\n"))
	assert.Contains(t, s.Stdout.String(), s.url+"/events?session_id={session_id}\n")
	assert.Regexp(t, `Dify.* `+regexp.QuoteMeta(s.url)+`\n`, s.Stdout.String())
	s.Stop()
	assert.NotContains(t, s.Stdout.String()+s.Stderr.String(), "s3cr3t")
}

func TestStart_warnsWhereAnyoneMayAsk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args  []string
		warns bool
	}{
		"this machine":        {[]string{"--addr=127.0.0.1:0"}, false},
		"every address":       {[]string{"--addr=:0"}, true},
		"all, but with a key": {[]string{"--addr=:0", "--api-key=" + apiKey}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, enough, tt.args...)
			s.Stop()
			assert.Equal(t, tt.warns, strings.Contains(s.Stderr.String(), "without --api-key anyone"), "%s", &s.Stderr)
		})
	}
}

func TestFlags_areRefusedWhenWrong(t *testing.T) {
	t.Parallel()
	command.CheckRefusals(t, enough, flags)
}

// An empty variable must not open the endpoints or drop the model. The others are not at fault.
func TestFlags_mayNotBeEmptyWhereThatWouldHideAMistake(t *testing.T) {
	t.Parallel()
	words := proctest.Refused(t, command.Launch(t,
		append([]string{"LIVEACTIVITY_RETRIEVER_API_KEY=", "LIVEACTIVITY_LLM_MODEL="}, enough...)))
	assert.Contains(t, words, "\nLIVEACTIVITY_RETRIEVER_API_KEY: must not be empty")
	assert.Contains(t, words, "\nLIVEACTIVITY_LLM_MODEL: must not be empty")
	assert.NotContains(t, words, "LIVEACTIVITY_STREAM_URL")
}

func TestFlags_thatAreRequiredAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ flag, stream, token string }{
		{proctest.AnyPort, "--stream-url: is missing", "--token: is missing"},
		{"--stream-url=live.example.com", "URL must be like", "--token: is missing"},
		{"--token=" + token + " " + token, "--stream-url: is missing", "token must be printable"},
	} {
		words := proctest.Refused(t, command.Launch(t, nil, tt.flag))
		assert.Contains(t, words, tt.stream)
		assert.Contains(t, words, tt.token)
	}
	words := proctest.Refused(t, command.Launch(t, nil, "--stream-url=http://127.0.0.1:1/stream/acme"))
	assert.Equal(t, 1, strings.Count(words, "token"), "%s", words)
}

func TestFlags_areAllNamedAtOnce(t *testing.T) {
	t.Parallel()
	env := []string{"LIVEACTIVITY_STREAM_TOKEN=" + token + " " + token, "LIVEACTIVITY_RETRIEVER_API_KEY=" + apiKey + "\n",
		"LIVEACTIVITY_LLM_MODEL=gpt-4o-mini", "OPENAI_API_KEY=" + openAIKey + " " + openAIKey,
		"OPENAI_BASE_URL=http://user:s3cr3t@127.0.0.1/v1"}
	words := proctest.Refused(t, command.Launch(t, env, "--stream-url=http://user:s3cr3t@127.0.0.1/stream/acme",
		"--addr=localhost", "--key-by=user_id",
		"--debounce-ms=1.5", "--threshold=0", "--max-chunks=0", "--max-sessions=0", "--activity-ttl=0", "--log-format=xml",
		"--log-level=loud"))
	for _, f := range flags {
		name := "--" + f.Name
		if slices.ContainsFunc(env, func(set string) bool { return strings.HasPrefix(set, f.Env+"=") }) {
			name = f.Env
		}
		assert.Contains(t, words, name)
	}
	assert.NotContains(t, words, "s3cr3t")
}

func TestModel_needsAnEndpoint(t *testing.T) {
	t.Parallel()
	words := proctest.Refused(t, command.Launch(t, enough, "--llm-model=gpt-4o-mini"))
	assert.Contains(t, words, "OPENAI_API_KEY or OPENAI_BASE_URL")
	for _, either := range []string{"OPENAI_API_KEY=" + openAIKey, "OPENAI_BASE_URL=http://127.0.0.1:1/v1"} {
		launch(t, append([]string{either}, enough...), "--llm-model=gpt-4o-mini").Stop()
	}
}

// Every variable has the effect of its flag.
func TestEnvironment_isTaken(t *testing.T) {
	t.Parallel()
	stream, model := newStream(t), llmtest.New(t, llmtest.Say("The user is busy."))
	s := launch(t, []string{
		"LIVEACTIVITY_STREAM_URL=" + stream.URL(), "LIVEACTIVITY_STREAM_TOKEN=" + token,
		"LIVEACTIVITY_RETRIEVER_ADDR=127.0.0.1:0",
		"LIVEACTIVITY_RETRIEVER_KEY_BY=email", "LIVEACTIVITY_RETRIEVER_DEBOUNCE_MS=1000",
		"LIVEACTIVITY_RETRIEVER_THRESHOLD=3",
		"LIVEACTIVITY_RETRIEVER_MAX_CHUNKS=2", "LIVEACTIVITY_RETRIEVER_MAX_SESSIONS=2", "ACTIVITY_TTL_S=600",
		"LIVEACTIVITY_RETRIEVER_API_KEY=" + apiKey, "LIVEACTIVITY_LLM_MODEL=llama3.2",
		"OPENAI_BASE_URL=" + model.BaseURL(), "OPENAI_API_KEY=" + openAIKey,
		"LIVEACTIVITY_LOG_FORMAT=json", "LIVEACTIVITY_LOG_LEVEL=debug",
	})
	status, _ := proctest.Request(t, http.MethodGet, s.url+"/events?session_id=s1", "")
	assert.Equal(t, http.StatusUnauthorized, status)
	retrieve := func() []string {
		_, body := proctest.Request(t, http.MethodPost, s.url+"/retrieval", `{"knowledge_id":"ada@example.com"}`,
			"Authorization: Bearer "+apiKey)
		return said(t, body)
	}
	stream.Send(did("s1", "ada@example.com", "a"), did("s1", "", "b"))
	waittest.Until(t, "it knows the session", func() bool { return len(retrieve()) > 0 })
	assert.Equal(t, []string{"a+b"}, retrieve(), "merged")
	stream.Send(did("s1", "", "c"))
	waittest.Until(t, "the model's summary is there", func() bool { return retrieve()[0] == "The user is busy." })
	assert.Len(t, retrieve(), 1)
	for _, q := range model.Asked() {
		assert.Equal(t, "Bearer "+openAIKey, q.Authorization)
		assert.Equal(t, "llama3.2", q.Body["model"])
		assert.Contains(t, fmt.Sprint(q.Body), "User clicked a")
		assert.NotContains(t, fmt.Sprint(q), token, "the stream's key stays here")
	}
	for _, session := range []string{"s2", "s3"} {
		stream.Send(did(session, "", "a"))
	}
	s.awaitMetric(`liveactivity_consumer_acknowledged_total{type="actions"}`, "5")
	eventsOf := func(session string) []string {
		_, body := proctest.Request(t, http.MethodGet, s.url+"/events?session_id="+session, "",
			"Authorization: Bearer "+apiKey)
		return said(t, body)
	}
	waittest.Until(t, "it knows both sessions", func() bool { return len(eventsOf("s2")) > 0 && len(eventsOf("s3")) > 0 })
	assert.Equal(t, "2", s.metric("liveactivity_retriever_sessions"))
	s.Stop()
	for line := range strings.SplitSeq(strings.TrimSpace(s.Stderr.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), line)
	}
	assert.Contains(t, s.Stderr.String(), `"level":"DEBUG"`)
	for _, private := range []string{"s3cr3t", "ada@example.com"} {
		assert.NotContains(t, s.Stdout.String()+s.Stderr.String(), private)
	}
}

func TestActivityTTL_isHowLongARecordIsKept(t *testing.T) {
	t.Parallel()
	stream := newStream(t)
	begun := time.Now()
	s := follow(t, stream, "--activity-ttl=1.5")
	stream.Send(did("s1", "", "a"))
	s.awaitMetric(`liveactivity_consumer_acknowledged_total{type="actions"}`, "1")
	s.await("s1")
	assert.GreaterOrEqual(t, time.Since(begun), 1500*time.Millisecond)
}
