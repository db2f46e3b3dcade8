package stream_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/stream"
)

func TestHandler_endsAStreamWhoseKeyIsTakenAway(t *testing.T) {
	log := stream.NewMemoryLog(stream.Retention{})
	handler := stream.NewHandler(log, &stream.HandlerOptions{Heartbeat: 10 * time.Millisecond})
	keys := access.NewKeyring()
	require.NoError(t, keys.Add("ours", "acme"))
	require.NoError(t, keys.Add("theirs", "other"))
	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", keys.Require(access.Stream, handler))
	server := httptest.NewServer(mux)
	defer server.Close()

	open := func(productID, key string) *http.Response {
		request, err := http.NewRequest(http.MethodGet, server.URL+"/stream/"+productID, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		return response
	}
	ours, theirs := open("acme", "ours"), open("other", "theirs")
	defer ours.Body.Close()
	defer theirs.Body.Close()

	keys.RemoveProduct("acme")
	require.NoError(t, log.Append(t.Context(), "acme", []stream.Entry{{Data: []byte(`{"secret":1}`)}}))
	sent, err := io.ReadAll(ours.Body)
	require.NoError(t, err, "the stream ends cleanly")
	require.NotContains(t, string(sent), "secret")

	heartbeat := make([]byte, 64)
	for range 5 { // the other product's stream goes on
		_, err = theirs.Body.Read(heartbeat)
		require.NoError(t, err)
	}
	require.NoError(t, log.Close())
}
