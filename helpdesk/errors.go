package helpdesk

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// APIError is a failed request to a help desk.
type APIError struct {
	Desk   string // "zendesk"
	Op     string // "write note"
	Status int    // the answer's, zero if there was none

	// Code and Message come from the vendor. Message is for logs only; Error omits email
	// addresses in it.
	Code, Message string
	RequestID     string // the vendor's, for its support

	// Wait is how long the desk asked to wait before the next request; zero if
	// it did not ask.
	Wait time.Duration
	// Ambiguous means that the request may have had its effect: the answer was
	// lost or came too late. A failed request without it has had no effect.
	Ambiguous bool
	// Gone means that the conversation is deleted, or closed for good.
	Gone bool
	// OneConversation means that the rate limit or the missing right concerns
	// this conversation only; others may go on.
	OneConversation bool
	// Misconfigured means that the desk's configuration is wrong, or that
	// something other than the desk answered, although the status does not show
	// it. It concerns every conversation.
	Misconfigured bool

	Err error // the cause if there was no readable answer
}

// addressForm matches an email address in a text.
var addressForm = regexp.MustCompile(`[^\s"'<>(),:;]+@[^\s"'<>(),:;]+`)

func (e *APIError) Error() string {
	text := e.Desk + ": " + e.Op
	if e.Status != 0 {
		text += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	}
	if said := strings.TrimSpace(e.Code + " " + addressForm.ReplaceAllLiteralString(e.Message, "…@…")); said != "" {
		text += ": " + said
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// RetryAfter returns Wait, the time during which not to retry.
func (e *APIError) RetryAfter() time.Duration { return e.Wait }

// Temporary reports whether the same request may succeed later without any change: after no
// answer, a proxy's 407, 408, 409, 421, 423 for something locked, 425, 429 or a 5xx.
func (e *APIError) Temporary() bool {
	switch e.Status {
	case 0, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest,
		http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return !e.Gone
	}
	return !e.Gone && e.Status >= 500
}

// AccountWide reports whether every request to the account will currently fail
// in the same way: the desk is down, refuses the credentials or limits the
// account.
func (e *APIError) AccountWide() bool {
	if e.Misconfigured {
		return true
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		return !e.Gone && !e.OneConversation
	case http.StatusConflict, http.StatusLocked:
		return false
	}
	return e.Temporary() && !e.OneConversation
}

// IsAmbiguous reports whether err comes from a request that may have had its
// effect.
func IsAmbiguous(err error) bool {
	e, ok := errors.AsType[*APIError](err)
	return ok && e.Ambiguous
}

// IsGone reports whether err means that the conversation is deleted, or closed
// for good.
func IsGone(err error) bool {
	e, ok := errors.AsType[*APIError](err)
	return ok && e.Gone
}

// isDial reports whether err comes from a connection that was never
// established.
func isDial(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}
