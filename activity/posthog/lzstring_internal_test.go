package posthog

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

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

func TestLZReader(t *testing.T) {
	for text, want := range packed {
		require.True(t, isLZ64([]byte(text)), text)
		got, err := io.ReadAll(newLZReader(strings.NewReader(text)))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
		got, err = io.ReadAll(iotest.OneByteReader(newLZReader(strings.NewReader(text))))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

// endless is the digit A for ever: each code is a new character.
type endless struct{}

func (endless) ReadByte() (byte, error) { return 'A', nil }

func TestLZReader_boundsItsDictionary(t *testing.T) {
	n, err := io.CopyN(io.Discard, newLZReader(endless{}), maxEntries)
	require.ErrorIs(t, err, errLZ)
	assert.Equal(t, maxEntries/2, int(n)+1) // each makes two entries
}

func TestIsLZ64_takesNothingElse(t *testing.T) {
	for _, text := range []string{"", "N", "eyJh", "W3si", "H4sI", "N8", "Ns", "M4Ig", "n4Ig"} {
		assert.False(t, isLZ64([]byte(text)), text)
	}
}

func FuzzLZReader(f *testing.F) {
	for text := range packed {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = io.CopyN(io.Discard, newLZReader(strings.NewReader(text)), 1<<20)
	})
}
