package options_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/option"
	"github.com/liveactivity/liveactivity/internal/options"
)

func TestMistakes_areReportedAllAtOnceAndTyped(t *testing.T) {
	part := errors.New("a part's")
	m := options.Mistakes{Package: "stream"}
	m.Require(true, "Fine", "is wrong")
	m.Require(false, "write", "must not be nil")
	m.Add(nil)
	m.Add(part)
	assert.Equal(t, -1, options.Default(&m, "MaxPending", -1, 7))
	err := m.Err()
	require.EqualError(t, err, "stream: write must not be nil\na part's\nstream: MaxPending must not be negative")
	require.ErrorIs(t, err, part)
	var first *option.Error
	require.ErrorAs(t, err, &first)
	assert.Equal(t, &option.Error{Package: "stream", Option: "write", Problem: "must not be nil"}, first)
}

func TestDefault_refusesNaN(t *testing.T) {
	var m options.Mistakes
	options.Default(&m, "A", math.NaN(), 1)
	require.Error(t, m.Err())
}
