package assistance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

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
		actions[i].TimestampStart = activity.Seconds(noon.Add(time.Duration(i) * time.Second))
	}
	return actions
}

// everything returns every trigger of the package, in a sensible order.
func everything() []proactive.Trigger {
	return []proactive.Trigger{proactive.DeadEnd{}, proactive.RageClicks(), proactive.RepeatedSubmits(),
		proactive.BackOnPricing(""), proactive.PingPong{}, proactive.Dwell{}}
}

// A decision puts an action into a full window, makes the context of it and asks the triggers.
func BenchmarkCore_Act(b *testing.B) {
	for name, triggers := range map[string][]proactive.Trigger{"ping_pong": {proactive.PingPong{}},
		"all_triggers": everything()} {
		b.Run(name, func(b *testing.B) {
			act := acting(b, triggers...)
			b.ReportAllocs()
			for b.Loop() {
				act()
			}
		})
	}
}

// acting returns a function that lets a session with a full window do something, on
// and on. It keeps going round the same pages, one action each 2 s.
func acting(t testing.TB, triggers ...proactive.Trigger) func() {
	core := newCore(t, triggers...)
	actions := roaming()
	var window assistance.Window
	i, now := 0, noon
	act := func() {
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
	require.Equal(t, assistance.WindowSize, len(window.Actions))
	return act
}

// A decision makes one slice of URLs; the triggers allocate nothing.
func TestCore_allocatesOnceUnlessATriggerMatches(t *testing.T) {
	act := acting(t, everything()...)
	assert.LessOrEqual(t, testing.AllocsPerRun(500, act), 1.0)
}
