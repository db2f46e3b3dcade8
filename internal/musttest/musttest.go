// Package musttest is for tests of what constructors return: the value, or
// everything that is wrong with the arguments.
package musttest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/option"
)

// New returns the value that a constructor returned. It panics where that
// returned an error, too.
func New[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Mistakes returns the mistakes that a constructor reported, as PACKAGE.OPTION
// and in their order. It requires that every one is typed and says something.
func Mistakes(t *testing.T, err error) (all []string) {
	t.Helper()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, Mistakes(t, err)...)
		}
		return all
	}
	var mistake *option.Error
	require.True(t, errors.As(err, &mistake), "%T: %v", err, err)
	require.NotEmpty(t, mistake.Problem)
	return []string{mistake.Package + "." + mistake.Option}
}
