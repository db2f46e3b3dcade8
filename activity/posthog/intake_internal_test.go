package posthog

import (
	"bytes"
	"compress/gzip"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// Passes over large bodies leave processors to what is small: when as many run as
// may, another waits for its turn, packed or not, and a small one does not.
func TestIntake_takesLargeBodiesInTurn(t *testing.T) {
	if n := int64(runtime.GOMAXPROCS(0)); n > 1 {
		assert.Less(t, maxPasses(), n)
	}
	synctest.Test(t, func(t *testing.T) {
		in := newIntake(DefaultMaxBody, DefaultMaxDecoded)
		receive := func(body []byte) *body {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/e/", bytes.NewReader(body))
			b, err := in.receive(w, r)
			require.NoError(t, err)
			return b
		}
		packed := func(json string) []byte {
			var buf bytes.Buffer
			z := gzip.NewWriter(&buf)
			_, err := z.Write([]byte(json))
			require.NoError(t, err)
			require.NoError(t, z.Close())
			return buf.Bytes()
		}
		pass := func(body []byte) (surveyed, scanned error) {
			b := receive(body)
			defer b.release()
			s, err := b.survey(t.Context())
			if err != nil {
				return err, err
			}
			return nil, b.scan(t.Context(), "acme", s, func(s *jsonscan.Scanner) error { s.Skip(); return s.Err() })
		}
		small, large := `{"api_key":"x"}`, `{"api_key":"x","y":"`+strings.Repeat("y", windowSize)+`"}`
		requirePasses := func(body []byte) {
			_, err := pass(body)
			require.NoError(t, err)
		}
		for _, body := range [][]byte{[]byte(small), packed(small), []byte(large), packed(large)} {
			requirePasses(body)
		}

		running, err := in.passes.Acquire(t.Context(), "globex", maxPasses(), 0)
		require.NoError(t, err)
		requirePasses([]byte(small))
		requirePasses(packed(small))
		began := time.Now()
		surveyed, scanned := pass([]byte(large))
		assert.NoError(t, surveyed, "plain bodies are surveyed as they stand")
		assert.ErrorIs(t, scanned, admission.ErrBusy)
		surveyed, _ = pass(packed(large))
		assert.ErrorIs(t, surveyed, admission.ErrBusy)
		assert.Equal(t, 2*maxWait, time.Since(began))
		running()
		requirePasses(packed(large))
	})
}
