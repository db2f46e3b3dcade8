// Package outage marks the errors of unreachable storage. The storage logs an outage
// itself, at its own pace: an outage makes one log line, rather than one for every
// caller.
package outage

import (
	"errors"
	"log/slog"
)

// mark unwraps to a list, so a library that replaces an error with its cause keeps the
// mark.
type mark struct{ error }

func (m mark) Unwrap() []error { return []error{m.error} }

// Mark returns the error with a mark.
func Mark(err error) error { return mark{err} }

// Level returns the level at which to log an error: debug if the error or one of its
// causes is marked, and usual otherwise.
func Level(err error, usual slog.Level) slog.Level {
	if _, ok := errors.AsType[mark](err); ok {
		return slog.LevelDebug
	}
	return usual
}
