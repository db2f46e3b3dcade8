package proactive_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/proactive"
)

var noon = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// matched is an offer with two labels, triggered now.
func matched(trigger string, now time.Time) proactive.Matched {
	return proactive.Matched{SendBy: now.Add(proactive.SendWithin), Result: proactive.Result{TriggerID: trigger, Body: "Help?",
		ReplyOptionLabels: []string{"Yes, show me", "No"}, InteractionTimeout: 10 * time.Second, Cooldown: 30 * time.Second}}
}

// machine is a machine with a clock.
type machine struct {
	t *testing.T
	proactive.Machine
	rules proactive.Rules
	now   time.Time
}

// do takes events, all of which must be possible, and returns the effects of the last.
func (m *machine) do(events ...proactive.Event) (effects []proactive.Effect) {
	m.t.Helper()
	for _, e := range events {
		var err error
		m.Machine, effects, err = m.rules.Step(m.Machine, m.now, e)
		require.NoError(m.t, err)
	}
	return effects
}

// refuses takes an event that is not possible.
func (m *machine) refuses(e proactive.Event) *proactive.MoveError {
	m.t.Helper()
	next, effects, err := m.rules.Step(m.Machine, m.now, e)
	var refusal *proactive.MoveError
	require.ErrorAs(m.t, err, &refusal)
	assert.Equal(m.t, m.Machine, next)
	assert.Empty(m.t, effects)
	return refusal
}

func (m *machine) after(d time.Duration) *machine { m.now = m.now.Add(d); return m }

// offers shows an offer.
func (m *machine) offers(trigger string) {
	m.t.Helper()
	m.do(matched(trigger, m.now), proactive.Shown{OfferID: "p1"})
	require.Equal(m.t, proactive.Proactive, m.State())
}

// in returns a machine that has just come into a state.
func in(t *testing.T, state proactive.State) *machine {
	t.Helper()
	m := &machine{t: t, now: noon}
	switch state {
	case proactive.Proactive:
		m.offers("a")
	case proactive.Guidance:
		m.offers("a")
		m.do(proactive.Message{Text: "Yes, show me"})
	case proactive.Reactive:
		m.do(proactive.Message{Text: "Where am I?"})
	case proactive.Conservative:
		m.offers("a")
		m.do(proactive.Dismissed{})
	}
	require.Equal(t, state, m.State())
	return m
}

var states = []proactive.State{proactive.Thinking, proactive.Proactive, proactive.Guidance, proactive.Reactive, proactive.Conservative}

func TestState_movesAsTheTableSays(t *testing.T) {
	const thinking, offered, guidance, reactive, conservative = proactive.Thinking, proactive.Proactive, proactive.Guidance, proactive.Reactive, proactive.Conservative
	table := map[proactive.State][]proactive.State{
		thinking:     {offered, reactive, conservative},
		offered:      {guidance, conservative, thinking, reactive},
		guidance:     {thinking, reactive, conservative},
		reactive:     {thinking, guidance},
		conservative: {thinking, reactive},
	}
	for _, from := range states {
		for _, to := range states {
			assert.Equal(t, slices.Contains(table[from], to), from.CanMoveTo(to), "%s to %s", from, to)
		}
	}
}

// Every event in every state: where it leads at once, or that it is refused.
func TestStep_everyEventInEveryState(t *testing.T) {
	const thinking, offered, guidance, reactive, conservative = proactive.Thinking, proactive.Proactive, proactive.Guidance, proactive.Reactive, proactive.Conservative
	const refused = proactive.State("refused")
	for _, row := range []struct {
		event proactive.Event
		to    [5]proactive.State // from thinking, proactive, guidance, reactive, conservative
	}{
		{matched("b", noon), [5]proactive.State{thinking, refused, refused, refused, refused}},
		{proactive.Shown{}, [5]proactive.State{refused, refused, refused, refused, refused}},
		{proactive.Refused{}, [5]proactive.State{refused, refused, refused, refused, refused}},
		{proactive.Lost{}, [5]proactive.State{refused, refused, refused, refused, refused}},
		{proactive.Message{Text: "Hello"}, [5]proactive.State{reactive, reactive, reactive, reactive, reactive}},
		{proactive.Message{Text: "Yes, show me"}, [5]proactive.State{reactive, guidance, guidance, reactive, reactive}},
		{proactive.Engaged{}, [5]proactive.State{refused, reactive, refused, refused, refused}},
		{proactive.Dismissed{}, [5]proactive.State{conservative, conservative, conservative, refused, refused}},
		{proactive.Progressed{}, [5]proactive.State{refused, refused, guidance, reactive, refused}},
		{proactive.Finished{}, [5]proactive.State{refused, refused, thinking, thinking, refused}},
		{proactive.Abandoned{}, [5]proactive.State{refused, refused, conservative, refused, refused}},
		{proactive.Removed{}, [5]proactive.State{thinking, thinking, thinking, thinking, thinking}},
		{proactive.Tick{}, [5]proactive.State{thinking, offered, guidance, reactive, conservative}},
	} {
		for i, from := range states {
			m := in(t, from)
			if row.to[i] == refused {
				refusal := m.refuses(row.event)
				assert.Equal(t, from, refusal.State, "%T", row.event)
				continue
			}
			effects := m.do(row.event)
			assert.Equal(t, row.to[i], m.State(), "%T in %s", row.event, from)
			if row.to[i] != from {
				assert.Contains(t, effects, proactive.Moved{From: from, To: row.to[i]}, "%T in %s", row.event, from)
			}
		}
	}
}

func TestStep_claimsBeforeItSends(t *testing.T) {
	m := in(t, proactive.Thinking)
	effects := m.do(matched("a", m.now))
	assert.Equal(t, []proactive.Effect{proactive.Send{TriggerID: "a", SendBy: noon.Add(10 * time.Second),
		Offer: helpdesk.Offer{Body: "Help?", Labels: []string{"Yes, show me", "No"}}}}, effects)
	effects[0].(proactive.Send).Offer.Labels[0] = "changed"
	assert.NotContains(t, marshal(t, m.Machine), "changed")
	assert.True(t, m.InFlight())
	assert.Equal(t, proactive.Thinking, m.State(), "nothing is shown yet")
	assert.Equal(t, proactive.Sending, m.refuses(matched("b", m.now)).Reason)

	assert.Equal(t, []proactive.Effect{proactive.Moved{From: proactive.Thinking, To: proactive.Proactive}}, m.do(proactive.Shown{OfferID: "p1"}))
	assert.False(t, m.InFlight())
	assert.Equal(t, proactive.Busy, m.refuses(matched("b", m.now)).Reason)
	m.refuses(proactive.Shown{OfferID: "p2"})
}

func TestStep_sendsNothingThatIsStale(t *testing.T) {
	m := in(t, proactive.Thinking)
	match := matched("a", m.now)
	assert.Equal(t, proactive.Stale, m.after(proactive.SendWithin+time.Microsecond).refuses(match).Reason)
	m.now = noon.Add(proactive.SendWithin)
	m.do(match)
}

func TestStep_givesBackAClaimThatWasRefused(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now), proactive.Refused{})
	assert.Equal(t, "proactive: refused is not possible in thinking", m.refuses(proactive.Refused{}).Error())
	m.offers("a") // as if nothing had been
	m.do(proactive.Engaged{}, proactive.Finished{})

	m.after(31*time.Second).do(matched("a", m.now), proactive.Refused{})
	m.do(matched("a", m.now), proactive.Lost{}) // the cool-down of the first is over
	assert.Equal(t, proactive.CoolingDown, m.after(29*time.Second).refuses(matched("a", m.now)).Reason)
}

func TestStep_looksForAnOfferThatMayHaveBeenSent(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now))
	due, ok := m.rules.Due(m.Machine, m.now)
	assert.True(t, ok)
	assert.Equal(t, noon.Add(proactive.FindAfter), due)
	assert.Empty(t, m.after(proactive.FindAfter-time.Microsecond).do(proactive.Tick{}))
	find := proactive.Find{TriggerID: "a", Offer: helpdesk.Offer{Body: "Help?", Labels: []string{"Yes, show me", "No"}}, Since: noon}
	assert.Equal(t, []proactive.Effect{find}, m.after(time.Microsecond).do(proactive.Tick{}))
	assert.Equal(t, []proactive.Effect{find}, m.after(time.Hour).do(proactive.Tick{}), "until there is an answer")

	found := *m
	found.do(proactive.Shown{OfferID: "p1"})
	assert.Equal(t, proactive.Proactive, found.State())

	assert.Empty(t, m.do(proactive.Lost{}), "it is never sent again")
	assert.False(t, m.InFlight())
	m.offers("a") // an hour later
}

func TestStep_coolsDownEachTriggerByItself(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now), proactive.Lost{})
	m.after(29 * time.Second)
	refusal := m.refuses(matched("a", m.now))
	assert.Equal(t, proactive.CoolingDown, refusal.Reason)
	assert.EqualError(t, refusal, "proactive: matched is not possible in thinking: cooldown")
	other := *m
	other.offers("b")
	m.after(time.Second).do(matched("a", m.now))
	assert.Contains(t, marshal(t, m.Machine), "previous")
	m.do(proactive.Shown{OfferID: "p2"})
	assert.NotContains(t, marshal(t, m.Machine), "previous")
}

func TestStep_comparesLabelsTrimmedAndFolded(t *testing.T) {
	for message, chosen := range map[string]string{"Yes, show me": "Yes, show me", "  yes, SHOW me\n": "Yes, show me", "NO": "No", "Yes": "", "": "", "Yes, show  me": ""} {
		m := in(t, proactive.Proactive)
		effects := m.do(proactive.Message{Text: message})
		if chosen == "" {
			assert.Equal(t, []proactive.Effect{proactive.Moved{From: proactive.Proactive, To: proactive.Reactive}, proactive.Reply{Text: message}}, effects)
			continue
		}
		assert.Equal(t, []proactive.Effect{proactive.Moved{From: proactive.Proactive, To: proactive.Guidance}, proactive.Guide{TriggerID: "a", Label: chosen}}, effects)
	}
}

func TestStep_aLabelCanBeChosenAfterAQuestion(t *testing.T) {
	m := in(t, proactive.Proactive)
	m.do(proactive.Message{Text: "What is this?"})
	assert.Contains(t, m.do(proactive.Message{Text: "yes, show me"}), proactive.Moved{From: proactive.Reactive, To: proactive.Guidance})
}

func TestStep_aLabelProvesThatTheOfferWasShown(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now))
	assert.Equal(t, []proactive.Effect{
		proactive.Moved{From: proactive.Thinking, To: proactive.Proactive},
		proactive.Moved{From: proactive.Proactive, To: proactive.Guidance},
		proactive.Guide{TriggerID: "a", Label: "No"},
	}, m.do(proactive.Message{Text: "no"}))
	m.refuses(proactive.Shown{})
	before := m.Machine
	m.do(proactive.Shown{OfferID: "p1"}) // the answer of the desk comes second
	assert.Equal(t, proactive.Guidance, m.State())
	m.refuses(proactive.Shown{OfferID: "p1"})
	assert.NotContains(t, marshal(t, before), "p1")
}

func TestStep_anOfferThatComesTooLateMovesNothing(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now), proactive.Message{Text: "Hello"})
	assert.True(t, m.InFlight())
	due, _ := m.rules.Due(m.Machine, m.now)
	assert.Equal(t, noon.Add(proactive.FindAfter), due, "which is before the question is forgotten")
	assert.Empty(t, m.do(proactive.Shown{OfferID: "p1"}))
	assert.Equal(t, proactive.Reactive, m.State())
	assert.Contains(t, m.do(proactive.Message{Text: "No"}), proactive.Guide{TriggerID: "a", Label: "No"})

	m = in(t, proactive.Thinking)
	m.do(matched("a", m.now), proactive.Dismissed{}, proactive.Shown{OfferID: "p1"})
	assert.Equal(t, proactive.Conservative, m.State())
	assert.Contains(t, m.do(proactive.Message{Text: "No"}), proactive.Reply{Text: "No"})
}

func TestStep_removesAnIgnoredOfferBeforeItForgets(t *testing.T) {
	m := in(t, proactive.Proactive)
	due, _ := m.rules.Due(m.Machine, m.now)
	assert.Equal(t, noon.Add(10*time.Second), due)
	assert.Empty(t, m.after(10*time.Second-time.Microsecond).do(proactive.Tick{}))
	remove := []proactive.Effect{proactive.Remove{OfferID: "p1"}}
	before := m.Machine
	assert.Equal(t, remove, m.after(time.Microsecond).do(proactive.Tick{}))
	assert.Equal(t, remove, m.after(time.Hour).do(proactive.Tick{}), "a deletion that failed is retried")
	assert.Equal(t, before, m.Machine, "and leaves everything as it was")

	assert.Equal(t, []proactive.Effect{proactive.Moved{From: proactive.Proactive, To: proactive.Thinking}, proactive.Clear{}}, m.do(proactive.Removed{}))
	assert.Equal(t, proactive.Machine{}, m.Machine)
}

func TestStep_keepsAConversationThatSomebodyJoined(t *testing.T) {
	m := in(t, proactive.Proactive)
	m.after(10*time.Second).do(proactive.Tick{}, proactive.Engaged{})
	assert.Equal(t, proactive.Reactive, m.State())
	assert.Empty(t, m.after(10*time.Second).do(proactive.Tick{}))
}

func TestStep_withKeepIdleRemovesNothing(t *testing.T) {
	m := in(t, proactive.Proactive)
	m.rules.KeepIdle = true
	assert.Equal(t, []proactive.Effect{proactive.Moved{From: proactive.Proactive, To: proactive.Thinking}}, m.after(10*time.Second).do(proactive.Tick{}))
	assert.Equal(t, proactive.CoolingDown, m.refuses(matched("a", m.now)).Reason)

	late := *m // the offer is still in sight
	assert.Equal(t, []proactive.Effect{
		proactive.Moved{From: proactive.Thinking, To: proactive.Reactive},
		proactive.Moved{From: proactive.Reactive, To: proactive.Guidance},
		proactive.Guide{TriggerID: "a", Label: "No"},
	}, late.after(289*time.Second).do(proactive.Message{Text: "No"}))
	assert.Contains(t, m.after(290*time.Second).do(proactive.Message{Text: "No"}), proactive.Reply{Text: "No"})
}

func TestStep_fallsBackWhenNothingIsSaid(t *testing.T) {
	for _, state := range []proactive.State{proactive.Reactive, proactive.Guidance} {
		m := in(t, state)
		m.after(299 * time.Second).do(proactive.Progressed{})
		m.after(299 * time.Second).do(proactive.Message{Text: "Yes, show me"})
		state := m.State()
		due, ok := m.rules.Due(m.Machine, m.now)
		assert.True(t, ok)
		assert.Equal(t, m.now.Add(300*time.Second), due)
		assert.Empty(t, m.after(300*time.Second-time.Microsecond).do(proactive.Tick{}))
		late := *m
		assert.Equal(t, []proactive.Effect{proactive.Moved{From: state, To: proactive.Thinking}}, m.after(time.Microsecond).do(proactive.Tick{}))
		_, ok = m.rules.Due(m.Machine, m.now)
		assert.False(t, ok)

		late.after(time.Hour).offers("b") // it does not need the tick
		late = *in(t, state)
		assert.Equal(t, proactive.Thinking, late.after(300*time.Second).refuses(proactive.Progressed{}).State)
	}
	m := in(t, proactive.Reactive)
	m.rules.AssistanceIdle = time.Minute
	m.after(time.Minute).offers("b")
}

func TestStep_holdsBackLongerAfterEachDismissal(t *testing.T) {
	m := in(t, proactive.Thinking)
	for dismissals, reserve := range []time.Duration{600 * time.Second, 900 * time.Second} {
		m.offers("a")
		m.do(proactive.Dismissed{})
		assert.Equal(t, dismissals+1, m.Dismissals())
		_, ok := m.rules.Due(m.Machine, m.now)
		assert.False(t, ok)
		assert.Equal(t, proactive.HoldingBack, m.after(reserve-time.Microsecond).refuses(matched("a", m.now)).Reason)
		m.after(time.Microsecond).do(matched("a", m.now))
		assert.Equal(t, proactive.Conservative, m.State())
		assert.Equal(t, []proactive.Effect{
			proactive.Moved{From: proactive.Conservative, To: proactive.Thinking},
			proactive.Moved{From: proactive.Thinking, To: proactive.Proactive},
		}, m.do(proactive.Shown{}))
		m.do(proactive.Engaged{})
		m.after(300 * time.Second)
	}
	m.offers("a")
	m.do(proactive.Dismissed{})
	assert.Equal(t, proactive.HoldingBack, m.after(100*365*24*time.Hour).refuses(matched("a", m.now)).Reason)
	m.do(proactive.Message{Text: "Hello"}, proactive.Finished{})
	assert.Equal(t, proactive.HoldingBack, m.refuses(matched("b", m.now)).Reason, "a question does not undo three dismissals")
}

func TestStep_aQuestionEndsHoldingBack(t *testing.T) {
	m := in(t, proactive.Conservative)
	m.do(proactive.Message{Text: "How do I pay?"}, proactive.Finished{})
	m.offers("b")
}

func TestStep_abandonedGuidanceIsNoDismissal(t *testing.T) {
	m := in(t, proactive.Guidance)
	m.do(proactive.Abandoned{})
	assert.Zero(t, m.Dismissals())
	assert.Equal(t, proactive.HoldingBack, m.after(599*time.Second).refuses(matched("b", m.now)).Reason)
	m.after(time.Second).offers("b")
}

func TestStep_aClockThatWasAheadDelaysNothing(t *testing.T) {
	for _, state := range states {
		ahead := in(t, state)
		ahead.after(-1000 * time.Hour) // the clock is set back
		due, ok := ahead.rules.Due(ahead.Machine, ahead.now)
		assert.Equal(t, state != proactive.Thinking, ok)
		if ok {
			assert.Equal(t, ahead.now, due, "so that the machine follows")
		}
		fresh := &machine{t: t, Machine: ahead.Machine, now: ahead.now}
		fresh.do(proactive.Tick{})
		assert.Equal(t, state, fresh.State(), "nothing has happened")
		if due, ok := fresh.rules.Due(fresh.Machine, fresh.now); ok {
			assert.Positive(t, due.Sub(fresh.now))
			assert.LessOrEqual(t, due.Sub(fresh.now), 300*time.Second)
		}
	}
	m := in(t, proactive.Conservative)
	m.after(-time.Hour).do(proactive.Tick{})
	assert.Equal(t, proactive.HoldingBack, m.after(599*time.Second).refuses(matched("a", m.now)).Reason)
	m.after(time.Second).offers("a")
}

func TestStep_aClockThatIsSetBackShortensNoCooldown(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now), proactive.Lost{})
	m.after(-time.Hour)
	assert.Equal(t, proactive.CoolingDown, m.refuses(matched("a", m.now)).Reason)
	m.do(proactive.Tick{})
	assert.Equal(t, proactive.CoolingDown, m.after(29*time.Second).refuses(matched("a", m.now)).Reason)
	m.after(time.Second).offers("a")
}

func TestStep_aClaimOutlivesAClockThatIsSetBack(t *testing.T) {
	m := in(t, proactive.Thinking)
	m.do(matched("a", m.now))
	m.after(-time.Hour).do(proactive.Tick{})
	due, _ := m.rules.Due(m.Machine, m.now)
	assert.Equal(t, m.now.Add(proactive.FindAfter), due)
	m.do(proactive.Refused{}, matched("a", m.now))
}

func TestStep_changesNothingThatItIsGiven(t *testing.T) {
	for _, state := range states {
		m := in(t, state)
		before, err := m.MarshalJSON()
		require.NoError(t, err)
		for _, now := range []time.Time{m.now, m.now.Add(time.Hour), m.now.Add(-time.Hour)} {
			for _, e := range []proactive.Event{matched("b", now), proactive.Message{Text: "No"}, proactive.Dismissed{}, proactive.Tick{}, proactive.Removed{}} {
				_, _, _ = m.rules.Step(m.Machine, now, e)
			}
		}
		after, err := m.MarshalJSON()
		require.NoError(t, err)
		assert.JSONEq(t, string(before), string(after))
	}
}
