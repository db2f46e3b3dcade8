// Package musttest is for tests of constructors: it returns the value, or all mistakes in the
// arguments.
package musttest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/internal/options"
)

// New returns the value that a constructor returned. It panics if the constructor also
// returned an error.
func New[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Mistakes returns the mistakes that a constructor reported, as PACKAGE.OPTION, in order. It
// requires that every mistake is typed and has a text.
func Mistakes(t *testing.T, err error) (all []string) {
	t.Helper()
	for _, err := range options.Split(err) {
		mistake, ok := errors.AsType[*option.Error](err)
		require.True(t, ok, "%T: %v", err, err)
		require.NotEmpty(t, mistake.Problem)
		all = append(all, mistake.Package+"."+mistake.Option)
	}
	return all
}
