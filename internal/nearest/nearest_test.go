package nearest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/nearest"
)

func TestHint_namesTheNearest(t *testing.T) {
	known := []string{"url", "debounce_ms", "capture_tokens", "webhook_secret", "zendesk provision"}
	for name, want := range map[string]string{
		"webhook_secrets": "webhook_secret", "captureTokens": "capture_tokens", "Debounce": "debounce_ms", "URI": "url",
		"zendesk provison": "zendesk provision", "x": "", "": "", "secret": "", "token": "", strings.Repeat("x", 1<<20): "",
	} {
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		assert.Equal(t, want, nearest.Hint(name, known), "%.20s", name)
	}
	assert.Empty(t, nearest.Hint("x", nil))
}
