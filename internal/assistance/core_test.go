package assistance_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/proactive/proactivetest"
)

var visitor = assistance.Session{ProductID: "acme", SessionID: "s1", ConversationID: "c1"}

func newCore(t testing.TB, triggers ...proactive.Trigger) *assistance.Core {
	t.Helper()
	core := assistance.NewCore(nil, triggers...)
	return core
}

// view is a page view, of that path, the index-th action of its session.
func view(at time.Time, index int, path string) activity.Action {
	a := activity.NewAction(activity.TypePageview, activity.Target{}, "https://app.example.com"+path)
	a.TimestampStart, a.Index = activity.Seconds(at), index
	return a
}

// witness is a trigger that remembers its last context.
type witness struct{ proactive.TriggerContext }

func (*witness) ID() string { return "witness" }

func (w *witness) Evaluate(c proactive.TriggerContext) (proactive.Result, bool) {
	w.TriggerContext = c
	w.CanonicalURLs, w.Actions = slices.Clone(c.CanonicalURLs), slices.Clone(c.Actions)
	return proactive.Result{}, false
}

// paths returns the pages that the trigger was shown.
func (w *witness) paths() string {
	paths := make([]string, len(w.CanonicalURLs))
	for i, url := range w.CanonicalURLs {
		paths[i] = strings.TrimPrefix(url, "https://app.example.com")
	}
	return strings.Join(paths, " ")
}

func TestCore_showsTriggersTheWindow(t *testing.T) {
	w := &witness{}
	core := newCore(t, w)
	var window assistance.Window
	click := activity.NewAction(activity.TypeClick, activity.Target{Label: "Buy"}, "https://app.example.com/a")
	click.TimestampStart, click.Index = activity.Seconds(noon), 41
	d := core.Act(&window, assistance.Machine{}, visitor, click, noon.Add(time.Second))
	assert.Equal(t, assistance.Decision{Reason: assistance.NoMatch}, d)
	assert.Equal(t, proactive.TriggerContext{
		CanonicalURLs: []string{"https://app.example.com/a"},
		Actions: []proactive.Action{{At: noon, Type: "click", Title: "Click Buy", Label: "Buy",
			CanonicalURL: "https://app.example.com/a"}},
		Now: noon.Add(time.Second), ProductID: "acme", SessionID: "s1", ConversationID: "c1", ActionCount: 42,
	}, w.TriggerContext)
	click.Marks = []string{activity.MarkDead}
	core.Act(&window, assistance.Machine{}, visitor, click, noon.Add(4*time.Second))
	require.Len(t, w.Actions, 1, "a click that comes again with marks is there once")
	assert.Equal(t, click.Marks, w.Actions[0].Marks)
}

func TestCore_keepsTheNewestFiftyOfTwoMinutes(t *testing.T) {
	w := &witness{}
	core := newCore(t, w)
	var window assistance.Window
	for i := range 60 {
		core.Act(&window, assistance.Machine{}, visitor,
			view(noon.Add(time.Duration(i)*time.Second), i, fmt.Sprint("/p-", i, "x")), noon.Add(time.Duration(i)*time.Second))
		assert.Len(t, w.CanonicalURLs, min(i+1, 50))
	}
	assert.True(t, strings.HasPrefix(w.paths(), "/p-10x /p-11x "))
	assert.True(t, strings.HasSuffix(w.paths(), " /p-58x /p-59x"))
	core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(130*time.Second), 60, "/last"),
		noon.Add(130*time.Second))
	assert.True(t, strings.HasPrefix(w.paths(), "/p-11x "), "oldest first out")
	core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(176*time.Second), 60, "/last"),
		noon.Add(176*time.Second))
	assert.Equal(t, "/p-56x /p-57x /p-58x /p-59x /last /last", w.paths(), "exactly two minutes")
	core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(time.Hour), 60, "/later"), noon.Add(time.Hour))
	assert.Equal(t, "/later", w.paths())
	assert.Equal(t, 1, len(window.Actions))
}

func TestCore_placesLateActionsByTheirTime(t *testing.T) {
	w := &witness{}
	core := newCore(t, w)
	var window assistance.Window
	at := func(s int, path string) {
		core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(time.Duration(s)*time.Second), 0, path),
			noon.Add(100*time.Second))
	}
	for i, path := range []string{"/d", "/b", "/c", "/a", "/e"} {
		at([]int{40, 20, 30, 10, 50}[i], path)
	}
	at(30, "/c2")
	at(-21, "/older-than-the-window")
	assert.Equal(t, "/a /b /c /c2 /d /e", w.paths())
	for i := range 44 {
		at(60+i, "/x")
	}
	assert.True(t, strings.HasPrefix(w.paths(), "/a /b /c "))
	at(25, "/b2")
	assert.True(t, strings.HasPrefix(w.paths(), "/b /b2 /c "), "the oldest makes room")
	at(5, "/too-old")
	assert.True(t, strings.HasPrefix(w.paths(), "/b /b2 /c "), "a full window has no room for what is older")
	at(-60, "/before-them-all")
	assert.True(t, strings.HasPrefix(w.paths(), "/b /b2 /c "))
	assert.Equal(t, 50, len(window.Actions))

	window = assistance.Window{}
	window.Add(view(noon.Add(-2*time.Hour), 0, "/a"), noon)
	assert.Zero(t, len(window.Actions))
}

func TestCore_offersAtMostTenSecondsAfterTheAction(t *testing.T) {
	core := newCore(t, proactive.PingPong{})
	for latency, reason := range map[time.Duration]assistance.Reason{
		0: assistance.Offered, 10 * time.Second: assistance.Offered, 10*time.Second + time.Microsecond: assistance.Stale,
		time.Minute: assistance.Stale,
	} {
		var window assistance.Window
		window.Add(view(noon, 0, "/a"), noon)
		window.Add(view(noon.Add(time.Second), 1, "/b"), noon)
		acted := noon.Add(2 * time.Second)
		d := core.Act(&window, assistance.Machine{}, visitor, view(acted, 2, "/a"), acted.Add(latency))
		assert.Equal(t, reason, d.Reason, latency)
		assert.Equal(t, acted.Add(assistance.SendWithin), d.Match.SendBy)
		assert.Equal(t, proactive.Result{TriggerID: proactive.PingPong{}.ID(), Body: "Need a hand?",
			ReplyOptionLabels:  []string{},
			InteractionTimeout: 10 * time.Second, Cooldown: 30 * time.Second}, d.Match.Result)
	}
}

func TestCore_saysWhyThereIsNoOffer(t *testing.T) {
	core := newCore(t, proactive.Predicate("a", func(proactive.TriggerContext) bool { return true }))
	reserved := in(t, assistance.Conservative).Machine
	claimed, _, err := core.Step(assistance.Machine{}, noon, matched("b", noon))
	require.NoError(t, err)
	cooling := in(t, assistance.Thinking)
	cooling.do(matched("a", noon), assistance.Lost{})
	for _, c := range []struct {
		machine assistance.Machine
		reason  assistance.Reason
	}{
		{assistance.Machine{}, assistance.Offered}, {in(t, assistance.Proactive).Machine, assistance.Busy},
		{in(t, assistance.Guidance).Machine, assistance.Busy},
		{in(t, assistance.Reactive).Machine, assistance.Busy}, {reserved, assistance.HoldingBack},
		{claimed, assistance.Sending}, {cooling.Machine, assistance.CoolingDown},
	} {
		var window assistance.Window
		d := core.Act(&window, c.machine, visitor, view(noon, 0, "/a"), noon)
		assert.Equal(t, c.reason, d.Reason, c.machine.State())
		assert.Equal(t, "a", d.Match.Result.TriggerID)
		_, _, err := core.Step(c.machine, noon, d.Match)
		assert.Equal(t, c.reason == assistance.Offered, err == nil, "a step says the same")
	}
}

func TestCore_aTriggerThatCoolsDownStopsNoOther(t *testing.T) {
	always := func(proactive.TriggerContext) bool { return true }
	core := newCore(t, proactive.Predicate("a", always), proactive.Predicate("b", always))
	m := in(t, assistance.Thinking)
	for i, want := range []string{"a offered", "b offered", "a cooldown"} {
		var window assistance.Window
		now := noon.Add(time.Duration(i) * time.Second)
		d := core.Act(&window, m.Machine, visitor, view(now, 0, "/a"), now)
		assert.Equal(t, want, d.Match.Result.TriggerID+" "+string(d.Reason))
		if d.Reason == assistance.Offered {
			m.do(d.Match, assistance.Lost{})
		}
	}
}

func TestCore_asksAgainInTimeOrNot(t *testing.T) {
	core := newCore(t, proactive.Dwell{})
	var window assistance.Window
	d := core.Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/a"), noon)
	due := noon.Add(time.Minute)
	assert.Equal(t, due, d.Again)
	assert.Equal(t, assistance.NoMatch, core.Ask(&window, assistance.Machine{}, visitor, due,
		due.Add(-time.Second)).Reason)
	asked := core.Ask(&window, assistance.Machine{}, visitor, due, due.Add(10*time.Second))
	assert.Equal(t, assistance.Offered, asked.Reason)
	assert.Equal(t, due.Add(10*time.Second), asked.Match.SendBy)
	assert.Zero(t, asked.Again)
	assert.Equal(t, assistance.Stale, core.Ask(&window, assistance.Machine{}, visitor, due,
		due.Add(11*time.Second)).Reason, "the server was away")
}

func TestCore_aMomentIsNeverLaterThanNow(t *testing.T) {
	var window assistance.Window
	core := newCore(t, proactive.Predicate("a", func(proactive.TriggerContext) bool { return true }))
	d := core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(time.Hour), 0, "/a"), noon)
	assert.Equal(t, noon.Add(assistance.SendWithin), d.Match.SendBy)
}

// patient is a witness that is asked when nothing happens.
type patient struct{ *witness }

func (patient) Again(c proactive.TriggerContext) (time.Time, bool) {
	return c.Now.Add(-time.Second), true // which is ignored
}

func TestCore_asksWithoutActionsThatLeftTheWindow(t *testing.T) {
	w := patient{&witness{}}
	core := newCore(t, w)
	var window assistance.Window
	core.Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/a"), noon)
	d := core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(time.Minute), 1, "/b"), noon.Add(time.Minute))
	assert.Zero(t, d.Again)
	due := noon.Add(121 * time.Second)
	core.Ask(&window, assistance.Machine{}, visitor, due, due)
	assert.Equal(t, "/b", w.paths())
	assert.Equal(t, 2, w.ActionCount, "since the session began")
}

// A trigger may index the newest action. Here an action from before the offer comes late.
func TestCore_asksNoTriggerAboutNoAction(t *testing.T) {
	core := newCore(t, proactive.Predicate("a", func(c proactive.TriggerContext) bool {
		return c.Actions[len(c.Actions)-1].CanonicalURL == "https://app.example.com/a"
	}))
	var window assistance.Window
	d := core.Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/a"), noon)
	m, _, err := core.Step(assistance.Machine{}, noon, d.Match)
	require.NoError(t, err)
	late := core.Act(&window, m, visitor, view(noon.Add(-time.Second), 1, "/a"), noon.Add(time.Second))
	assert.Equal(t, assistance.NoMatch, late.Reason)
}

func TestCore_aPatternStaysUsedWhenClocksDiffer(t *testing.T) {
	core := newCore(t, proactive.PingPong{})
	var window assistance.Window
	var m assistance.Machine
	var reasons []assistance.Reason
	for i, s := range []int{0, 1, 2, 40, 41, 42} {
		now := noon.Add(time.Duration(s) * time.Second)
		d := core.Act(&window, m, visitor, view(now, i, []string{"/a", "/b"}[i%2]), now)
		reasons = append(reasons, d.Reason)
		if i == 2 {
			var err error
			m, _, err = core.Step(m, now, d.Match)
			require.NoError(t, err)
			m, _, err = core.Step(m, now.Add(-time.Second), assistance.Lost{}) // on another server
			require.NoError(t, err)
		}
	}
	const none, offered = assistance.NoMatch, assistance.Offered
	assert.Equal(t, []assistance.Reason{none, none, offered, none, none, offered}, reasons)
}

// Another server may have made the offer of a match that this one still remembers.
func TestCore_offersAPatternOnceThoughNothingCoolsDown(t *testing.T) {
	core := newCore(t, proactive.Saying(proactive.Result{Cooldown: -1}, proactive.PingPong{}))
	var window assistance.Window
	var d assistance.Decision
	for i, page := range []string{"/a", "/b", "/a"} {
		d = core.Act(&window, assistance.Machine{}, visitor, view(noon, i, page), noon)
	}
	m := machine{t: t, rules: rules, now: noon}
	m.do(d.Match, assistance.Shown{OfferID: "p1"}, assistance.Message{Text: "Hello"}, finished)
	require.Equal(t, assistance.Thinking, m.State())
	assert.Equal(t, assistance.CoolingDown, m.refuses(d.Match).Reason)
	d = core.Act(&window, assistance.Machine{}, visitor, view(noon.Add(time.Second), 3, "/a"), noon)
	require.Equal(t, assistance.Offered, d.Reason, "it knows of no offer")
	assert.Equal(t, assistance.CoolingDown, m.refuses(d.Match).Reason)
}

// slow is a Timed trigger with an ID of its own.
type slow struct {
	proactive.Dwell
	id string
}

func (s slow) ID() string { return s.id }

func TestCore_asksAtTheEarliestTime(t *testing.T) {
	a, b := slow{proactive.Dwell{After: 30 * time.Second}, "a"}, slow{proactive.Dwell{After: 20 * time.Second}, "b"}
	for _, order := range [][]proactive.Trigger{{a, b}, {b, a}} {
		var window assistance.Window
		d := newCore(t, order...).Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/a"), noon)
		assert.Equal(t, noon.Add(20*time.Second), d.Again)
	}
	var window assistance.Window
	d := newCore(t, slow{proactive.Dwell{After: 2 * time.Minute}, "a"}).Act(&window, assistance.Machine{}, visitor,
		view(noon, 0, "/a"), noon)
	assert.Zero(t, d.Again, "the window is empty by then")
}

// The text of a trigger or a model is shown without markup and control characters, and bounded.
func TestCore_cleansTheResultsOfTriggers(t *testing.T) {
	hostile := proactive.Saying(proactive.Result{
		Body: "<img src=x onerror=alert(1)>\x1b[2J\u202e Hello\n" + strings.Repeat("a", 5000),
		ReplyOptionLabels: []string{"", " \t", "<script>alert(1)</script>", "A\x00 B\n", "a b",
			strings.Repeat("word ", 100), "no room"},
		InteractionTimeout: 1000 * time.Hour, Cooldown: 1000 * time.Hour,
	}, proactive.Predicate("hostile", func(proactive.TriggerContext) bool { return true }))
	var window assistance.Window
	core := newCore(t, hostile)
	result := core.Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/"), noon).Match.Result
	assert.True(t, strings.HasPrefix(result.Body, "img src=x onerror=alert(1) [2J Hello\naaa"), result.Body)
	assert.Equal(t, 1000, utf8.RuneCountInString(result.Body))
	assert.Equal(t, []string{"script alert(1) /script", "A B"}, result.ReplyOptionLabels[:2])
	assert.Len(t, result.ReplyOptionLabels, 3)
	assert.LessOrEqual(t, utf8.RuneCountInString(result.ReplyOptionLabels[2]), 80)
	assert.Equal(t, 24*time.Hour, result.InteractionTimeout)
	assert.Equal(t, 24*time.Hour, result.Cooldown)

	silent := proactive.Saying(proactive.Result{Body: "\x00 <>", Cooldown: -1}, hostile)
	core = assistance.NewCore(&proactive.Config{Body: "Hi"}, silent)
	result = core.Act(&window, assistance.Machine{}, visitor, view(noon, 0, "/"), noon).Match.Result
	assert.Equal(t, "Hi", result.Body)
	assert.Zero(t, result.Cooldown)
}

func TestReplay_makesTheLastOfferOfAnEntry(t *testing.T) {
	var decided []string
	core := newCore(t, proactive.PingPong{}, proactive.BackOnPricing("/a"))
	replay := assistance.NewReplay(core, visitor, &assistance.ReplayOptions{Decided: func(_ time.Time,
		d assistance.Decision) {
		decided = append(decided, d.Match.Result.TriggerID+" "+string(d.Reason)+" "+d.Page)
	}})
	entry := []activity.Action{view(noon, 0, "/a"), view(noon, 1, "/b"), view(noon, 2, "/a"), view(noon, 3, "/a/x")}
	all := replay.Act(noon, entry...)
	assert.Equal(t, assistance.Offered, all[2].Reason)
	replay.Act(noon, view(noon, 4, "/b"), view(noon, 5, "/c"), view(noon, 6, "/b"))
	assert.Equal(t, []string{"back_on_pricing offered https://app.example.com/a/x",
		"canonical_url_ping_pong state https://app.example.com/b"}, decided)
}

func TestReplay_retriesFailedEffects(t *testing.T) {
	proactivetest.Run(t, `
		t+0s  /a; t+1s /b; t+2s /a → offer canonical_url_ping_pong
		t+3s  desk fails
		t+30s restart → state proactive
		t+31s desk works
		t+32s → state thinking, removed
		t+33s /b; t+34s /a → no offer; t+35s /b → offer canonical_url_ping_pong`, proactive.PingPong{})
	proactivetest.Run(t, `
		t+0s desk fails
		t+1s /a; t+2s /b; t+3s /a → no offer, state thinking
		t+4s desk works
		t+5s /b → offer canonical_url_ping_pong   # nothing was shown, so nothing cools down`, proactive.PingPong{})
}

func TestWindow_costsItsStatedSize(t *testing.T) {
	now := time.Now()
	windows := make([]assistance.Window, 100)
	said := int64(0)
	grown := heaptest.After(func() {
		for i := range windows {
			for n := range 60 {
				text := func(length int) string { return strings.Repeat(string(rune('a'+n%26)), length) }
				a := activity.Action{Type: activity.TypeEvent, Title: text(30 * (i % 10)),
					CanonicalURL: text(200 * (i % 10)), TimestampStart: float64(now.Unix())}
				if i%2 == 0 {
					a.Properties = map[string]string{}
					for p := range n % 11 {
						a.Properties[fmt.Sprint("name", p)] = text(60)
					}
				}
				windows[i].Add(a, now)
			}
			said += windows[i].Bytes()
		}
	})
	t.Logf("%d windows take %.2f of what they say", len(windows), float64(grown)/float64(said))
	assert.InEpsilon(t, said, grown, 0.2)
	runtime.KeepAlive(windows)
}

// roaming returns the actions of a session that fills its window: 50 a cycle on
// 10 pages, most of them clicks, none of which is part of a pattern.
func roaming() []activity.Action {
	actions := make([]activity.Action, assistance.WindowSize)
	for i := range actions {
		url := fmt.Sprintf("https://app.example.com/projects/:id/page-%c", 'a'+i/5)
		typ, target := activity.TypeClick, activity.Target{Label: fmt.Sprint("Item ", i)}
		if i%5 == 0 {
			typ, target = activity.TypePageview, activity.Target{}
		}
		actions[i] = activity.NewAction(typ, target, url)
	}
	return actions
}

// A decision about an action in a full window makes one slice of URLs; the triggers allocate nothing.
func TestCore_allocatesOnceUnlessATriggerMatches(t *testing.T) {
	core := newCore(t, proactive.DeadEnd{}, proactive.RageClicks(), proactive.RepeatedSubmits(),
		proactive.BackOnPricing(""), proactive.PingPong{}, proactive.Dwell{})
	actions := roaming()
	var window assistance.Window
	i, now := 0, noon
	act := func() { // it keeps going round the same pages, one action each 2 s
		a := actions[i%len(actions)]
		now = now.Add(2 * time.Second)
		a.TimestampStart = activity.Seconds(now)
		if d := core.Act(&window, assistance.Machine{}, visitor, a, now); d.Reason != assistance.NoMatch {
			t.Fatal(d)
		}
		i++
	}
	for range 2 * assistance.WindowSize {
		act()
	}
	require.Len(t, window.Actions, assistance.WindowSize)
	assert.LessOrEqual(t, testing.AllocsPerRun(500, act), 1.0)
}
