package connector

import (
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/internal/schedule"
)

// turns is an account's share for strangers' notes, which anybody can cause. They are
// written after everything else, and while there is anything else at most one request
// in ten is theirs. The delivery's mutex guards it.
type turns struct {
	lanes  schedule.Agenda[*lane] // with nothing else due
	since  int                    // other requests since a stranger's last one
	asked  []time.Time            // strangers' requests within the desk's window
	limit  int                    // requests that the desk accepts within its window
	window time.Duration
}

const (
	strangersShare = 10 // one request in so many
	maxStrange     = 3  // strangers' jobs at the same time
	// turnPause is how often a conversation whose own work is due later checks whether
	// it is its strangers' turn.
	turnPause = 5 * time.Second
	// usualLimit is the assumed limit of a desk that states none, in requests a minute.
	usualLimit = 600
)

// turn returns when a stranger's request may be made, and false while others come first: they
// have work, and fewer than strangersShare - 1 of their requests were made since the last
// stranger's. The time is in the future once strangers have had their tenth of the desk's limit
// within its window.
func (a *account) turn(now time.Time) (at time.Time, ok bool) {
	t := &a.turns
	due, some := a.lanes.Next()
	if busy := a.others > 0 || some && !due.After(now); busy && t.since < strangersShare-1 {
		return time.Time{}, false
	}
	limit, window := t.rate()
	t.asked = slices.DeleteFunc(t.asked, func(at time.Time) bool { return now.Sub(at) >= window })
	if most := max(1, limit/strangersShare); len(t.asked) >= most {
		return t.asked[len(t.asked)-most].Add(window), true
	}
	return now, true
}

// rate returns how many requests the desk accepts within a window.
func (t *turns) rate() (requests int, window time.Duration) {
	if t.limit > 0 {
		return t.limit, t.window
	}
	return usualLimit, time.Minute
}

// isTurn reports whether a stranger's request may be made now.
func (a *account) isTurn(now time.Time) bool {
	at, ok := a.turn(now)
	return ok && !at.After(now)
}

// begin marks the lane as being worked on. The job counts as a strangers' one unless ownDue is set;
// admit corrects that with each step. The lane was popped, so its slot is unset.
func (l *lane) begin() {
	l.working, l.servesOwn, l.ownDue = true, l.ownDue, false
	l.count(1)
}

// end ends the work on the lane. Unfinished work other than strangers' notes stays due. It only
// sets the flags: the caller puts the lane or forgets it.
func (l *lane) end(finished bool) {
	l.count(-1)
	l.working, l.ownDue = false, l.ownDue || l.servesOwn && !finished
}

// count adds n to the account's number of jobs of the lane's sort.
func (l *lane) count(n int) {
	if l.servesOwn {
		l.account.others += n
	} else {
		l.account.strange += n
	}
}

// admit reports whether a step may be taken now: a stranger's step has to wait for its turn. It
// counts a stranger's turn as used, whether or not the step then makes a request, and moves the
// job between the account's counts.
func (j *job) admit(s *step) bool {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	l, a := j.lane, j.lane.account
	l.count(-1)
	l.servesOwn = !s.strange
	l.count(1)
	now := time.Now()
	if !s.strange {
		return true
	}
	if !a.isTurn(now) {
		return false
	}
	a.turns.since, a.turns.asked = 0, append(a.turns.asked, now)
	return true
}

// permit counts a request of a class to the account, and updates the account's limit from its pacer.
// The error is a *pausedError if the request has to wait: the account is closed, it has more jobs
// than room, the pacer asks for a pause, of all requests or of this conversation, or the desk fails
// in requests of the class.
func (j *job) permit(of class) error {
	j.d.mu.Lock()
	defer j.d.mu.Unlock()
	a := j.lane.account
	if a.isClosed() || a.room() < 0 {
		return &pausedError{account: true}
	}
	if pacer := j.can.Pacer; pacer != nil {
		if wait := pacer.Pause(""); wait > 0 {
			a.pause(wait)
			return &pausedError{account: true}
		}
		if wait := pacer.Pause(j.lane.link().ConversationID); wait > 0 {
			return &pausedError{wait: wait}
		}
		a.turns.limit, a.turns.window = pacer.Rate()
	}
	if wait := a.trials[of].wait(); wait > 0 {
		return &pausedError{wait: wait}
	}
	if j.lane.servesOwn {
		a.turns.since++
	}
	return nil
}
