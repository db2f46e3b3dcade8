package connector

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// account is a desk of a product, with the conversations that are due there and the circuit
// breaker in front of it. The delivery's mutex guards it.
//
//	          until      failing   lets in
//	answers   past       zero      maxInside conversations side by side
//	limited   future     any       none, and those inside make no request
//	away      past       set       one conversation at a time, as a probe
//
// An account-wide failure makes the account away and sets until, further ahead with each probe
// that fails. After a failure in any class but notes, another class makes the next probe; see trial.
// A 429 that states a time only sets until, because the desk does answer. Success, or any answer
// about one conversation only, makes the account answer again but does not change until. A failure
// while the desk accepts requests of other conversations may be the conversation's own and changes
// nothing here; see isOwn.
type account struct {
	desk    string
	lanes   schedule.Agenda[*lane] // all except the ones in turns
	turns   turns
	others  int // jobs with other work than strangers' notes
	strange int // jobs with nothing but strangers' notes

	until    time.Time // no request is made before
	failing  time.Time // since when the desk is away; zero while it answers
	probes   int       // failed probes since then
	accepted time.Time // the last success of a conversation without a failure
	firsts   int       // refused first notes since then

	trials [classes]trial // never begun for notes
}

// trial bounds the requests of a class that fails at the desk while other classes may work: one
// conversation at a time tries for all. Without it, the class's failures would keep the account away
// for as long as many conversations wait with such a request.
type trial struct {
	failed int       // the failure that began it and the attempts since; zero while there is none
	until  time.Time // no request of the class is made before
}

// wait returns how long a request has to wait. One that need not wait begins the next attempt, and
// the others wait for its outcome.
func (t *trial) wait() (wait time.Duration) {
	if wait = time.Until(t.until); t.failed > 0 && wait <= 0 {
		t.begin()
	}
	return max(0, wait)
}

// begin counts a failure or an attempt, and lets the next one wait.
func (t *trial) begin() {
	t.failed++
	t.until = time.Now().Add(probes.Even(t.failed))
}

// fail records that the desk has failed in a request of the class, and when the next one may be made
// at the earliest.
func (t *trial) fail(next time.Time) {
	if t.failed == 0 {
		t.begin()
	}
	t.until = schedule.Later(t.until, next)
}

// Bounds of an account.
const (
	maxInside = 32 // conversations worked on at the same time
	// lastProbe is the longest pause between two probes, unless the desk asks for a longer one.
	lastProbe = 10 * time.Second
	// The pauses grow only after this many probes that the desk refused: until then, the next
	// conversation may be one that it accepts.
	refusedProbes = 16
	refusedPause  = time.Second / 4
	// afterProbe is the time for a probe by another class than the one that has failed.
	afterProbe = time.Second
)

// room returns how many more conversations may be worked on once until is past. It is negative
// if there are too many already.
func (a *account) room() int {
	if !a.failing.IsZero() {
		return 1 - a.others - a.strange
	}
	return maxInside - a.others - a.strange
}

// opens returns when the next conversation may be worked on, for nothing but strangers' notes if
// strange is set, and false if other work has to end first.
func (a *account) opens(now time.Time, strange bool) (at time.Time, ok bool) {
	at, ok = a.until, a.room() > 0
	if ok && strange {
		turn, isTurn := a.turn(now)
		at, ok = schedule.Later(at, turn), isTurn && a.strange < maxStrange
	}
	return at, ok
}

// pause blocks all requests for a time. It never shortens a pause.
func (a *account) pause(d time.Duration) { a.until = schedule.Later(a.until, time.Now().Add(d)) }

// isClosed reports whether no request may be made now, not even a probe.
func (a *account) isClosed() bool { return time.Now().Before(a.until) }

// isOpen reports whether the desk answers and does not limit us.
func (a *account) isOpen() bool { return a.failing.IsZero() && !a.isClosed() }

// observe updates the account by the outcome of a request of a class. Any error other than an
// *helpdesk.APIError is account-wide, as it says nothing about the conversation. Of the requests
// in flight when the desk went away, only the first failure counts, and failures that state a
// time; the others must not postpone the next probe.
func (a *account) observe(of class, err error, logger *slog.Logger) {
	failed, isAPI := errors.AsType[*helpdesk.APIError](err)
	if err == nil || isAPI && !failed.AccountWide() {
		if !a.failing.IsZero() {
			logger.Info("the desk takes notes again", "desk", a.desk, "away", time.Since(a.failing).Round(time.Second))
		}
		a.failing, a.trials[of] = time.Time{}, trial{}
		return
	}
	asked := time.Duration(0)
	if isAPI {
		asked = failed.Wait
	}
	switch {
	case asked > 0 && failed.Status == http.StatusTooManyRequests:
		a.pause(asked)
		return
	case a.failing.IsZero():
		logger.Warn("notes are late", "desk", a.desk, "err", err)
		a.failing, a.probes = time.Now(), 0
	case a.isClosed() && asked == 0:
		return // it was in flight when the first one failed
	}
	pause := a.probePause(isAPI && isRefusal(failed))
	if of != notes {
		pause = min(pause, lastProbe-afterProbe)
	}
	a.pause(max(asked, pause))
	a.probes++
	if of != notes {
		a.trials[of].fail(a.until.Add(afterProbe))
	}
}

// probePause returns the pause before the next probe, after one that failed.
func (a *account) probePause(isRefused bool) time.Duration {
	grown := a.probes
	if isRefused {
		if grown -= refusedProbes; grown < 0 {
			return refusedPause
		}
	}
	return probes.Even(grown + 1)
}

// probes are the pauses between probes.
var probes = schedule.Backoff{Min: time.Second, Max: lastProbe}

// isRefusal reports whether a failure may concern one conversation only, although its status is
// account-wide.
func isRefusal(e *helpdesk.APIError) bool {
	return !e.Misconfigured && e.Wait == 0 &&
		(e.Status == http.StatusForbidden || e.Status >= http.StatusInternalServerError)
}

// isOwn records the outcome of a conversation's request. It reports whether the outcome is a
// failure of the conversation alone although its status is account-wide. Such a failure says
// nothing about the desk:
//
//	refused before             the desk has accepted requests of others since
//	refused in its first note  the desk has accepted requests of others within lastProbe, and refused
//	                           at most maxInside first notes since
func (a *account) isOwn(l *lane, of class, err error) bool {
	var failed *helpdesk.APIError
	now := time.Now()
	switch {
	case err == nil && l.noteFailures() == 0:
		a.accepted, a.firsts = now, 0
		return false
	case !errors.As(err, &failed), !isRefusal(failed):
		return false
	}
	m := l.ensureMemo()
	before := m.refused
	m.refused = now
	switch {
	case !before.IsZero():
		return !a.accepted.Before(before)
	case of != notes, l.isProven(), !a.failing.IsZero():
		return false
	}
	a.firsts++
	return a.firsts <= maxInside && now.Sub(a.accepted) < lastProbe
}

// ownPause returns the shortest pause of a conversation that the desk refuses while it accepts
// others. All such conversations together make at most half of the requests that the desk accepts.
func (d *delivery) ownPause(a *account) time.Duration {
	if !a.failing.IsZero() {
		return 0
	}
	refused := 0
	for _, l := range d.lanes {
		if l.account == a && l.memo != nil && !l.memo.refused.IsZero() {
			refused++
		}
	}
	limit, window := a.turns.rate()
	return time.Duration(2*refused) * window / time.Duration(limit)
}

// probesBetter reports whether an answer about lane l says more about the desk than one about lane k.
// Lanes that the desk refuses for reasons of their own would keep the account away.
func probesBetter(l, k *lane) bool {
	if l.noteFailures() != k.noteFailures() {
		return l.noteFailures() < k.noteFailures()
	}
	return l.isProven() && !k.isProven()
}
