package assistance_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/proactive"
)

var noon = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// The outcomes that are reported.
const (
	dismissed  = assistance.Reported(proactive.Dismissed)
	progressed = assistance.Reported(proactive.Progressed)
	finished   = assistance.Reported(proactive.Finished)
	abandoned  = assistance.Reported(proactive.Abandoned)
)

// matched is an offer with two labels, triggered now.
func matched(trigger string, now time.Time) assistance.Matched {
	return assistance.Matched{SendBy: now.Add(assistance.SendWithin),
		Result: proactive.Result{TriggerID: trigger, Body: "Help?",
			ReplyOptionLabels: []string{"Yes, show me", "No"}, InteractionTimeout: 10 * time.Second, Cooldown: 30 * time.Second}}
}

// rules are the default ones.
var rules = assistance.NewCore(nil).Rules

// machine is a machine with a clock.
type machine struct {
	t *testing.T
	assistance.Machine
	rules assistance.Rules
	now   time.Time
}

// do takes events, all of which must be possible, and returns the effects of the last.
func (m *machine) do(events ...assistance.Event) (effects []assistance.Effect) {
	m.t.Helper()
	for _, e := range events {
		var err error
		m.Machine, effects, err = m.rules.Step(m.Machine, m.now, e)
		require.NoError(m.t, err)
	}
	return effects
}

// refuses takes an event that is not possible.
func (m *machine) refuses(e assistance.Event) *assistance.MoveError {
	m.t.Helper()
	next, effects, err := m.rules.Step(m.Machine, m.now, e)
	var refusal *assistance.MoveError
	require.ErrorAs(m.t, err, &refusal)
	assert.Equal(m.t, m.Machine, next)
	assert.Empty(m.t, effects)
	return refusal
}

func (m *machine) after(d time.Duration) *machine { m.now = m.now.Add(d); return m }

// offers shows an offer.
func (m *machine) offers(trigger string) {
	m.t.Helper()
	m.do(matched(trigger, m.now), assistance.Shown{OfferID: "p1"})
	require.Equal(m.t, assistance.Proactive, m.State())
}

// in returns a machine that has just come into a state.
func in(t *testing.T, state assistance.State) *machine {
	t.Helper()
	m := &machine{t: t, rules: rules, now: noon}
	switch state {
	case assistance.Proactive:
		m.offers("a")
	case assistance.Guidance:
		m.offers("a")
		m.do(assistance.Message{Text: "Yes, show me"})
	case assistance.Reactive:
		m.do(assistance.Message{Text: "Where am I?"})
	case assistance.Conservative:
		m.offers("a")
		m.do(dismissed)
	}
	require.Equal(t, state, m.State())
	return m
}

var states = []assistance.State{assistance.Thinking, assistance.Proactive, assistance.Guidance, assistance.Reactive,
	assistance.Conservative}

// Every event in every state: where it leads at once, or that it is refused.
func TestStep_everyEventInEveryState(t *testing.T) {
	const thinking, offered, guidance, reactive, conservative = assistance.Thinking, assistance.Proactive,
		assistance.Guidance, assistance.Reactive, assistance.Conservative
	const refused = assistance.State("refused")
	for _, row := range []struct {
		event assistance.Event
		to    [5]assistance.State // from thinking, proactive, guidance, reactive, conservative
	}{
		{matched("b", noon), [5]assistance.State{thinking, refused, refused, refused, refused}},
		{assistance.Shown{}, [5]assistance.State{refused, refused, refused, refused, refused}},
		{assistance.Refused{}, [5]assistance.State{refused, refused, refused, refused, refused}},
		{assistance.Lost{}, [5]assistance.State{refused, refused, refused, refused, refused}},
		{assistance.Message{Text: "Hello"}, [5]assistance.State{reactive, reactive, reactive, reactive, reactive}},
		{assistance.Message{Text: "Yes, show me"}, [5]assistance.State{reactive, guidance, guidance, reactive, reactive}},
		{assistance.Engaged{}, [5]assistance.State{refused, reactive, refused, refused, refused}},
		{dismissed, [5]assistance.State{conservative, conservative, conservative, refused, refused}},
		{progressed, [5]assistance.State{refused, refused, guidance, reactive, refused}},
		{finished, [5]assistance.State{refused, refused, thinking, thinking, refused}},
		{abandoned, [5]assistance.State{refused, refused, conservative, refused, refused}},
		{assistance.Reported("unknown"), [5]assistance.State{refused, refused, refused, refused, refused}},
		{assistance.Removed{}, [5]assistance.State{thinking, thinking, thinking, thinking, thinking}},
		{assistance.Tick{}, [5]assistance.State{thinking, offered, guidance, reactive, conservative}},
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
				assert.Contains(t, effects, assistance.Moved{From: from, To: row.to[i]}, "%T in %s", row.event, from)
			}
		}
	}
}

func TestStep_claimsBeforeItSends(t *testing.T) {
	m := in(t, assistance.Thinking)
	effects := m.do(matched("a", m.now))
	assert.Equal(t, []assistance.Effect{assistance.Send{TriggerID: "a", SendBy: noon.Add(10 * time.Second),
		Offer: helpdesk.Offer{Body: "Help?", Labels: []string{"Yes, show me", "No"}}}}, effects)
	effects[0].(assistance.Send).Offer.Labels[0] = "changed"
	assert.NotContains(t, marshal(t, m.Machine), "changed")
	assert.NotNil(t, m.Claim)
	assert.Equal(t, assistance.Thinking, m.State(), "nothing is shown yet")
	assert.Equal(t, assistance.Sending, m.refuses(matched("b", m.now)).Reason)

	assert.Equal(t, []assistance.Effect{assistance.Moved{From: assistance.Thinking, To: assistance.Proactive}},
		m.do(assistance.Shown{OfferID: "p1"}))
	assert.Nil(t, m.Claim)
	assert.Equal(t, assistance.Busy, m.refuses(matched("b", m.now)).Reason)
	m.refuses(assistance.Shown{OfferID: "p2"})
}

func TestStep_sendsNothingThatIsStale(t *testing.T) {
	m := in(t, assistance.Thinking)
	match := matched("a", m.now)
	assert.EqualError(t, m.after(assistance.SendWithin+time.Microsecond).refuses(match),
		"proactive: matched is not possible in thinking: stale")
	m.now = noon.Add(assistance.SendWithin)
	m.do(match)
}

func TestStep_givesBackAClaimThatWasRefused(t *testing.T) {
	m := in(t, assistance.Thinking)
	m.do(matched("a", m.now), assistance.Refused{})
	assert.Equal(t, "proactive: refused is not possible in thinking", m.refuses(assistance.Refused{}).Error())
	m.offers("a") // as if nothing had been
	m.do(assistance.Engaged{}, finished)

	m.after(31*time.Second).do(matched("a", m.now), assistance.Refused{})
	m.do(matched("a", m.now), assistance.Lost{}) // the cool-down of the first is over
	assert.Equal(t, assistance.CoolingDown, m.after(30*time.Second-1).refuses(matched("a", m.now)).Reason)
	m.after(time.Microsecond).do(matched("a", m.now))
}

func TestStep_looksForAnOfferThatMayHaveBeenSent(t *testing.T) {
	m := in(t, assistance.Thinking)
	m.do(matched("a", m.now))
	due, ok := m.rules.Due(m.Machine)
	assert.True(t, ok)
	assert.Equal(t, noon.Add(assistance.FindAfter), due)
	assert.Empty(t, m.after(assistance.FindAfter-time.Microsecond).do(assistance.Tick{}))
	find := assistance.Find{TriggerID: "a", Offer: helpdesk.Offer{Body: "Help?", Labels: []string{"Yes, show me", "No"}},
		Since: noon}
	assert.Equal(t, []assistance.Effect{find}, m.after(time.Microsecond).do(assistance.Tick{}))
	assert.Equal(t, []assistance.Effect{find}, m.after(time.Hour).do(assistance.Tick{}), "until there is an answer")

	found := *m
	found.do(assistance.Shown{OfferID: "p1"})
	assert.Equal(t, assistance.Proactive, found.State())

	assert.Empty(t, m.do(assistance.Lost{}), "it is never sent again")
	assert.Nil(t, m.Claim)
	m.offers("a") // an hour later
	m.rules.KeepIdle = true
	shown := m.now
	m.after(30 * time.Second).do(matched("a", m.now))
	find.Since, find.After = m.now, shown
	assert.Equal(t, []assistance.Effect{find}, m.after(assistance.FindAfter).do(assistance.Tick{}), "not the one before")
}

func TestStep_aLabelProvesThatTheOfferWasShown(t *testing.T) {
	m := in(t, assistance.Thinking)
	m.do(matched("a", m.now))
	assert.Equal(t, []assistance.Effect{
		assistance.Moved{From: assistance.Thinking, To: assistance.Proactive},
		assistance.Moved{From: assistance.Proactive, To: assistance.Guidance},
		assistance.Guide{TriggerID: "a", Label: "No"},
	}, m.do(assistance.Message{Text: "no"}))
	m.refuses(assistance.Shown{OfferID: "p1"}) // the answer of the desk comes second
	assert.Equal(t, assistance.Guidance, m.State())

	m = in(t, assistance.Thinking)
	m.do(matched("a", m.now), assistance.Message{Text: "Hello"})
	assert.Contains(t, m.do(assistance.Message{Text: "no"}), assistance.Guide{TriggerID: "a", Label: "No"}, "amid talk")
}

func TestStep_anOfferThatComesTooLateMovesNothing(t *testing.T) {
	m := in(t, assistance.Thinking)
	m.do(matched("a", m.now), assistance.Message{Text: "Hello"})
	assert.NotNil(t, m.Claim)
	due, _ := m.rules.Due(m.Machine)
	assert.Equal(t, noon.Add(assistance.FindAfter), due, "which is before the question is forgotten")
	assert.Empty(t, m.do(assistance.Shown{OfferID: "p1"}))
	assert.Equal(t, assistance.Reactive, m.State())
	assert.Contains(t, m.do(assistance.Message{Text: "No"}), assistance.Guide{TriggerID: "a", Label: "No"})

	m = in(t, assistance.Thinking)
	m.do(matched("a", m.now), dismissed)
	assert.Empty(t, m.do(assistance.Shown{OfferID: "p1"}))
	assert.Equal(t, assistance.Conservative, m.State(), "a dismissed user has no offer that could be ignored")
}

func TestStep_removesAnIgnoredOfferBeforeItForgets(t *testing.T) {
	m := in(t, assistance.Proactive)
	due, _ := m.rules.Due(m.Machine)
	assert.Equal(t, noon.Add(10*time.Second), due)
	assert.Empty(t, m.after(10*time.Second-time.Microsecond).do(assistance.Tick{}))
	remove := []assistance.Effect{assistance.Remove{OfferID: "p1"}}
	before := m.Machine
	assert.Equal(t, remove, m.after(time.Microsecond).do(assistance.Tick{}))
	assert.Equal(t, remove, m.after(time.Hour).do(assistance.Tick{}), "a deletion that failed is retried")
	assert.Equal(t, before, m.Machine, "and leaves everything as it was")

	assert.Equal(t, []assistance.Effect{assistance.Moved{From: assistance.Proactive, To: assistance.Thinking},
		assistance.Clear{}}, m.do(assistance.Removed{}))
	assert.Equal(t, assistance.Machine{}, m.Machine)
}

func TestStep_withKeepIdleRemovesNothing(t *testing.T) {
	m := in(t, assistance.Proactive)
	m.rules.KeepIdle = true
	assert.Equal(t, []assistance.Effect{assistance.Moved{From: assistance.Proactive, To: assistance.Thinking}},
		m.after(10*time.Second).do(assistance.Tick{}))
	assert.Equal(t, assistance.CoolingDown, m.refuses(matched("a", m.now)).Reason)

	late := *m // the offer is still in sight
	assert.Equal(t, []assistance.Effect{
		assistance.Moved{From: assistance.Thinking, To: assistance.Reactive},
		assistance.Moved{From: assistance.Reactive, To: assistance.Guidance},
		assistance.Guide{TriggerID: "a", Label: "No"},
	}, late.after(299*time.Second).do(assistance.Message{Text: "No"}))
	assert.Contains(t, m.after(300*time.Second).do(assistance.Message{Text: "No"}), assistance.Reply{Text: "No"})
}

// A user who writes long after an offer no longer has it in mind: "no" then answers the talk.
func TestStep_takesALabelOfAnOldOfferForAMessage(t *testing.T) {
	m := in(t, assistance.Proactive)
	m.rules.KeepIdle = true
	m.after(20 * 24 * time.Hour).do(assistance.Message{Text: "Hello"})
	assert.Equal(t, []assistance.Effect{assistance.Reply{Text: "No"}},
		m.after(time.Minute).do(assistance.Message{Text: "No"}))

	m = in(t, assistance.Proactive) // talk that goes on from a question about the offer
	m.do(assistance.Message{Text: "Where am I?"})
	m.after(299 * time.Second).do(assistance.Message{Text: "And now?"})
	soon := *m
	assert.Contains(t, soon.after(11*time.Second-time.Microsecond).do(assistance.Message{Text: "No"}),
		assistance.Guide{TriggerID: "a", Label: "No"})
	assert.Equal(t, []assistance.Effect{assistance.Reply{Text: "No"}},
		m.after(11*time.Second).do(assistance.Message{Text: "No"}))
}

// An offer may be shown for longer than assistance goes on without a message.
func TestStep_takesTheLabelsOfALongOfferForAsLong(t *testing.T) {
	long := matched("a", noon)
	long.Result.InteractionTimeout = time.Hour
	m := &machine{t: t, rules: rules, now: noon}
	m.do(long, assistance.Shown{OfferID: "p1"})
	m.after(59 * time.Minute).do(assistance.Message{Text: "Where am I?"})
	assert.Contains(t, m.after(5*time.Minute).do(assistance.Message{Text: "No"}),
		assistance.Guide{TriggerID: "a", Label: "No"})
}

func TestStep_fallsBackWhenNothingIsSaid(t *testing.T) {
	for _, state := range []assistance.State{assistance.Reactive, assistance.Guidance} {
		m := in(t, state)
		m.after(299 * time.Second).do(progressed)
		m.after(299 * time.Second).do(assistance.Message{Text: "Yes, show me"})
		state := m.State()
		due, ok := m.rules.Due(m.Machine)
		assert.True(t, ok)
		assert.Equal(t, m.now.Add(300*time.Second), due)
		assert.Empty(t, m.after(300*time.Second-time.Microsecond).do(assistance.Tick{}))
		late := *m
		assert.Equal(t, []assistance.Effect{assistance.Moved{From: state, To: assistance.Thinking}},
			m.after(time.Microsecond).do(assistance.Tick{}))
		_, ok = m.rules.Due(m.Machine)
		assert.False(t, ok)

		late.after(time.Hour).offers("b") // it does not need the tick
		late = *in(t, state)
		assert.Equal(t, assistance.Thinking, late.after(300*time.Second).refuses(progressed).State)
	}
	m := in(t, assistance.Reactive)
	m.rules.AssistanceIdle = time.Minute
	m.after(time.Minute).offers("b")
}

func TestStep_holdsBackLongerAfterEachDismissal(t *testing.T) {
	m := in(t, assistance.Thinking)
	for dismissals, reserve := range []time.Duration{600 * time.Second, 900 * time.Second} {
		m.offers("a")
		m.do(dismissed)
		assert.Equal(t, dismissals+1, m.Dismissed)
		_, ok := m.rules.Due(m.Machine)
		assert.False(t, ok)
		assert.Equal(t, assistance.HoldingBack, m.after(reserve-time.Microsecond).refuses(matched("a", m.now)).Reason)
		m.after(time.Microsecond).do(matched("a", m.now))
		assert.Equal(t, assistance.Conservative, m.State())
		assert.Equal(t, []assistance.Effect{
			assistance.Moved{From: assistance.Conservative, To: assistance.Thinking},
			assistance.Moved{From: assistance.Thinking, To: assistance.Proactive},
		}, m.do(assistance.Shown{}))
		m.do(assistance.Engaged{})
		m.after(300 * time.Second)
	}
	m.offers("a")
	assert.NotContains(t, marshal(t, m.Machine), "previous", "of use for a claim alone")
	m.do(dismissed)
	assert.Equal(t, assistance.HoldingBack, m.after(100*365*24*time.Hour).refuses(matched("a", m.now)).Reason)
	m.do(assistance.Message{Text: "Hello"}, finished)
	assert.Equal(t, assistance.HoldingBack, m.refuses(matched("b", m.now)).Reason,
		"a question does not undo three dismissals")
}

func TestStep_abandonedGuidanceIsNoDismissal(t *testing.T) {
	m := in(t, assistance.Guidance)
	m.do(abandoned)
	assert.Zero(t, m.Dismissed)
	assert.Equal(t, assistance.HoldingBack, m.after(599*time.Second).refuses(matched("b", m.now)).Reason)
	m.after(time.Second).offers("b")
}

func TestStep_changesNothingThatItIsGiven(t *testing.T) {
	for _, state := range states {
		m := in(t, state)
		before := musttest.New(m.MarshalJSON())
		for _, now := range []time.Time{m.now, m.now.Add(time.Hour), m.now.Add(-time.Hour)} {
			for _, e := range []assistance.Event{matched("b", now), assistance.Message{Text: "No"}, dismissed,
				assistance.Tick{}, assistance.Removed{}} {
				_, _, _ = m.rules.Step(m.Machine, now, e)
			}
		}
		after := musttest.New(m.MarshalJSON())
		assert.JSONEq(t, string(before), string(after))
	}
}

// busy returns a machine that uses every field of a snapshot.
func busy(t testing.TB) assistance.Machine {
	var m assistance.Machine
	for i, e := range []assistance.Event{matched("a", noon), assistance.Shown{OfferID: "p1"}, dismissed,
		matched("a", noon.Add(time.Hour))} {
		if match, ok := e.(assistance.Matched); ok {
			match.Result.Metadata = map[string]string{"page": "<pricing> & more"}
			e = match
		}
		next, _, err := rules.Step(m, noon.Add(time.Duration(i/3)*time.Hour), e)
		require.NoError(t, err)
		m = next
	}
	return m
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	data := musttest.New(json.Marshal(v))
	return string(data)
}

func TestSnapshot_isVersionedJSON(t *testing.T) {
	assert.JSONEq(t, `{"state":"thinking","version":1}`, marshal(t, assistance.Machine{}))
	assert.JSONEq(t, `{
		"version": 1, "state": "conservative_assistance", "since_us": 1795348800000000, "dismissals": 1,
		"fired": {"a": {"at_us": 1795352400000000, "used_us": 0}},
		"claim": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"],
			"metadata": {"page": "<pricing> & more"}, "timeout_us": 10000000,
			"at_us": 1795352400000000, "previous": {"at_us": 1795348800000000, "used_us": 0}},
		"offer": {"trigger_id": "a", "body": "Help?", "labels": ["Yes, show me", "No"],
			"metadata": {"page": "<pricing> & more"}, "timeout_us": 10000000,
			"at_us": 1795348800000000, "id": "p1"}
	}`, marshal(t, busy(t)))
}

func TestSnapshot_readsEarlierVersions(t *testing.T) {
	var m assistance.Machine
	require.NoError(t, json.Unmarshal([]byte(`{"state":"thinking","since_us":1,"sum":"c70434f4","version":1,"mood":[]}`),
		&m))
	assert.Equal(t, assistance.Machine{Since: 1}, m)
}

func TestSnapshot_thatCannotBeReadIsASilentMachine(t *testing.T) {
	for _, snapshot := range []string{
		`{"version":2,"state":"thinking"}`, `{"version":2,"state":{}}`, `{}`, `[]`, `null`, `7`, `""`, ``,
		`{"version":0,"state":"thinking"}`, `{"version":"1","state":"thinking"}`,
		`{"version":1,"state":7}`, `{"version":1,"state":"proactive_assistance"}`,
		`{"version":1,"state":"thinking","dismissals":1.5}`,
		`{"version":1,"state":"thinking","since_us":"now"}`, `{"version":1,"state":"thinking","fired":[]}`,
	} {
		m := busy(t)
		require.NoError(t, m.UnmarshalJSON([]byte(snapshot)), snapshot)
		assert.Equal(t, assistance.Machine{Dismissed: 3}, m)
	}
}

// A snapshot that can be read is written as it was, and the machine works.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(marshal(f, assistance.Machine{})))
	f.Add([]byte(marshal(f, busy(f))))
	f.Add([]byte(`{"version":1,"state":"proactive_assistance","offer":{"timeout_us":9223372036854775807},` +
		`"since_us":-9223372036854775808}`))
	f.Add([]byte(`{"version":1,"state":"guidance_execution","fired":{"a":null},"claim":{"previous":{}},"x":{"y":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again assistance.Machine
		require.NoError(t, m.UnmarshalJSON(data))
		written := marshal(t, m)
		require.NoError(t, again.UnmarshalJSON([]byte(written)))
		assert.Equal(t, written, marshal(t, again))
		for _, e := range []assistance.Event{matched("a", noon), assistance.Shown{}, assistance.Refused{},
			assistance.Message{Text: "No"}, dismissed, assistance.Engaged{}, assistance.Tick{}} {
			_, _, _ = rules.Step(m, noon, e)
			_, _ = rules.Due(m)
		}
	})
}
