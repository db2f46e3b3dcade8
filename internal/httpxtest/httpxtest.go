// Package httpxtest is for tests of HTTP handlers. It checks the form of their errors, and compares
// the handlers with the minimum work of net/http.
package httpxtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/waittest"
)

// Detail requires that a response is an error in the common form of all
// handlers, and returns its sentence.
func Detail(t testing.TB, status int, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, status, r.StatusCode, "%s", body)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.EqualValues(t, len(body), r.ContentLength)
	var problem map[string]string
	require.NoError(t, json.Unmarshal(body, &problem))
	require.Len(t, problem, 1)
	require.NotEmpty(t, problem["detail"])
	return problem["detail"]
}

// Reporter records an answer and the error behind it: it implements
// [httpx.Reporter].
type Reporter struct {
	*httptest.ResponseRecorder
	Err *httpx.Error // nil for none
}

// NewReporter returns a Reporter without an answer.
func NewReporter() *Reporter { return &Reporter{ResponseRecorder: httptest.NewRecorder()} }

// Report implements [httpx.Reporter].
func (r *Reporter) Report(e *httpx.Error) { r.Err = e }

// Compare is a benchmark of GET requests for a target: to the handler, and to one that writes the
// same bytes as a constant, in short alternating turns, so that both see the same machine. It
// reports the ratio of their requests per second, the handler's divided by the constant's, over
// all turns and as the turns' median.
func Compare(b *testing.B, h http.Handler, target string, header http.Header) {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(b, http.StatusOK, w.Code)
	constant := w.Body.Bytes()
	turns(b, request(b, h, target, header), request(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(constant)))
		_, _ = w.Write(constant)
	}), target, header))
}

// request returns a request to a server that serves the handler.
func request(b *testing.B, h http.Handler, target string, header http.Header) *http.Request {
	server := httptest.NewServer(h)
	b.Cleanup(server.Close)
	r, err := http.NewRequest(http.MethodGet, server.URL+target, nil)
	require.NoError(b, err)
	r.Header = header
	return r
}

// do makes a request.
func do(b *testing.B, client *http.Client, r *http.Request) {
	response, err := client.Do(r.Clone(b.Context()))
	if err != nil {
		b.Error(err)
		return
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		b.Error(response.Status, err)
	}
}

// turns makes turns of both requests: the constant's before and after the handler's.
func turns(b *testing.B, handlers, constants *http.Request) {
	const clients, requests = 8, 25 // per client and turn
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	b.Cleanup(client.CloseIdleConnections)
	turn := func(r *http.Request) time.Duration {
		start := time.Now()
		waittest.Together(clients, func(int) {
			for range requests {
				do(b, client, r)
			}
		})
		return time.Since(start)
	}
	turn(handlers)
	turn(constants)
	var ours, constant time.Duration
	var ratios []float64
	for b.Loop() {
		before, took, after := turn(constants), turn(handlers), turn(constants)
		ours, constant = ours+took, constant+(before+after)/2
		ratios = append(ratios, float64(before+after)/2/float64(took))
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(constant)/float64(ours), "ratio")
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
	b.ReportMetric(float64(b.N)*clients*requests/ours.Seconds(), "requests/s")
	b.ReportMetric(0, "ns/op") // a turn of both means nothing
}
