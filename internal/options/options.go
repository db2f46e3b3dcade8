// Package options collects the mistakes in a constructor's arguments, so that all
// are reported together.
package options

import (
	"cmp"
	"errors"
	"strings"

	"github.com/liveactivity/liveactivity/activity/option"
)

// Mistakes are the mistakes in the arguments of one call. The zero value has
// none; set Package.
type Mistakes struct {
	Package string
	all     []error
}

// Require adds a mistake in an argument or option with that name, unless ok is
// true.
func (m *Mistakes) Require(ok bool, name, problem string) {
	if !ok {
		m.all = append(m.all, &option.Error{Package: m.Package, Option: name, Problem: problem})
	}
}

// Add adds an error, such as the mistakes in a part. It ignores nil.
func (m *Mistakes) Add(err error) { m.all = append(m.all, err) }

// Err returns the mistakes joined, or nil if there are none.
func (m *Mistakes) Err() error { return errors.Join(m.all...) }

// IsPrintable reports whether a credential is printable ASCII without spaces.
func IsPrintable(credential string) bool {
	return !strings.ContainsFunc(credential, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Split returns the errors joined in an error, recursively, or err itself if it joins none.
func Split(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, err := range joined.Unwrap() {
		all = append(all, Split(err)...)
	}
	return all
}

// Default returns an option's value, or byDefault if it is zero. A negative
// value is a mistake.
func Default[T cmp.Ordered](m *Mistakes, name string, value, byDefault T) T {
	var zero T
	m.Require(value >= zero, name, "must not be negative")
	return cmp.Or(value, byDefault)
}
