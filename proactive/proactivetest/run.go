package proactivetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/assistance"
	"github.com/liveactivity/liveactivity/proactive"
)

// Start is the time t+0s of every script.
var Start = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// Site is the origin of pages that a script gives as paths.
const Site = "https://app.example.com"

// Run plays a script with these triggers, evaluated in the given order, and the
// default configuration. It fails the test if the script has an error or an
// expectation is not met.
func Run(t testing.TB, script string, triggers ...proactive.Trigger) {
	t.Helper()
	if err := play(script, nil, triggers); err != nil {
		t.Fatal(err)
	}
}

// RunConfig is like Run, but with a product's configuration, nil for the defaults: it uses the
// triggers that the configuration enables, from package proactive and from the custom ones.
func RunConfig(t testing.TB, script string, config *proactive.Config, custom ...proactive.Trigger) {
	t.Helper()
	if err := Check(script, config, custom...); err != nil {
		t.Fatal(err)
	}
}

// Check plays a script like RunConfig. It returns the error in the configuration or the
// script, or else all unmet expectations, joined, each with its line, column and step.
func Check(script string, config *proactive.Config, custom ...proactive.Trigger) error {
	triggers, err := config.Select(custom...)
	if err != nil {
		return err
	}
	return play(script, config, triggers)
}

func play(script string, config *proactive.Config, triggers []proactive.Trigger) error {
	if err := proactive.CheckTriggers(triggers...); err != nil {
		return err
	}
	steps, err := parse(script)
	if err != nil {
		return err
	}
	p := &player{works: true, page: Site + "/"}
	core := assistance.NewCore(config, triggers...)
	p.replay = assistance.NewReplay(core, assistance.Session{ProductID: "acme", SessionID: "s1", ConversationID: "c1"},
		&assistance.ReplayOptions{
			Decided: func(_ time.Time, d assistance.Decision) { p.decisions = append(p.decisions, d) },
			Desk:    p.desk,
		})
	var errs []error
	for _, s := range steps {
		p.play(s)
		errs = append(errs, p.failures(s)...)
	}
	return errors.Join(errs...)
}

type player struct {
	replay *assistance.Replay
	page   string
	works  bool // whether the desk works
	count  int  // number of actions

	seen // during the current step
}

// seen holds the results of a step.
type seen struct {
	decisions []assistance.Decision
	effects   []assistance.Effect
	offers    []assistance.Send // shown to the user
	refused   error
}

// desk answers an effect as the script demands.
func (p *player) desk(now time.Time, e assistance.Effect) assistance.Event {
	p.effects = append(p.effects, e)
	send, isOffer := e.(assistance.Send)
	switch {
	case isOffer && !p.works:
		return assistance.Refused{}
	case !p.works:
		return nil
	case isOffer:
		p.offers = append(p.offers, send)
	}
	return assistance.WorkingDesk(now, e)
}

func (p *player) play(s step) {
	p.seen = seen{}
	now := Start.Add(s.at)
	switch s.verb {
	case verbPage:
		if p.page = s.object; strings.HasPrefix(p.page, "/") {
			p.page = Site + p.page
		}
		p.act(activity.NewAction(activity.TypePageview, activity.Target{}, p.page), now)
	case verbEvent:
		p.act(activity.NewEvent(s.object, "", nil, p.page), now)
	case verbSays:
		p.refused = p.replay.Step(assistance.Message{Text: s.object}, now)
	case verbDesk:
		p.replay.Pass(now)
		p.works = s.object == "works"
	case verbRestart:
		p.replay.Pass(now)
		p.refused = p.restart()
	case verbWait:
		p.replay.Pass(now)
	default:
		if typ, ok := acts[s.verb]; ok {
			p.act(activity.NewAction(typ, activity.Target{Label: s.object}, p.page), now)
		} else {
			p.refused = p.replay.Step(events[s.verb], now)
		}
	}
}

func (p *player) act(a activity.Action, now time.Time) {
	a.TimestampStart, a.TimestampEnd, a.Index = activity.Seconds(now), activity.Seconds(now), p.count
	p.count++
	d := p.replay.Act(now, a)[0]
	if d.Reason == assistance.NoMatch {
		p.decisions = append(p.decisions, d)
	}
}

// restart saves the machine and restores it.
func (p *player) restart() error {
	var restored assistance.Machine
	snapshot, err := json.Marshal(p.replay.Machine())
	err = errors.Join(err, json.Unmarshal(snapshot, &restored))
	p.replay.Restore(restored)
	return err
}

// failures returns the unmet expectations of a step, each with its position.
func (p *player) failures(s step) (all []error) {
	fail := func(at position, problem string) { all = append(all, at.errorf("%s\n\t%s", problem, s.source)) }
	expected := map[string]bool{}
	for _, e := range s.expect {
		expected[e.kind], expected["offer "+e.object] = true, true
		if problem := p.check(e); problem != "" {
			fail(e.position, problem)
		}
	}
	for _, offer := range p.offers {
		if !expected["offer "+offer.TriggerID] && !expected["no offer"] {
			fail(s.position, "nothing expects the offer "+offer.TriggerID)
		}
	}
	if p.refused != nil && !expected["refused"] {
		fail(s.position, p.refused.Error())
	}
	return all
}

// check returns the problem with an expectation, or "" if it is met.
func (p *player) check(e expectation) string {
	switch e.kind {
	case "offer":
		return p.checkOffer(e)
	case "no offer":
		return p.checkNoOffer(assistance.Reason(e.object))
	case "state":
		if state := p.replay.Machine().State(); string(state) != e.object {
			return fmt.Sprintf("the state is %s, and not %s", state, e.object)
		}
	case "refused":
		if p.refused == nil {
			return "it is possible"
		}
	case "reply":
		return expect[assistance.Reply](p.effects, "no message is answered", nil)
	case "removed":
		return expect[assistance.Clear](p.effects, "the conversation is not deleted", nil)
	case "guide":
		return expect(p.effects, fmt.Sprintf("no guidance for %q begins", e.object),
			func(g assistance.Guide) bool { return g.Label == e.object })
	}
	return ""
}

// expect returns "" if an effect of type T satisfies is, and problem otherwise. A nil is
// accepts any.
func expect[T assistance.Effect](effects []assistance.Effect, problem string, is func(T) bool) string {
	for _, effect := range effects {
		if e, ok := effect.(T); ok && (is == nil || is(e)) {
			return ""
		}
	}
	return problem
}

func (p *player) checkOffer(e expectation) string {
	for _, offer := range p.offers {
		if offer.TriggerID != e.object {
			continue
		}
		if e.label != "" && !slices.Contains(offer.Offer.Labels, e.label) {
			return fmt.Sprintf("the labels of the offer are %q", offer.Offer.Labels)
		}
		return ""
	}
	return fmt.Sprintf("there is no offer %s: %s", e.object, p.whyNot())
}

func (p *player) checkNoOffer(reason assistance.Reason) string {
	if len(p.offers) > 0 {
		return "there is an offer " + p.offers[0].TriggerID
	}
	if reason == "" || slices.ContainsFunc(p.decisions, func(d assistance.Decision) bool { return d.Reason == reason }) {
		return ""
	}
	return fmt.Sprintf("the reason is not %s: %s", reason, p.whyNot())
}

func (p *player) whyNot() string {
	var said []string
	for _, d := range p.decisions {
		if d.Reason == assistance.NoMatch {
			said = append(said, "no trigger matches")
			continue
		}
		said = append(said, fmt.Sprintf("%s matches (%s)", d.Match.Result.TriggerID, d.Reason))
	}
	if said == nil {
		return "no trigger was asked"
	}
	return strings.Join(said, ", ")
}
