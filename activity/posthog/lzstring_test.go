package posthog_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A plus sign that a sender forgets to escape arrives as a space. Other senders use the alphabet for URLs.
func TestLZ64_decodesBodiesOfPostHogJSLite(t *testing.T) {
	s := newService()
	body := string(testdata(t, "lz64", "posthog-js-lite-2.5.0.body"))
	form, err := url.ParseQuery(body)
	require.NoError(t, err)
	text := form.Get("data")
	require.Regexp(t, `\+.*/.*=|/.*\+.*=`, text)
	inURL := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(text)
	for _, body := range []string{body, "compression=lz64&data=" + text, "compression=lz64&data=" + inURL} {
		w := s.post(door{path: "/ingest/e/?ip=1&v=2.5.0"}, []byte(body))
		assert.Zero(t, requireOK(t, w).Ignored)
		events := s.sink.take(shop)
		require.Len(t, events, 3)
		assert.Equal(t, "https://app.example.com/reports", events[0].Action.CanonicalURL)
		assert.Equal(t, "Page Load: Reports", events[0].Action.Title)
		assert.Equal(t, "Click Export CSV", events[1].Action.Title)
		assert.Equal(t, "ada@example.com", events[2].Email)
		assert.Equal(t, "user_42", events[2].UserID)
	}
}
