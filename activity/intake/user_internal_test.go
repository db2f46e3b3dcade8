package intake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// No character makes an id longer in JSON than is counted; only control characters
// that have a short escape count as more.
func TestEscapes_areWhatJSONAdds(t *testing.T) {
	for r := range rune(0x3000) {
		data, err := jsontext.Marshal(string(r))
		require.NoError(t, err)
		added := len(data) - len(`""`) - len(string(r))
		if r < ' ' {
			assert.LessOrEqual(t, added, escapes(string(r)), "%q", r)
			continue
		}
		assert.Equal(t, added, escapes(string(r)), "%q", r)
	}
}
