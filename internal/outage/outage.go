// Package outage keeps an outage from filling the log. It marks the errors of unreachable
// storage, because the storage logs an outage itself: one line, rather than one for every
// caller. It also limits the lines of other failures that every caller meets.
package outage

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"
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

// Pace limits how often something is done, whatever happens to the clock of the machine.
// The zero value is ready; it is safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	last   time.Time
	causes map[string]time.Time // when Level returned a warning for each; see maxCauses
}

// Due reports whether the last time that it returned true is at least this long ago.
func (p *Pace) Due(least time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.last) < least {
		return false
	}
	p.last = now
	return true
}

// maxCauses is the number of different causes for which Level returns a warning within a minute.
const maxCauses = 8

// Level returns the level of a failure that every caller repeats: a warning once a minute for each
// cause, told apart by the error's text, and debug in between or if the error is marked.
func (p *Pace) Level(err error) slog.Level {
	level := Level(err, slog.LevelWarn)
	if level == slog.LevelWarn && !p.isNew(fmt.Sprint(err)) {
		level = slog.LevelDebug
	}
	return level
}

// isNew reports whether there was no warning for the cause within the last minute, and there may be
// one now.
func (p *Pace) isNew(cause string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.causes, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Minute })
	if _, known := p.causes[cause]; known || len(p.causes) == maxCauses {
		return false
	}
	if p.causes == nil {
		p.causes = map[string]time.Time{}
	}
	p.causes[cause] = now
	return true
}
