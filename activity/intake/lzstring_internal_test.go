package intake

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packed are texts and what the lz-string of posthog-js-lite makes of them.
var packed = map[string]string{
	"N4XyA===":                     "{}",
	"NoXSA===":                     "[]",
	"NoRgukA=":                     "[1]",
	"N4IghiBcIOYE4DeD7BTEBfIA":     `{"a":"größe"}`,
	"N4IghiBcKKemg05oPKj4JAXyA===": `{"a":"日本語日本語"}`,
	"NoIkvBuAB7kAQIYHYBNqRAXSA===": `["😀😀 and 😀"]`,
	"NoIkvBsgukA=":                 "[\"\ufffd\"]", // half a character
	"NoIkvBtA":                     "[\"\ufffd",    // and nothing behind it
	"NoIghgRp1bP3RDlNS9bMe13P96EHFGknlmUXVW0312MPNOsvtucfde8/99BA4UNEoQAXSA==": `["` + strings.Repeat("ab", 500) + `"]`,
}

func TestUnpackLZ64(t *testing.T) {
	for text, want := range packed {
		require.True(t, isLZ64([]byte(text)), text)
		got, err := unpackLZ64([]byte(text), int64(len(want)))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
		_, err = unpackLZ64([]byte(text), int64(len(want)-1))
		require.ErrorContains(t, err, "unpacks to more")
	}
}

// Zeros are the dearest digits: each code is a new character, which enters twice.
func TestUnpackLZ64_takesMemoryInProportion(t *testing.T) {
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := unpackLZ64([]byte(strings.Repeat("A", 1<<20)), 8<<20)
			assert.ErrorIs(b, err, errLZ)
		}
	}).AllocedBytesPerOp()
	assert.Less(t, allocated, int64(64<<20))
}

func TestIsLZ64_takesNothingElse(t *testing.T) {
	for _, text := range []string{"", "N", "eyJh", "W3si", "H4sI", "N8", "Ns", "M4Ig", "n4Ig"} {
		assert.False(t, isLZ64([]byte(text)), text)
	}
}

func FuzzUnpackLZ64(f *testing.F) {
	for text := range packed {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := unpackLZ64([]byte(text), 1<<20)
		require.True(t, err != nil || len(got) <= 1<<20)
	})
}
