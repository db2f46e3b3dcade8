package jsontext_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/jsontext"
)

func TestMarshal_keepsURLsReadable(t *testing.T) {
	got, err := jsontext.Marshal(map[string]string{"url": "https://app.example.com/?a=1&b=<2>"})
	require.NoError(t, err)
	assert.Equal(t, `{"url":"https://app.example.com/?a=1&b=<2>"}`, string(got))

	got, err = jsontext.Marshal("a\u0085b\u2028c\nd")
	require.NoError(t, err)
	assert.Equal(t, `"a\u0085b\u2028c\nd"`, string(got), "it is on one line, whatever a client takes for a line's end")

	_, err = jsontext.Marshal(math.NaN())
	assert.Error(t, err)
}
