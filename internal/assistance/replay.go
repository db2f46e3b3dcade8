package assistance

import (
	"cmp"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// Replay plays the actions of one session against a simulated desk, in simulated time,
// and reports the decisions that a core would have made. Call its methods with times that
// do not decrease.
//
// It decides as the service does but does not wait, so triggers can be tuned on a log.
// The time of an action is when the log received it, with the other actions of its entry:
//
//	replay.Act(entry.ID.Time(), actions...)
type Replay struct {
	core    *Core
	session Session
	opts    ReplayOptions

	window  Window
	machine Machine
	asked   time.Time // when to call Core.Ask; zero for never
	retry   time.Time // no tick before this: the desk did not answer
}

// ReplayOptions are the optional callbacks of a Replay.
type ReplayOptions struct {
	// Decided is called with each decision for which a trigger matched.
	Decided func(now time.Time, d Decision)
	// Desk answers an effect with an event, nil for no answer. By default
	// everything that the desk is asked for succeeds.
	Desk func(now time.Time, e Effect) Event
}

// retryAfter is the pause before a replay repeats an unanswered effect.
const retryAfter = 10 * time.Second

// NewReplay returns the replay of a session. The core must not be nil.
func NewReplay(core *Core, s Session, opts *ReplayOptions) *Replay {
	r := &Replay{core: core, session: s, opts: *cmp.Or(opts, &ReplayOptions{})}
	if r.opts.Desk == nil {
		r.opts.Desk = WorkingDesk
	}
	return r
}

// WorkingDesk answers like a desk where everything succeeds and no user reacts.
func WorkingDesk(_ time.Time, e Effect) Event {
	switch e.(type) {
	case Send, Find:
		return Shown{}
	case Remove:
		return Removed{}
	}
	return nil
}

// Machine returns the current machine.
func (r *Replay) Machine() Machine { return r.machine }

// Restore replaces the machine, like a restart.
func (r *Replay) Restore(m Machine) { r.machine = m }

// Act lets time pass, and then applies the actions of an entry. It returns the decisions about
// them. If several of these are an offer, the last one is made, as by the service.
func (r *Replay) Act(now time.Time, actions ...activity.Action) (all []Decision) {
	r.Pass(now)
	var offer Decision
	for _, a := range actions {
		d := r.core.Act(&r.window, r.machine, r.session, a, now)
		if all = append(all, d); d.Reason == Offered {
			offer = d
		} else {
			r.decided(d, now)
		}
		r.asked = d.Again
	}
	if offer.Reason == Offered {
		r.decided(offer, now)
	}
	return all
}

// Step lets time pass, and then applies an event.
func (r *Replay) Step(e Event, now time.Time) error {
	r.Pass(now)
	return r.step(e, now)
}

// Pass lets time pass: everything that is due by then happens when it is due.
func (r *Replay) Pass(to time.Time) {
	for {
		due, tick := r.core.Due(r.machine)
		due = schedule.Later(due, r.retry)
		ask := !r.asked.IsZero() && (!tick || !r.asked.After(due))
		if ask {
			due = r.asked
		}
		if !ask && !tick || due.After(to) {
			break
		}
		if ask {
			r.ask(due)
		} else {
			r.tick(due)
		}
	}
}

func (r *Replay) ask(now time.Time) {
	d := r.core.Ask(&r.window, r.machine, r.session, r.asked, now)
	r.asked = d.Again
	r.decided(d, now)
}

func (r *Replay) tick(now time.Time) {
	_ = r.step(Tick{}, now) // a tick is always possible
	if due, again := r.core.Due(r.machine); again && !due.After(now) {
		r.retry = now.Add(retryAfter)
	}
}

// decided makes a decision's offer.
func (r *Replay) decided(d Decision, now time.Time) {
	if d.Reason == NoMatch {
		return
	}
	if r.opts.Decided != nil {
		r.opts.Decided(now, d)
	}
	if d.Reason == Offered {
		_ = r.step(d.Match, now) // the gate has just allowed it
	}
}

// step applies an event, and the desk's answers to its effects.
func (r *Replay) step(e Event, now time.Time) error {
	next, effects, err := r.core.Step(r.machine, now, e)
	if err != nil {
		return err
	}
	r.machine = next
	for _, effect := range effects {
		if _, gone := effect.(Clear); gone {
			r.window, r.asked = Window{}, time.Time{}
		}
		if answer := r.opts.Desk(now, effect); answer != nil {
			_ = r.step(answer, now) // a late answer changes nothing
		}
	}
	return nil
}
