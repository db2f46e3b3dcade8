package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPool_forgetsAKeyWithoutCallers(t *testing.T) {
	p := NewPool(10, 5, 100)
	release, err := p.Acquire(t.Context(), time.Now(), "a", 5, 1)
	require.NoError(t, err)
	_, err = p.Acquire(t.Context(), time.Now(), "a", 1, 1)
	require.ErrorIs(t, err, ErrBusy)
	assert.Len(t, p.keys, 1)
	release()
	assert.Empty(t, p.keys)
}
