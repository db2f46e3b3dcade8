// Package options collects the mistakes in a constructor's arguments, so that all
// are reported at once.
package options

import (
	"cmp"
	"errors"
)

// Error is one mistake in the arguments of a constructor. Public packages
// re-export it, so that callers can detect it with
// errors.As.
type Error struct {
	Package string // such as "stream"
	Option  string // the argument or the field of the options, such as "MaxPending"
	Problem string // completes a sentence that begins with Option: "must not be negative"
}

func (e *Error) Error() string { return e.Package + ": " + e.Option + " " + e.Problem }

// Mistakes are the mistakes of one call. The zero value has none; set Package.
type Mistakes struct {
	Package string
	all     []error
}

// Require adds a mistake unless ok.
func (m *Mistakes) Require(ok bool, option, problem string) {
	if !ok {
		m.all = append(m.all, &Error{m.Package, option, problem})
	}
}

// Add adds an error, such as the mistakes of a part; nil adds nothing.
func (m *Mistakes) Add(err error) { m.all = append(m.all, err) }

// Err returns the mistakes joined, nil where there are none.
func (m *Mistakes) Err() error { return errors.Join(m.all...) }

// Default returns the value of an option, byDefault where it is zero. A
// negative value is a mistake.
func Default[T cmp.Ordered](m *Mistakes, option string, value, byDefault T) T {
	var zero T
	m.Require(value >= zero, option, "must not be negative")
	if value == zero {
		return byDefault
	}
	return value
}
