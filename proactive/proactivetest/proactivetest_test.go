package proactivetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

// config has labels; the scripts add the dwell trigger.
func config() *proactive.Config {
	return &proactive.Config{ReplyOptionLabels: []string{"Yes, show me"}}
}

func TestCheck_playsEverythingThatCanHappen(t *testing.T) {
	require.NoError(t, proactivetest.Check(`
		# A comment; with a semicolon → and an arrow.
		t+0s /pricing; t+4s https://docs.example.com/#/install   # another
		t+5s click "Next" ; t+6s change "plan";t+6s submit "a form"->no offer
		t+7s /a → no offer no_match
		t+8s https://docs.example.com/#/install → offer canonical_url_ping_pong "Yes, show me", state proactive
		t+9s says "  yes, SHOW me " → state guidance_execution, guide "Yes, show me"
		t+10s progresses
		t+11s restart
		t+309.999s wait → state guidance
		t+310s → state thinking
		t+312s /a -> no offer
		t+372s → offer user_page_dwell; t+373s dismisses → state conservative; t+374s dismisses → refused
		t+375s says ";" → reply, state reactive; t+376s finishes
		t+377s /c; t+437s → offer user_page_dwell
		t+438s joins → state reactive; t+439s says "yes, show me" → guide "Yes, show me"; t+440s abandons → state conservative
		t+1040s /d; t+1041s /e; t+1042s /d → offer canonical_url_ping_pong
		t+1043s desk fails; t+1060s → state proactive; t+1060.5s desk works
		t+1061.999s → state proactive; t+1062s → removed, state thinking
	`, config(), proactive.Dwell{}))
	require.NoError(t, proactivetest.Check("t+0s /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong; "+
		"t+12s → no offer state, removed", config(), proactive.Dwell{After: 10 * time.Second}))
	sent := proactive.Predicate("sent", func(c proactive.TriggerContext) bool {
		newest := c.Actions[len(c.Actions)-1]
		return newest.Type == activity.TypeEvent && newest.Label == "Invoice Sent" && newest.Title == newest.Label
	})
	require.NoError(t, proactivetest.Check(`t+0s /a; t+1s event "Invoice Sent" → offer sent; t+20s → removed
		t+21s error "PaymentError" → offer error_seen`, config(), sent, proactive.ErrorSeen()))
}

func TestCheck_namesTheUnexpected(t *testing.T) {
	const offered = "t+0s /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong\n"
	for script, problem := range map[string]string{
		"t+0s /a → offer canonical_url_ping_pong": "line 1, column 11: there is no offer canonical_url_ping_pong: no " +
			"trigger matches\n\tt+0s /a → offer canonical_url_ping_pong",
		"t+0s /a; t+1s /b;\n\n  t+2s /a": "line 3, column 3: nothing expects the offer " +
			"canonical_url_ping_pong\n\tt+2s /a",
		"t+0s /a; t+60s": "line 1, column 10: nothing expects the offer user_page_dwell\n\tt+60s",
		"t+0s /a; t+60s → offer canonical_url_ping_pong": "line 1, column 18: there is no offer canonical_url_ping_pong: " +
			"user_page_dwell matches (offered)\n\tt+60s → offer canonical_url_ping_pong\n" +
			"line 1, column 10: nothing expects the offer user_page_dwell\n\tt+60s → offer canonical_url_ping_pong",
		"t+0s /a; t+1s /b; t+2s /a → no offer": "line 1, column 29: there is an offer " +
			"canonical_url_ping_pong",
		"t+0s /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong \"No\"": `line 1, column 29: the labels of the offer ` +
			`are ["Yes, show me"]`,
		"t+0s /a → no offer cooldown": "line 1, column 11: the reason is not " +
			"cooldown: no trigger matches",
		"t+0s → no offer stale": "line 1, column 8: the reason is not stale: no " +
			"trigger was asked",
		"t+0s → state reactive": "line 1, column 8: the state is thinking, and " +
			"not reactive_assistance",
		"t+0s /a → reply, removed, guide \"x\", refused": "line 1, column 11: no message is answered\n",
		"t+0s → removed": "line 1, column 8: the conversation is not " +
			"deleted",
		"t+0s → guide \"x\"": `line 1, column 8: no guidance for "x" begins`,
		"t+0s → refused":     "line 1, column 8: it is possible",
		"t+0s joins": "line 1, column 1: proactive: engaged is not " +
			"possible in thinking\n\tt+0s joins",
		offered + "t+3s says \"hm\"; t+4s finishes; t+5s /b; t+6s /a; t+7s /b → no offer state": "line 2, column 60: the " +
			"reason is not state: canonical_url_ping_pong matches (cooldown)",
	} {
		err := proactivetest.Check(script, config(), proactive.Dwell{})
		require.Error(t, err, script)
		assert.True(t, strings.HasPrefix(err.Error(), problem), "%s\n%v", script, err)
	}
	err := proactivetest.Check("t+0s → reply\nt+1s → removed", config(), proactive.Dwell{})
	assert.Equal(t, 2, strings.Count(err.Error(), "line "), "all at once")
}

func TestCheck_namesMistakesInAScript(t *testing.T) {
	for script, problem := range map[string]string{
		"/a":               `line 1, column 1: a step begins with its time, such as t+4s, and not with "/a"`,
		`"t+4s"`:           `line 1, column 1: a step begins with its time, such as t+4s, and not with "t+4s"`,
		"t+1s /é; t+x /b":  `line 1, column 10: "t+x" is not a time such as t+4s or t+1m30s, at most t+1000h`,
		"t+-1s":            `line 1, column 1: "t+-1s" is not a time such as t+4s or t+1m30s, at most t+1000h`,
		"t+1001h":          `line 1, column 1: "t+1001h" is not a time such as t+4s or t+1m30s, at most t+1000h`,
		"t+4s /a\nt+3s /b": "line 2, column 1: the time is before the previous step's, 4s",
		"t+0s click Buy": "line 1, column 6: click Buy is not something that happens; see the package " +
			"documentation",
		"t+0s click": "line 1, column 6: click is not something that happens; see the package documentation",
		`t+0s "/a"`:  `line 1, column 6: "/a" is not something that happens; see the package documentation`,
		"t+0s /a /b": "line 1, column 6: /a /b is not something that happens; see the package documentation",
		"t+0s desk sleeps": "line 1, column 6: desk sleeps is not something that happens; see the package " +
			"documentation",
		`t+0s says "hm`:             "line 1, column 11: a text in quotes has no end",
		"t+0s /a →":                 "line 1, column 9: something must be expected after → and each comma",
		"t+0s /a → reply,":          "line 1, column 9: something must be expected after → and each comma",
		"t+0s /a → offer":           "line 1, column 11: offer cannot be expected; see the package documentation",
		`t+0s /a → offer "x"`:       `line 1, column 11: offer "x" cannot be expected; see the package documentation`,
		"t+0s /a → no offer always": "line 1, column 11: no offer always cannot be expected; see the package documentation",
		"t+0s /a → state asleep":    "line 1, column 11: state asleep cannot be expected; see the package documentation",
		"t+0s /a → reply → reply":   "line 1, column 11: reply → reply cannot be expected; see the package documentation",
	} {
		require.EqualError(t, proactivetest.Check(script, config(), proactive.Dwell{}), problem, script)
	}
}

// recorder is a test that must fail.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.failure = fmt.Sprint(args...)
	panic(r)
}

func TestRun_failsTheTest(t *testing.T) {
	for want, run := range map[string]func(testing.TB){
		"nothing expects the offer": func(t testing.TB) {
			proactivetest.Run(t, "t+0s /a; t+1s /b; t+2s /a",
				proactive.PingPong{})
		},
		"must not be nil":       func(t testing.TB) { proactivetest.Run(t, "", nil) },
		"the state is thinking": func(t testing.TB) { proactivetest.RunConfig(t, "t+0s → state reactive", config()) },
	} {
		r := &recorder{}
		assert.Panics(t, func() { run(r) })
		assert.Contains(t, r.failure, want)
	}
	proactivetest.Run(t, "")
}

func FuzzCheck(f *testing.F) {
	f.Add("t+0s /pricing; t+4s /docs; t+7s /pricing → offer canonical_url_ping_pong")
	f.Add("t+0s click \"a\\\"\" -> no offer state, state thinking # x\nt+1ms says \"yes\"")
	f.Add("t+0s desk fails; t+900h restart → refused, removed, reply, guide \"x\"")
	f.Fuzz(func(t *testing.T, script string) {
		_ = proactivetest.Check(script, config(), proactive.Dwell{})
	})
}
