package connector

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// account is a desk of a product, with the conversations that are due there, and the breaker
// before it. The delivery's mutex guards it.
//
//	          until      failing   lets in
//	answers   over       zero      maxInside conversations side by side
//	limited   to come    any       none, and no request of those inside
//	away      over       set       one conversation at a time, as a probe
//
// An account-wide failure makes it away and sets until, longer with each probe that fails. A 429
// that names a time only sets until: the desk answers. Any answer about one conversation only, or
// a success, makes it answer again, but until stays. A failure that a conversation repeats, while
// the desk takes requests of others, is its own and changes nothing here; see takeOwn.
type account struct {
	desk    string
	lanes   schedule.Agenda[*lane] // but for those of the turns
	turns   turns
	others  int // jobs that have something else to do than strangers' notes
	strange int // jobs that have not

	until   time.Time // no request is made before
	failing time.Time // since when the desk is away; zero while it answers
	probes  int       // that failed since then
	taken   int       // requests that succeeded, of conversations without a failure
}

// Bounds of an account.
const (
	maxInside = 32 // conversations that are worked on at once
	// lastProbe is the longest pause between two probes, unless the desk asks for a longer one.
	lastProbe = 10 * time.Second
	// After so many probes that the desk refused the pauses grow; before, the next conversation may
	// be one that it does not refuse.
	refusedProbes = 16
	refusedPause  = time.Second / 4
)

// inside returns the number of conversations that are worked on.
func (a *account) inside() int { return a.others + a.strange }

// room returns how many more conversations may be worked on now, negative where there are
// too many already.
func (a *account) room() int {
	switch {
	case a.isClosed():
		return -a.inside()
	case !a.failing.IsZero():
		return 1 - a.inside()
	}
	return maxInside - a.inside()
}

// opens returns when there is room for the next conversation, and false where the work on
// another one has to end first.
func (a *account) opens() (at time.Time, ok bool) {
	if a.inside() >= maxInside || a.inside() > 0 && !a.failing.IsZero() {
		return time.Time{}, false
	}
	return a.until, true
}

// pause lets no request be made for a time. It never shortens a pause.
func (a *account) pause(d time.Duration) {
	if until := time.Now().Add(d); until.After(a.until) {
		a.until = until
	}
}

// isClosed reports whether no request may be made yet, not even a probe.
func (a *account) isClosed() bool { return time.Now().Before(a.until) }

// isOpen reports whether the desk answers and does not limit us.
func (a *account) isOpen() bool { return a.failing.IsZero() && !a.isClosed() }

// observe learns from the outcome of a request how the desk is. Any error but an
// *helpdesk.APIError is account-wide: nothing is known of the conversation. Of the requests that
// were under way when the desk went away only the first failure counts, and those that name a
// time, so that the others do not put off the next probe.
func (a *account) observe(err error, logger *slog.Logger) {
	var failed *helpdesk.APIError
	isAPI := errors.As(err, &failed)
	if err == nil || isAPI && !failed.AccountWide() {
		if !a.failing.IsZero() {
			logger.Info("the desk takes notes again", "desk", a.desk, "away", time.Since(a.failing).Round(time.Second))
		}
		a.failing = time.Time{}
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
		logger.Warn("notes are late: "+because(err), "desk", a.desk, "err", err)
		a.failing, a.probes = time.Now(), 0
	case a.isClosed() && asked == 0:
		return // one of those that were inside when the first failed
	}
	a.pause(max(asked, a.probePause(isAPI && isRefusal(failed))))
	a.probes++
}

// probePause returns the pause before the next probe after one that failed.
func (a *account) probePause(isRefused bool) time.Duration {
	grown := a.probes
	if isRefused {
		if grown -= refusedProbes; grown < 0 {
			return refusedPause
		}
	}
	return min(time.Second<<min(grown, 4), lastProbe)
}

// isRefusal reports whether the failure, though the account's by its status, may be of one
// conversation only.
func isRefusal(e *helpdesk.APIError) bool {
	return !e.Misconfigured && e.Wait == 0 &&
		(e.Status == http.StatusForbidden || e.Status >= http.StatusInternalServerError)
}

// takeOwn remembers the outcome of a conversation's request, and reports whether it is a failure of
// its own although the status may be the account's: the conversation has failed so before, and the
// desk has taken requests of others since. Such a failure says nothing of the desk.
func (a *account) takeOwn(l *lane, err error) bool {
	var failed *helpdesk.APIError
	switch {
	case err == nil && l.failed() == 0:
		a.taken++
		return false
	case !errors.As(err, &failed), !isRefusal(failed):
		return false
	}
	m := l.rare()
	before := m.refused
	m.refused = a.taken + 1
	return before > 0 && before < m.refused
}

// because says in words why notes are late.
func because(err error) string {
	var e *helpdesk.APIError
	switch {
	case !errors.As(err, &e):
		return "the desk cannot be asked"
	case e.Status == http.StatusTooManyRequests && e.OneConversation:
		return "the desk limits the conversation"
	}
	return cmp.Or(reasons[e.Status], "the desk fails")
}

// reasons are why notes are late, in words, by the status of the desk's answer.
var reasons = map[int]string{
	0:                            "the desk does not answer",
	http.StatusUnauthorized:      "the desk refuses the credentials",
	http.StatusForbidden:         "the desk forbids the request",
	http.StatusPaymentRequired:   "the account of the desk has ended",
	http.StatusTooManyRequests:   "the desk limits the account",
	http.StatusConflict:          "another change to the conversation is in progress",
	http.StatusLocked:            "the conversation is locked",
	http.StatusProxyAuthRequired: "the proxy refuses the credentials",
}
