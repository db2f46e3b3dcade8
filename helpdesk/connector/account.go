package connector

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/schedule"
)

// account is a desk of a product, with the conversations that are due there. The
// mutex of its delivery guards all but the breaker.
type account struct {
	desk  string
	lanes schedule.Agenda[*lane] // but for those of the turns
	turns turns
	breaker
}

// breaker admits work on one account of a desk: side by side while the account
// answers, none while it limits us, and one probe at a time while it is away. Work
// that leaves a full breaker wakes the work that waits. It is safe for concurrent
// use.
type breaker struct {
	mu      sync.Mutex
	until   time.Time // closed until then
	failing time.Time // since when the account is away; zero while it answers
	probes  int       // that failed since then
	inside  int
}

// Bounds of an account.
const (
	maxInside = 32 // conversations that are worked on at once
	lastProbe = 10 * time.Second
)

// room returns how many may enter now.
func (b *breaker) room() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free()
}

func (b *breaker) free() int {
	limit := maxInside
	if !b.failing.IsZero() {
		limit = 1
	}
	if time.Now().Before(b.until) {
		return 0
	}
	return max(0, limit-b.inside)
}

// enter reports whether another one may pass, which then has to leave.
func (b *breaker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free() == 0 {
		return false
	}
	b.inside++
	return true
}

func (b *breaker) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
}

// opens returns when the next one may enter, and false where one inside has to
// leave first.
func (b *breaker) opens() (at time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside >= maxInside || b.inside > 0 && !b.failing.IsZero() {
		return time.Time{}, false
	}
	return b.until, true
}

// pause closes the breaker for a time.
func (b *breaker) pause(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close(d)
}

func (b *breaker) close(d time.Duration) {
	if until := time.Now().Add(d); until.After(b.until) {
		b.until = until
	}
}

// failed records that the account is away, and closes the breaker for at least the
// time that it asked for. It reports whether that is news.
func (b *breaker) failed(asked time.Duration) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if first = b.failing.IsZero(); first {
		b.failing, b.probes = time.Now(), 0
	} else if time.Now().Before(b.until) && asked == 0 {
		return false // one of those that were inside when the first failed
	}
	b.close(max(asked, min(time.Second<<min(b.probes, 4), lastProbe)))
	b.probes++
	return first
}

// answered records that the account answers, and returns for how long it was
// away.
func (b *breaker) answered() (away time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing.IsZero() {
		return 0
	}
	away = time.Since(b.failing)
	b.failing = time.Time{}
	return away
}

// isClosed reports whether no request may be made yet, not even a probe.
func (b *breaker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// isOpen reports whether the account answers and does not limit us.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing.IsZero() && !time.Now().Before(b.until)
}

// observe learns from the outcome of a request how the account is.
func (b *breaker) observe(err error, desk string, logger *slog.Logger) {
	var failed *helpdesk.APIError
	isAPI := errors.As(err, &failed)
	if err == nil || isAPI && !failed.AccountWide() {
		if away := b.answered(); away > 0 {
			logger.Info("the desk takes notes again", "desk", desk, "away", away.Round(time.Second))
		}
		return
	}
	asked := time.Duration(0)
	if isAPI {
		asked = failed.Wait
	}
	if asked > 0 && failed.Status == http.StatusTooManyRequests {
		b.pause(asked)
		return
	}
	if b.failed(asked) {
		logger.Warn("notes are late: "+because(err), "desk", desk, "err", err)
	}
}

// because says in words why notes are late.
func because(err error) string {
	var e *helpdesk.APIError
	switch {
	case !errors.As(err, &e):
		return "the desk cannot be asked"
	case e.Status == 0:
		return "the desk does not answer"
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "the desk refuses the credentials"
	case e.Status == http.StatusPaymentRequired:
		return "the account of the desk has ended"
	case e.Status == http.StatusTooManyRequests && e.OneConversation:
		return "the desk limits the conversation"
	case e.Status == http.StatusTooManyRequests:
		return "the desk limits the account"
	case e.Status == http.StatusConflict:
		return "another change to the conversation is in progress"
	}
	return "the desk fails"
}
