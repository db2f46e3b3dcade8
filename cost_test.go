package liveactivity_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const crowdSize = 9000

// crowd returns a request of page views of about 300 bytes, each of its own user and session: the
// costliest events for their size.
func crowd() []byte {
	var body bytes.Buffer
	body.WriteString(`{"batch":[`)
	padding := strings.Repeat("x", 130)
	for i := range crowdSize {
		fmt.Fprintf(&body, `{"event":"$pageview","uuid":"u%[1]d","distinct_id":"user%[1]d",`+
			`"properties":{"$session_id":"s%[1]d","$current_url":"https://app.example.com/p/%[1]d","x":%[2]q}},`, i, padding)
	}
	fmt.Fprintf(&body, `{}],"api_key":%q}`, acmeToken)
	return body.Bytes()
}

// Allocations are the largest cost of an event: they take time, and memory until it is collected.
func TestService_allocatesLittleForAnEvent(t *testing.T) {
	service := newService(io.Discard)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/e/", bytes.NewReader(zip(t, crowd())))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	service.Handler().ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	require.JSONEq(t, fmt.Sprintf(`{"status":1,"accepted":%d,"ignored":1,"reasons":{"malformed":1}}`, crowdSize),
		w.Body.String())
	allocations, bytes := (after.Mallocs-before.Mallocs)/crowdSize, (after.TotalAlloc-before.TotalAlloc)/crowdSize
	t.Logf("%d allocations, %d bytes", allocations, bytes)
	assert.LessOrEqual(t, allocations, uint64(32))
	assert.LessOrEqual(t, bytes, uint64(5_600)) // 300 of them its JSON, some 700 the race detector's
}

func zip(t testing.TB, body []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(body)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Bytes()
}
