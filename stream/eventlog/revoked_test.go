package eventlog_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func TestHandler_endsAStreamWhoseKeyIsTakenAway(t *testing.T) {
	log := musttest.New(memorylog.New(nil))
	keys := access.NewKeyring()
	handler := musttest.New(eventlog.NewHandler(log, &eventlog.HandlerOptions{Keys: keys, Heartbeat: 10 * time.Millisecond}))
	require.NoError(t, keys.Add("ours", "acme"))
	require.NoError(t, keys.Add("theirs", "other"))
	mux := http.NewServeMux()
	mux.Handle("GET /stream/{product_id}", handler)
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
	require.NoError(t, log.Append(t.Context(), "acme", []eventlog.Entry{{Data: []byte(`{"type":"summary","secret":1}`)}}))
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

// No stream has to wait for its next heartbeat to be ended.
func TestHandler_EndRevoked_endsIdleStreamsAtOnce(t *testing.T) {
	for name, hijacked := range map[string]bool{"hijacked": true, "HTTP/2": false} {
		t.Run(name, func(t *testing.T) {
			log := musttest.New(memorylog.New(nil))
			keys := access.NewKeyring()
			handler := musttest.New(eventlog.NewHandler(log, &eventlog.HandlerOptions{Keys: keys, Heartbeat: time.Hour}))
			require.NoError(t, keys.Add("ours", "acme"))
			require.NoError(t, keys.Add("theirs", "other"))
			mux := http.NewServeMux()
			mux.Handle("GET /stream/{product_id}", handler)
			server := httptest.NewUnstartedServer(mux)
			server.EnableHTTP2 = !hijacked
			if server.StartTLS(); hijacked {
				require.NotNil(t, server.TLS)
			}
			defer server.Close()
			open := func(productID, key string) *http.Response {
				request, err := http.NewRequest(http.MethodGet, server.URL+"/stream/"+productID, nil)
				require.NoError(t, err)
				request.Header.Set("Authorization", "Bearer "+key)
				response, err := server.Client().Do(request)
				require.NoError(t, err)
				return response
			}
			ours, theirs := open("acme", "ours"), open("other", "theirs")
			handler.EndRevoked() // nothing was removed
			keys.RemoveProduct("acme")
			handler.EndRevoked()
			sent, err := io.ReadAll(ours.Body)
			require.NoError(t, err)
			require.Equal(t, "retry: 1000\n", string(sent))
			require.NoError(t, log.Append(t.Context(), "other", []eventlog.Entry{{Data: []byte(`{"type":"summary"}`)}}))
			require.NoError(t, log.Close())
			sent, err = io.ReadAll(theirs.Body)
			require.NoError(t, err)
			require.Contains(t, string(sent), `data: {"type":"summary"}`, "the other product's stream goes on")
			ours.Body.Close()
			theirs.Body.Close()
			require.NoError(t, handler.Wait(t.Context()))
		})
	}
}
