package servercmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/proactive"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// playedAtRandom plays entries of users who go at random between a few pages. It returns the output
// and the largest number of sessions held.
func playedAtRandom(t *testing.T, config *proactive.Config, rests time.Duration) (said string, most int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	buffer := bufio.NewWriter(&out)
	slow := proactive.Saying(proactive.Result{InteractionTimeout: 5 * time.Minute, Cooldown: 10 * time.Minute},
		proactive.Predicate("slow", func(c proactive.TriggerContext) bool { return len(c.Actions) == 2 }))
	p := musttest.New(newPlayback("acme", config, []proactive.Trigger{slow}, buffer))
	if rests > 0 {
		p.rests = rests
	}
	at := time.Date(2026, time.November, 22, 8, 0, 0, 0, time.UTC)
	for i := range 2_400 {
		at = at.Add(time.Duration(random.IntN(2_000)) * time.Millisecond)
		action := activity.NewAction(activity.TypePageview, activity.Target{},
			fmt.Sprint("https://app.example.com/", string(rune('a'+random.IntN(3)))))
		action.TimestampStart = activity.Seconds(at)
		sessionID := fmt.Sprint("s", i/400, random.IntN(30)) // others from time to time
		if random.IntN(3) == 0 {
			sessionID = fmt.Sprint("often ", random.IntN(200)) // back after minutes
		}
		data := musttest.New(json.Marshal(activity.Batch{Type: activity.BatchType, SessionID: sessionID,
			Actions: []activity.BatchAction{{Action: action}}}))
		p.take(eventlog.Entry{ID: engine.NextID(eventlog.IDAt(at), at), Data: data})
		most = max(most, len(p.sessions))
	}
	p.settle(p.now.Add(assistance.WindowSpan))
	p.summarize()
	require.NoError(t, buffer.Flush())
	return out.String(), most
}

// Forgetting a session that rests does not change the output.
func TestPlayback_holdsTheSessionsOfTheLastMinutesOnly(t *testing.T) {
	t.Parallel()
	long := 90
	for name, config := range map[string]*proactive.Config{
		"the default trigger": {Triggers: []proactive.TriggerConfig{{ID: "canonical_url_ping_pong"}}},
		"a trigger with long times": {IdleTeardown: proactive.KeepOnIdle,
			Triggers: []proactive.TriggerConfig{{ID: "slow"}, {ID: "canonical_url_ping_pong"}}},
		"every trigger": {Triggers: []proactive.TriggerConfig{{ID: "user_page_dwell"}, {ID: "dead_end"},
			{ID: "canonical_url_ping_pong"}, {ID: "back_on_pricing", Page: "/a"}}},
		"kept, and long ones": {IdleTeardown: proactive.KeepOnIdle, CooldownS: &long, InteractionTimeoutS: &long,
			Triggers: []proactive.TriggerConfig{{ID: "canonical_url_ping_pong"}}},
	} {
		t.Run(name, func(t *testing.T) {
			forgets, few := playedAtRandom(t, config, 0)
			remembers, all := playedAtRandom(t, config, 1000*time.Hour)
			assert.Equal(t, remembers, forgets)
			assert.Contains(t, forgets, " offered")
			assert.Less(t, few, all/2)
			var stamps []string
			for text := range strings.Lines(forgets) {
				if strings.HasPrefix(text, "  2026-") {
					stamps = append(stamps, text[:22])
				}
			}
			assert.IsNonDecreasing(t, stamps, "in the order of time")
		})
	}
}

// The log has removed its oldest entries.
func TestPlayback_beginsWithTheOldestEntryThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{TTL: time.Hour}}))
		p := musttest.New(newPlayback("acme", &proactive.Config{}, nil, bufio.NewWriter(io.Discard)))
		for range 2 {
			time.Sleep(2 * time.Hour)
			data := []byte(`{"type":"actions","session_id":"s","actions":[{"session_id":"s"}]}`)
			require.NoError(t, log.Append(t.Context(), "acme", []eventlog.Entry{{SessionID: "s", Data: data}}))
		}
		require.NoError(t, p.run(t.Context(), log))
		assert.Equal(t, 1, p.actions)
	})
}
