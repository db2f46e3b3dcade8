package jsontext_test

import (
	"encoding/json"
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

func TestID_isAStringOrAnInteger(t *testing.T) {
	for text, want := range map[string]jsontext.ID{`"7"`: "7", `"a b"`: "a b",
		`12345678901234567890`: "12345678901234567890", `null`: ""} {
		var id jsontext.ID
		require.NoError(t, json.Unmarshal([]byte(text), &id), text)
		assert.Equal(t, want, id)
	}
	for _, text := range []string{`1.5`, `-1`, `1e3`, `true`, `{}`, `[]`} {
		var id jsontext.ID
		assert.Error(t, json.Unmarshal([]byte(text), &id), text)
	}
}

func TestAppendSeconds_isTheShortestDecimal(t *testing.T) {
	for micros, want := range map[int64]string{0: "0", 1: "0.000001", -1: "-0.000001", 1_000_000: "1", 10_500_000: "10.5",
		1_700_000_000_123_450: "1700000000.12345", -1_700_000_000_000_001: "-1700000000.000001"} {
		assert.Equal(t, "before"+want, string(jsontext.AppendSeconds([]byte("before"), micros)))
	}
}
