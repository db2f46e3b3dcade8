// Package outage marks errors of storage that cannot be reached, which logs that itself,
// at its own pace: an outage makes one line, and not one of every caller.
package outage

import (
	"errors"
	"log/slog"
)

// mark unwraps to a list: a library that replaces an error by its cause keeps the mark.
type mark struct{ error }

func (m mark) Unwrap() []error { return []error{m.error} }

// Mark returns the error, marked.
func Mark(err error) error { return mark{err} }

// Level returns the level to log an error at: debug if it or a cause of it is marked.
func Level(err error, usual slog.Level) slog.Level {
	var m mark
	if errors.As(err, &m) {
		return slog.LevelDebug
	}
	return usual
}
