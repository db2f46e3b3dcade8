package outage_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/outage"
)

func TestLevel_isDebugForMarkedErrors(t *testing.T) {
	marked := outage.Mark(io.EOF)
	assert.Equal(t, slog.LevelDebug, outage.Level(fmt.Errorf("read: %w", marked), slog.LevelWarn))
	assert.Equal(t, slog.LevelWarn, outage.Level(io.EOF, slog.LevelWarn))
	assert.ErrorIs(t, marked, io.EOF)
	assert.Equal(t, io.EOF.Error(), marked.Error())
	assert.NoError(t, errors.Unwrap(marked), "a library that unwraps an error keeps the mark")
}
