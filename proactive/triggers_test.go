package proactive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

func TestPingPong_isOfPagesInTurn(t *testing.T) {
	for urls, cycles := range map[string]int{ // most cycles for which it matches
		"":                      0,
		"A":                     0,
		"A B":                   0,
		"A B A":                 1,
		"A B C A":               0,
		"A B C":                 0,
		"A B A C":               0, // the newest page completes nothing
		"A A A":                 0,
		"A A B B A A":           1,
		"A - B - - A -":         1,
		"- - -":                 0,
		"C A B A":               1,
		"A B A B":               1,
		"A B A B A":             2,
		"A B A C A":             1,
		"A B C B A":             0,
		"B B A B A B":           2,
		"A - A - B A B B A B A": 3,
	} {
		var chronological []string
		for _, url := range strings.Fields(urls) {
			chronological = append(chronological, strings.Trim(url, "-"))
		}
		for n := range 5 {
			_, matches := proactive.PingPong{MinCycles: n}.Evaluate(proactive.TriggerContext{CanonicalURLs: chronological})
			assert.Equal(t, max(1, n) <= cycles, matches, "%q, %d cycles", urls, n)
		}
	}
}

func TestPingPong_ignoresAPageAndOneBelowIt(t *testing.T) {
	for urls, fires := range map[string]bool{
		"https://a.example/orders https://a.example/orders/:id https://a.example/orders":                           false,
		"https://a.example/orders/:id https://a.example/orders https://a.example/orders/:id":                       false,
		"https://a.example/ https://a.example/pricing https://a.example/":                                          false,
		"https://a.example/#/orders https://a.example/#/orders/:id https://a.example/#/orders":                     false,
		"app://screen/cart app://screen/cart/item app://screen/cart":                                               false,
		"https://a.example/orders https://a.example/orders-faq https://a.example/orders":                           true,
		"https://a.example/orders/:id https://a.example/orders/new https://a.example/orders/:id":                   true,
		"https://a.example/orders https://b.example/orders/:id https://a.example/orders":                           true,
		"https://a.example/#/orders https://a.example/#/billing https://a.example/#/orders":                        true,
		"https://a.example/orders https://a.example/orders/:id https://a.example/faq https://a.example/orders/:id": true,
	} {
		_, matches := proactive.PingPong{}.Evaluate(proactive.TriggerContext{CanonicalURLs: strings.Fields(urls)})
		assert.Equal(t, fires, matches, urls)
	}
	proactivetest.Run(t, `t+0s /orders; t+1s /orders/1; t+2s /orders; t+3s /orders/2; t+4s /orders; t+5s /orders/3
		t+6s /orders; t+7s /orders/4 → no offer no_match`, proactive.DeadEnd{}, proactive.PingPong{})
}

func TestPingPong_isUsedUpOnceOffered(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /pricing
		t+4s  /docs
		t+7s  /pricing → offer canonical_url_ping_pong, state proactive
		t+8s  finishes → refused
		t+9s  says "thanks" → reply
		t+10s finishes → state thinking
		t+40s click "Buy" → no offer no_match      # the pattern is used up
		t+41s /docs       → no offer no_match      # so are its pages
		t+42s /pricing    → no offer no_match
		t+43s /docs       → offer canonical_url_ping_pong`, proactive.PingPong{})
}

func TestPingPong_sleepsWhileItsCooldownLasts(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong
		t+3s  says "hi" → reply
		t+4s  finishes
		t+5s  /b; t+6s /a; t+7s /b → no offer cooldown
		t+31s /a → no offer cooldown
		t+32s /b → offer canonical_url_ping_pong`, proactive.PingPong{})
}

func TestPingPong_forgetsPagesOfTwoMinutesAgo(t *testing.T) {
	proactivetest.Run(t, `t+0s /a; t+60s /b; t+120s /a → offer canonical_url_ping_pong`, proactive.PingPong{})
	proactivetest.Run(t, `t+0s /a; t+60s /b; t+120.001s /a → no offer no_match`, proactive.PingPong{})
}

func TestDwell_offersWhenNothingHappens(t *testing.T) {
	proactivetest.Run(t, `t+0s /pricing; t+59.999s → no offer; t+60s → offer user_page_dwell`, proactive.Dwell{})
	proactivetest.Run(t, `
		t+0s  /a
		t+50s /pricing
		t+100s click "Monthly"; t+101s click "Yearly"; t+102s click "Monthly"; t+103s click "Yearly"
		t+115s → offer user_page_dwell    # after 60 s on the page, whatever was clicked
		t+180s → no offer`, proactive.Dwell{})
}

func TestDwell_isNotForTheBusy(t *testing.T) {
	proactivetest.Run(t, `
		t+0s /pricing
		t+1s click "1"; t+2s click "2"; t+3s click "3"; t+4s click "4"; t+5s click "5"
		t+2m → no offer`, proactive.Dwell{})
	proactivetest.Run(t, `t+0s /a; t+1s /b; t+3s → offer user_page_dwell`,
		proactive.Dwell{After: 2 * time.Second, MaxActions: 1})
	proactivetest.Run(t, `t+0s /a; t+1s /b; t+2s click "x"; t+2m → no offer`,
		proactive.Dwell{After: 2 * time.Second, MaxActions: 1})
}

func TestTriggers_anUnknownPageIsNoOther(t *testing.T) {
	action := func(s int, url string) proactive.Action {
		return proactive.Action{At: proactivetest.Start.Add(time.Duration(s) * time.Second), Type: "click", CanonicalURL: url}
	}
	_, dwells := proactive.Dwell{}.Evaluate(proactive.TriggerContext{Now: proactivetest.Start.Add(time.Minute),
		Actions: []proactive.Action{action(0, "https://a/x"), action(5, ""), action(10, "https://a/x")}})
	assert.True(t, dwells)
	_, back := proactive.BackOnPricing("").Evaluate(proactive.TriggerContext{CanonicalURLs: []string{"https://a/pricing",
		"", "https://a/pricing"}})
	assert.False(t, back)
}

func TestDwell_startsAnewOnceOffered(t *testing.T) {
	proactivetest.Run(t, `
		t+0s /a; t+60s → offer user_page_dwell
		t+61s dismisses
		t+70s click "x" → no offer
		t+130s → no offer holding_back`, proactive.Dwell{})
}

func TestDwell_isAskedWithoutTheOthers(t *testing.T) {
	always := proactive.Predicate("always", func(c proactive.TriggerContext) bool {
		return c.ActionCount == 1 && c.Now.After(proactivetest.Start)
	})
	proactivetest.Run(t, `t+0s /a; t+60s → offer user_page_dwell`, always, proactive.Dwell{})
	proactivetest.Run(t, `t+0s /a; t+60s → no offer`, proactive.Within("/b", proactive.Dwell{}), always)
}

func TestRageClicks_areThreeWithinTwoSeconds(t *testing.T) {
	proactivetest.Run(t, `t+0s /a; t+1s click "Buy"; t+2s click "Buy"; t+3s click "Buy" → offer rage_clicks`,
		proactive.RageClicks())
	proactivetest.Run(t, `t+0s /a; t+1s click "Buy"; t+2s click "Buy"; t+3.1s click "Buy" → no offer no_match`,
		proactive.RageClicks())
	proactivetest.Run(t, `t+0s /a; t+1s click "Buy"; t+1.5s click "Sell"; t+2s click "Buy" → no offer no_match
		t+2.1s change "plan" → no offer no_match
		t+2.2s click "Buy" → offer rage_clicks`, proactive.RageClicks())
	proactivetest.Run(t, `t+0s /a; t+1s click "Buy"; t+1.2s /b; t+1.3s click "Buy"; t+2s click "Buy" → no offer no_match`,
		proactive.RageClicks())
	proactivetest.Run(t, `t+0s /a; t+1s submit "Buy"; t+1.2s submit "Buy"; t+2s submit "Buy" → no offer no_match`,
		proactive.RageClicks())
}

func TestRepeatedSubmits_areThreeOfAFormWithinAMinute(t *testing.T) {
	proactivetest.Run(t, `t+0s /a; t+1s submit "card"; t+30s submit "card"; t+61s submit "card" → offer repeated_submits`,
		proactive.RepeatedSubmits())
	proactivetest.Run(t, `t+0s /a; t+1s submit "card"; t+30s submit "card"; t+62s submit "card" → no offer no_match`,
		proactive.RepeatedSubmits())
	proactivetest.Run(t, `t+0s /a; t+1s submit "card"; t+2s submit "address"; t+3s submit "card"; t+4s click "card" → `+
		`no offer no_match`, proactive.RepeatedSubmits())
}

func TestBackOnPricing_needsAVisitElsewhere(t *testing.T) {
	pricing := proactive.BackOnPricing("")
	proactivetest.Run(t, `t+0s /pricing; t+1s /a; t+2s /b; t+3s /pricing/teams → offer back_on_pricing`, pricing)
	proactivetest.Run(t, `t+0s /pricing; t+1s /pricing/teams; t+2s /pricing → no offer no_match`, pricing)
	proactivetest.Run(t, `t+0s /a; t+1s /pricing; t+2s /pricing-faq → no offer no_match; t+3s /a → no offer no_match`,
		pricing)
	proactivetest.Run(t, `t+0s /plans; t+1s /a; t+2s /plans → offer back_on_pricing`, proactive.BackOnPricing("/plans"))
}

func TestDeadEnd_isTwoPagesFourTimes(t *testing.T) {
	proactivetest.Run(t, `t+0s /a; t+1s /b; t+2s /a; t+3s /b; t+4s /a; t+5s /b; t+6s /a → no offer no_match; t+7s /b → `+
		`offer dead_end`, proactive.DeadEnd{})
	proactivetest.Run(t, `t+0s /a; t+1s /b; t+2s /a; t+3s /c; t+4s /a; t+5s /b; t+6s /a; t+7s /b → no offer no_match`,
		proactive.DeadEnd{})
}

func TestTriggers_theFirstThatMatchesWins(t *testing.T) {
	script := `t+0s /pricing; t+1s /a; t+2s /pricing → offer `
	proactivetest.Run(t, script+"back_on_pricing", proactive.DeadEnd{}, proactive.BackOnPricing(""), proactive.PingPong{})
	proactivetest.Run(t, script+"canonical_url_ping_pong", proactive.PingPong{}, proactive.BackOnPricing(""))
}

func TestCheckTriggers_reportsEveryMistake(t *testing.T) {
	no := func(proactive.TriggerContext) bool { return false }
	err := proactive.CheckTriggers(nil, proactive.PingPong{}, proactive.Predicate("", no), proactive.PingPong{})
	require.EqualError(t, err, `proactive: triggers[0] must not be nil
proactive: triggers[2].ID must not be empty
proactive: trigger canonical_url_ping_pong is a duplicate`)
	require.NoError(t, proactive.CheckTriggers())
	for _, none := range []proactive.Trigger{proactive.Predicate("x", nil), proactive.Saying(proactive.Result{}, nil),
		proactive.Within("/a", proactive.Saying(proactive.Result{}, proactive.Predicate("x", nil)))} {
		require.EqualError(t, proactive.CheckTriggers(none), "proactive: triggers[0] must not be nil")
	}
}

func TestWithin_isOfThePageWhereTheUserIs(t *testing.T) {
	docs := proactive.Within("/docs", proactive.PingPong{})
	assert.Equal(t, proactive.PingPong{}.ID(), docs.ID())
	proactivetest.Run(t, `t+0s /docs; t+1s /a; t+2s /docs → offer canonical_url_ping_pong`, docs)
	proactivetest.Run(t, `t+0s /a; t+1s /docs; t+2s /a → no offer no_match`, docs)
	_, timed := docs.(proactive.Timed)
	assert.False(t, timed)
	_, timed = proactive.Within("/docs", proactive.Dwell{}).(proactive.Timed)
	assert.True(t, timed)
	proactivetest.Run(t, `t+0s /docs/install; t+60s → offer user_page_dwell`, proactive.Within("/docs", proactive.Dwell{}))
}

func TestSaying_keepsTheTriggersOtherTexts(t *testing.T) {
	of := proactive.Saying(proactive.Result{Body: "a", ReplyOptionLabels: []string{"b"}, InteractionTimeout: time.Minute,
		Cooldown: time.Hour},
		proactive.Predicate("p", func(proactive.TriggerContext) bool { return true }))
	same, ok := proactive.Saying(proactive.Result{}, of).Evaluate(proactive.TriggerContext{})
	assert.True(t, ok)
	assert.Equal(t, proactive.Result{Body: "a", ReplyOptionLabels: []string{"b"}, InteractionTimeout: time.Minute,
		Cooldown: time.Hour}, same)
	other, _ := proactive.Saying(proactive.Result{Body: "c", ReplyOptionLabels: []string{}, InteractionTimeout: 1,
		Cooldown: 2}, of).Evaluate(proactive.TriggerContext{})
	assert.Equal(t, proactive.Result{Body: "c", ReplyOptionLabels: []string{}, InteractionTimeout: 1, Cooldown: 2}, other)
}

func TestUnder_goesByWholeSegments(t *testing.T) {
	for _, c := range []struct {
		url, prefix string
		under       bool
	}{
		{"https://a.example/pricing", "/pricing", true},
		{"https://a.example/pricing/teams", "/pricing", true},
		{"https://a.example/pricing/teams", "/pricing/", true},
		{"https://a.example/pricing-faq", "/pricing", false},
		{"https://a.example/a/pricing", "/pricing", false},
		{"https://a.example/pricing", "https://a.example", true},
		{"https://a.example/pricing", "https://a.example/pricing", true},
		{"https://b.example/pricing", "https://a.example", false},
		{"https://a.example.org/", "https://a.example", false},
		{"https://a.example", "/", true},
		{"https://a.example", "/x", false},
		{"https://a.example/x", "/", true},
		{"https://a.example/#/orders/:id", "/#/orders", true},
		{"https://a.example/app#/orders", "/app", true},
		{"app://screen/cart", "/cart", true},
		{"", "/", false},
		{"https://a.example/x", "", false},
	} {
		assert.Equal(t, c.under, proactive.Under(c.url, c.prefix), "%s under %s", c.url, c.prefix)
	}
}

func TestDeadClick_matchesWhileTheUserIsOnThePage(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	dead := proactive.Action{At: noon, Type: "click", CanonicalURL: "/pay", Marks: []string{"dead"}}
	rage, other := dead, dead
	rage.Marks, other.CanonicalURL, other.Marks = []string{"rage"}, "/help", nil
	for name, c := range map[string]struct {
		after   time.Duration
		actions []proactive.Action
		want    bool
	}{
		"at once":     {3 * time.Second, []proactive.Action{other, dead}, true},
		"one later":   {3 * time.Second, []proactive.Action{dead, rage}, true},
		"late":        {11 * time.Second, []proactive.Action{dead}, false},
		"gone on":     {3 * time.Second, []proactive.Action{dead, other}, false},
		"only a rage": {3 * time.Second, []proactive.Action{rage}, false},
		"none at all": {0, nil, false},
	} {
		_, ok := proactive.DeadClick().Evaluate(proactive.TriggerContext{Actions: c.actions, Now: noon.Add(c.after)})
		assert.Equal(t, c.want, ok, name)
	}
}

func TestErrorSeen_matchesTheNewestAction(t *testing.T) {
	seen := proactive.Action{Type: "error", Title: "Error PaymentError"}
	for want, actions := range map[bool][]proactive.Action{true: {{Type: "click"}, seen}, false: {seen, {Type: "click"}}} {
		_, ok := proactive.ErrorSeen().Evaluate(proactive.TriggerContext{Actions: actions})
		assert.Equal(t, want, ok)
	}
}
