package assistance_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/internal/assistance"
)

// model states the truth about a machine in the fewest words. It knows the real events and how much
// time has really passed, whichever time the clock shows.
type model struct {
	state      assistance.State
	began      time.Duration // of the state, or the last message or step in it
	dismissals int
	claimed    string
	offered    string                   // whose labels can be chosen
	offeredAt  time.Duration            // when it was shown
	fired      map[string]time.Duration // by trigger
	before     *time.Duration           // when the trigger of the claim fired before
}

const (
	modelTimeout  = 10 * time.Second
	modelCooldown = 30 * time.Second
	modelIdle     = 300 * time.Second
)

// displays says whether an offer may be shown.
func (m *model) displays(now time.Duration) bool {
	reserve := []time.Duration{600, 600, 900, 1 << 33}[min(m.dismissals, 3)] * time.Second
	return m.dismissals < 3 && (m.state == assistance.Thinking || m.state == assistance.Conservative &&
		now-m.began >= reserve)
}

func (m *model) move(to assistance.State, now time.Duration) { m.state, m.began = to, now }

// expect returns the state after an event and whether it is possible.
func (m *model) expect(e assistance.Event, keep bool, now time.Duration) bool {
	was := *m
	assisting := m.state == assistance.Reactive || m.state == assistance.Guidance
	if assisting && now-m.began >= modelIdle || keep && m.state == assistance.Proactive && now-m.began >= modelTimeout {
		m.move(assistance.Thinking, now)
		assisting = false
	}
	ok := m.happen(e, assisting, now)
	if !ok {
		*m = was
	}
	return ok
}

func (m *model) happen(e assistance.Event, assisting bool, now time.Duration) bool {
	switch e := e.(type) {
	case assistance.Matched:
		return m.match(e.Result.TriggerID, now)
	case assistance.Shown:
		return m.shown(now)
	case assistance.Lost:
		claimed := m.claimed
		m.claimed = ""
		return claimed != ""
	case assistance.Refused:
		if m.claimed == "" {
			return false
		}
		if m.before == nil {
			delete(m.fired, m.claimed)
		} else {
			m.fired[m.claimed] = *m.before
		}
		m.claimed = ""
	case assistance.Message:
		m.message(e.Text == "chip", now)
	case assistance.Reported:
		return m.reported(e, assisting, now)
	case assistance.Engaged:
		possible := m.state == assistance.Proactive
		m.move(assistance.Reactive, now)
		return possible
	case assistance.Removed:
		*m = model{state: assistance.Thinking, fired: map[string]time.Duration{}}
	}
	return true
}

func (m *model) reported(o assistance.Reported, assisting bool, now time.Duration) bool {
	switch o {
	case dismissed:
		if assisting && m.state == assistance.Reactive || m.state == assistance.Conservative {
			return false
		}
		m.dismissals++
		m.move(assistance.Conservative, now)
		return true
	case progressed:
		m.began = now
		return assisting
	case finished:
		m.move(assistance.Thinking, now)
		return assisting
	}
	possible := m.state == assistance.Guidance
	m.move(assistance.Conservative, now)
	return possible
}

func (m *model) match(trigger string, now time.Duration) bool {
	last, fired := m.fired[trigger]
	if m.claimed != "" || !m.displays(now) || fired && now-last < modelCooldown {
		return false
	}
	if m.before = nil; fired {
		m.before = &last
	}
	m.claimed, m.fired[trigger] = trigger, now
	return true
}

func (m *model) shown(now time.Duration) bool {
	if m.claimed == "" {
		return false
	}
	m.claimed, m.offered, m.offeredAt = "", m.claimed, now
	if m.displays(now) {
		m.move(assistance.Proactive, now)
	}
	return true
}

func (m *model) message(chip bool, now time.Duration) {
	if chip && m.claimed != "" {
		m.shown(now)
	}
	shown := m.state == assistance.Proactive || m.state == assistance.Guidance
	open := shown || m.state != assistance.Conservative && now-m.offeredAt < modelTimeout+modelIdle
	if chip && m.offered != "" && open {
		m.move(assistance.Guidance, now)
	} else {
		m.move(assistance.Reactive, now)
	}
}

// For random events in random order, at random times, the machine agrees with the model, by moves
// of the table. A restart after each step changes nothing.
func TestStep_behavesLikeTheModel(t *testing.T) {
	events := []assistance.Event{
		assistance.Matched{}, assistance.Shown{OfferID: "p1"}, assistance.Refused{}, assistance.Lost{},
		assistance.Message{Text: "chip"},
		assistance.Message{Text: "Hello"}, assistance.Engaged{}, dismissed, progressed,
		finished,
		abandoned, assistance.Removed{}, assistance.Tick{},
	}
	pauses := []time.Duration{0, time.Microsecond, time.Second, modelTimeout, modelCooldown, modelIdle, 600 * time.Second,
		900 * time.Second}
	rapid.Check(t, func(t *rapid.T) {
		rules := assistance.Rules{KeepIdle: rapid.Bool().Draw(t, "keep")}
		expected := &model{state: assistance.Thinking, fired: map[string]time.Duration{}}
		var machine assistance.Machine
		for now := time.Duration(0); ; now += rapid.SampledFrom(pauses).Draw(t, "pause") {
			e := rapid.SampledFrom(events).Draw(t, "event")
			if _, ok := e.(assistance.Matched); ok {
				match := matched(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "trigger"), noon.Add(now))
				match.Result.ReplyOptionLabels = []string{"Chip"}
				e = match
			}
			was := machine
			next, effects, err := rules.Step(machine, noon.Add(now), e)
			if possible := expected.expect(e, rules.KeepIdle, now); possible != (err == nil) {
				t.Fatalf("%T in %s: %v, and possible is %v", e, was.State(), err, possible)
			}
			check(t, was, next, effects, err, expected)
			machine = restart(t, next)
			if rapid.IntRange(0, 30).Draw(t, "more") == 0 {
				return
			}
		}
	})
}

// check compares a step with the table of moves and the model.
func check(t *rapid.T, was, next assistance.Machine, effects []assistance.Effect, err error, expected *model) {
	var refusal *assistance.MoveError
	if err != nil && !errors.As(err, &refusal) {
		t.Fatalf("%v is not typed", err)
	}
	state, sends := was.State(), 0
	for _, effect := range effects {
		switch effect := effect.(type) {
		case assistance.Moved:
			if effect.From != state || !effect.From.CanMoveTo(effect.To) {
				t.Fatalf("in %s: %v", state, effect)
			}
			state = effect.To
		case assistance.Send:
			sends++
		}
	}
	claimed := next.InFlight() && !was.InFlight()
	if state != next.State() || state != expected.state || next.Dismissed != expected.dismissals ||
		next.InFlight() != (expected.claimed != "") || claimed != (sends == 1) {
		t.Fatalf("%+v\nafter %v,\n%+v\nexpected %+v", was, effects, next, expected)
	}
	if err != nil && (len(effects) > 0 || snapshot(t, was) != snapshot(t, next)) {
		t.Fatalf("a refusal changes %+v to %+v, %v", was, next, effects)
	}
}

func snapshot(t *rapid.T, m assistance.Machine) string {
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// restart stores and restores a machine.
func restart(t *rapid.T, m assistance.Machine) (restored assistance.Machine) {
	data := snapshot(t, m)
	if err := json.Unmarshal([]byte(data), &restored); err != nil {
		t.Fatal(err)
	}
	if again := snapshot(t, restored); again != data {
		t.Fatalf("%s\nis restored as\n%s", data, again)
	}
	return restored
}
