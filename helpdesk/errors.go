package helpdesk

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// APIError is a failed request to a help desk.
type APIError struct {
	Desk   string // "zendesk"
	Op     string // "write note"
	Status int    // of the answer, zero if there was none

	// Code and Message are the vendor's. Message is for logs only.
	Code, Message string
	RequestID     string // the vendor's, for its support

	// Wait is how long the desk asked to wait before the next request; zero if
	// it did not say.
	Wait time.Duration
	// Ambiguous says that the request may have had its effect: the answer was
	// lost or came too late. Without it, a request that failed has had none.
	Ambiguous bool
	// Gone says that the conversation is deleted, or closed for good.
	Gone bool
	// OneConversation says that the limit that was hit, or the right that is
	// missing, is the conversation's own; others may go on.
	OneConversation bool
	// Misconfigured says that the desk's configuration is wrong, or that something
	// else than the desk answered, whichever conversation the request was about,
	// though the status does not say so.
	Misconfigured bool

	Err error // the cause if there was no answer that could be read
}

func (e *APIError) Error() string {
	text := e.Desk + ": " + e.Op
	if e.Status != 0 {
		text += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	}
	if said := strings.TrimSpace(e.Code + " " + e.Message); said != "" {
		text += ": " + said
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// RetryAfter returns Wait: how long not to retry.
func (e *APIError) RetryAfter() time.Duration { return e.Wait }

// Temporary reports whether the same request may succeed later though nothing is
// changed: no answer, 407 of a proxy, 408, 409, 421, 423 of something locked, 425, 429 and 5xx.
func (e *APIError) Temporary() bool {
	switch e.Status {
	case 0, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest,
		http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return !e.Gone
	}
	return !e.Gone && e.Status >= 500
}

// AccountWide reports whether every request to the account will fail in the same
// way for now: the desk is away, refuses the credentials or limits the account.
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

// errHeld is the cause of a failure without a request.
var errHeld = errors.New("the desk has asked to wait")

// mayRepeat reports whether an API may make the request again: it may succeed, and either had no
// effect or may have it twice.
func (e *APIError) mayRepeat(r Request) bool {
	return e.Temporary() && (!e.Ambiguous || r.Repeatable)
}

// IsAmbiguous reports whether err is of a request that may have had its effect.
func IsAmbiguous(err error) bool {
	var e *APIError
	return errors.As(err, &e) && e.Ambiguous
}

// IsGone reports whether err says that the conversation is deleted, or closed for
// good.
func IsGone(err error) bool {
	var e *APIError
	return errors.As(err, &e) && e.Gone
}

// isDial reports whether err is of a connection that was never made.
func isDial(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}
