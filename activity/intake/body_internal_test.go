package intake

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/admission"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

var anySource = NewSource(Form{}, func(*Reader) Decoder { return nil })

// Passes over large bodies leave processors to small ones. At the limit of running passes another
// large body waits for its turn, packed or not, and a small one does not wait.
func TestIntake_takesLargeBodiesInTurn(t *testing.T) {
	if n := int64(runtime.GOMAXPROCS(0)); n > 1 {
		assert.Less(t, admission.MaxPasses(), n)
	}
	synctest.Test(t, func(t *testing.T) {
		in := musttest.New(New(noSink{}, noProducts{}, nil))
		packed := func(json string) []byte { return gzipped(t, json) }
		pass := func(body []byte) (unpacked, admitted error) {
			b := received(t, in, body)
			defer b.release()
			if err := b.open(t.Context(), anySource); err != nil {
				return err, err
			}
			return nil, b.admit(t.Context())
		}
		requirePasses := func(body []byte) {
			musttest.New(pass(body))
		}
		small, large := `{"api_key":"x"}`, `{"api_key":"x","y":"`+strings.Repeat("y", smallBody)+`"}`
		// A body that announces less than it holds grows more than once, in one turn.
		modest := append(packed(strings.TrimSuffix(large, `"}`)+strings.Repeat("y", 8*smallBody)), packed(`"}`)...)
		for _, body := range [][]byte{[]byte(small), packed(small), []byte(large), packed(large), modest} {
			requirePasses(body)
		}

		running := musttest.New(in.room.Passes.Acquire(t.Context(), time.Now(), "globex", admission.MaxPasses(), 0))
		requirePasses([]byte(small))
		requirePasses(packed(small))
		began := time.Now()
		unpacked, admitted := pass([]byte(large))
		assert.NoError(t, unpacked, "plain bodies are JSON as they stand")
		assert.ErrorIs(t, admitted, admission.ErrBusy)
		unpacked, _ = pass(packed(large))
		assert.ErrorIs(t, unpacked, admission.ErrBusy)
		assert.Equal(t, 2*httpx.MaxWait, time.Since(began))
		running()
		requirePasses(packed(large))
	})
}

// received returns a request of acme with that body.
func received(t *testing.T, in *Intake, body []byte) *taking {
	b := &taking{in: in, productID: "acme"}
	require.NoError(t, b.receive(httptest.NewRecorder(), httptest.NewRequest("POST", "/", bytes.NewReader(body)), 1<<20))
	return b
}

func gzipped(t *testing.T, json string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	musttest.New(z.Write([]byte(json)))
	require.NoError(t, z.Close())
	return buf.Bytes()
}

// A large body is checked in the turn in which it was unpacked. The turn ends before a token is looked up.
func TestIntake_checksLargeBodiesInTurn(t *testing.T) {
	in := musttest.New(New(noSink{}, noProducts{}, nil))
	isFree := func() bool {
		release, err := in.room.Passes.Acquire(t.Context(), time.Now(), "globex", admission.MaxPasses(), 0)
		if err == nil {
			release()
		}
		return err == nil
	}
	checked := 0
	source := NewSource(Form{Trim: func(string) string {
		checked++
		assert.False(t, isFree())
		return ""
	}}, func(*Reader) Decoder { return nil })
	b := received(t, in, gzipped(t, "["+strings.Repeat(" ", smallBody)+"{}]"))
	assert.NoError(t, b.open(t.Context(), source))
	assert.True(t, isFree())
	b.release()
	assert.Equal(t, 2, checked, "of two tokens")
}

// A request gives its room back in every outcome.
func TestIntake_releasesItsRoom(t *testing.T) {
	in := musttest.New(New(noSink{}, refusing{}, &Options{MaxDecoded: 1 << 20}))
	bomb := gzipped(t, string(make([]byte, 2<<20)))
	for _, body := range [][]byte{bomb, bomb[:len(bomb)-9],
		[]byte(`{"a":"` + strings.Repeat("a", 100_000) + `"}`), []byte("x")} {
		b := received(t, in, body)
		if b.open(t.Context(), anySource) == nil {
			require.NoError(t, b.admit(t.Context()))
			b.decoded()
		}
		b.release()
		b.release()
	}
	refused := func() *http.Request {
		r := httptest.NewRequest("POST", "/webhook/acme", strings.NewReader("[]"))
		r.SetPathValue("product_id", "acme")
		r.Header = http.Header{"X-Webhook-Secret": {"wrong"}, "Origin": {"https://app.acme.example"}}
		return r
	}
	_, err := in.webhook(httptest.NewRecorder(), refused(), []*Source{anySource})
	require.ErrorIs(t, err, errSecret)
	_, err = in.Capture(httptest.NewRecorder(), refused(), anySource, Call{})
	require.Error(t, err)
	require.NoError(t, in.Discard(httptest.NewRecorder(), refused(), anySource, 100))
	for _, pool := range []*admission.Pool{in.room.Decoded, in.room.Passes} {
		release, err := pool.Acquire(t.Context(), time.Now(), "globex", 1<<40, 0)
		require.NoError(t, err, "all of a share is free")
		release()
	}
	all := in.room.Arriving.Begin(func() {})
	defer all.Release()
	require.NoError(t, all.Grow(in.room.Arriving.Limit()))
}

// Recordings of apps are not looked at, so they are not kept, either: however many come, they take no room from events.
func TestIntake_discardsBodiesWithoutAPageInNoRoom(t *testing.T) {
	in := musttest.New(New(noSink{}, noProducts{}, nil))
	all := in.room.Arriving.Begin(func() {})
	defer all.Release()
	require.NoError(t, all.Grow(in.room.Arriving.Limit()))
	all.Arrived()
	discard := func(body io.Reader, origin string) error {
		r := httptest.NewRequest("POST", "/s/", iotest.OneByteReader(body))
		r.Header.Set("Origin", origin)
		return in.Discard(httptest.NewRecorder(), r, nil, 100)
	}
	bytes := func(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }
	assert.NoError(t, discard(bytes(100), ""))
	assert.ErrorIs(t, discard(bytes(100), "https://app.acme.example"), admission.ErrBusy)
	for status, body := range map[int]io.Reader{
		http.StatusRequestEntityTooLarge: bytes(101),
		http.StatusRequestTimeout:        io.MultiReader(bytes(50), iotest.ErrReader(os.ErrDeadlineExceeded)),
		http.StatusBadRequest:            io.MultiReader(bytes(50), iotest.ErrReader(io.ErrUnexpectedEOF)),
	} {
		var refused *httpx.Error
		require.ErrorAs(t, discard(body, ""), &refused)
		assert.Equal(t, status, refused.Status)
	}
}

type noSink struct{ activity.Sink }

type noProducts struct{ Products }

// refusing has a product that lets nobody in.
type refusing struct{ Products }

func (refusing) ProductOfID(string) (Product, bool, error) {
	return Product{WebhookSecret: "s3cr3t"}, true, nil
}
func (refusing) ProductOfToken(string) (string, bool, error) { return "", false, nil }
func (refusing) Refresh(string) error                        { return nil }
