package intake

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packed maps outputs of posthog-js-lite's lz-string to their texts.
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

var errNoRoom = errors.New("no room")

func noRoom() error { return errNoRoom }
func room() error   { return nil }

// A long text waits for room before it is unpacked, as gzip does.
func TestUnpackLZ64_asksForRoom(t *testing.T) {
	unpack := func(digits int, limit int64, room func() error) error { // each code of zeros is a new character
		_, err := (&unpacker{limit: limit, room: room}).unpackLZ64(bytes.Repeat([]byte("A"), digits))
		return err
	}
	require.ErrorIs(t, unpack(40_000, 8<<20, noRoom), errLZ, "it breaks off")
	require.ErrorIs(t, unpack(1<<20, 8<<20, noRoom), errNoRoom)
	require.ErrorContains(t, unpack(1<<20, 1<<15, room), "unpacks to more")
}

func TestUnpackLZ64(t *testing.T) {
	for text, want := range packed {
		require.True(t, isLZ64([]byte(text)), text)
		got, err := (&unpacker{limit: int64(len(want)), room: noRoom}).unpackLZ64([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
		_, err = (&unpacker{limit: int64(len(want) - 1), room: noRoom}).unpackLZ64([]byte(text))
		require.ErrorContains(t, err, "unpacks to more")
	}
}

// Text that breaks off or has a foreign byte is refused. A flipped bit gives an error or a text within the limit.
func TestUnpackLZ64_refusesDamagedBodies(t *testing.T) {
	unpack := func(text string) ([]byte, error) {
		return (&unpacker{limit: 1 << 20, room: room}).unpackLZ64([]byte(text))
	}
	for text := range packed {
		for i := range len(strings.TrimRight(text, "=")) - 4 {
			_, err := unpack(text[:i])
			require.ErrorIs(t, err, errLZ, text[:i])
			_, err = unpack(text[:i] + "!" + text[i+1:])
			require.ErrorIs(t, err, errLZ, text[:i])
			damaged := []byte(text)
			damaged[i] ^= 1
			got, err := unpack(string(damaged))
			require.True(t, err != nil || len(got) <= 1<<20)
		}
	}
	for _, text := range []string{"w", "N7o"} { // their first and second code name no entry yet
		_, err := unpack(text)
		require.ErrorIs(t, err, errLZ, text)
	}
}

// Zeros cost the most memory per digit: each code is a new character with two entries.
func TestUnpackLZ64_takesMemoryInProportion(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := (&unpacker{limit: 8 << 20, room: room}).unpackLZ64(bytes.Repeat([]byte("A"), 1<<20))
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, errLZ)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
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
		got, err := (&unpacker{limit: 1 << 20, room: room}).unpackLZ64([]byte(text))
		require.True(t, err != nil || len(got) <= 1<<20)
	})
}
