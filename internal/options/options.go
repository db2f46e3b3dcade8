// Package options collects the mistakes in a constructor's arguments, so that all
// are reported at once.
package options

import (
	"cmp"
	"errors"

	"github.com/liveactivity/liveactivity/activity/option"
)

// Mistakes are the mistakes of one call. The zero value has none; set Package.
type Mistakes struct {
	Package string
	all     []error
}

// Require adds a mistake in an argument or option of that name unless ok.
func (m *Mistakes) Require(ok bool, name, problem string) {
	if !ok {
		m.all = append(m.all, &option.Error{Package: m.Package, Option: name, Problem: problem})
	}
}

// Add adds an error, such as the mistakes of a part; nil adds nothing.
func (m *Mistakes) Add(err error) { m.all = append(m.all, err) }

// Err returns the mistakes joined, nil where there are none.
func (m *Mistakes) Err() error { return errors.Join(m.all...) }

// Split returns the errors that are joined in an error, and in those again; err itself where
// it joins none.
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

// Default returns the value of an option, byDefault where it is zero. A
// negative value is a mistake.
func Default[T cmp.Ordered](m *Mistakes, name string, value, byDefault T) T {
	var zero T
	m.Require(value >= zero, name, "must not be negative")
	return cmp.Or(value, byDefault)
}
