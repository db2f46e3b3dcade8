package retriever_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
)

// BenchmarkEvents is a retrieval of 50 chunks of two actions each over a loopback connection, from
// one of a thousand sessions. It is compared with the least work of net/http for as many bytes. The
// median ratio must be at least 0.7.
func BenchmarkEvents(b *testing.B) {
	s := musttest.New(retriever.NewStore(nil))
	const did = "User clicked Mark as done on the tasks detail page (https://app.acme.example/projects/:id/tasks/:id)"
	for range retriever.DefaultMaxChunks {
		for session := range 1000 {
			add(b, s, batch(fmt.Sprint("session_", session), fmt.Sprint("user_", session, "@acme.example"), did, did))
		}
	}
	const target, bearer = "/events?session_id=session_7", "Bearer " + apiKey
	mux := newMux(s, &retriever.HandlerOptions{APIKey: apiKey})
	require.Equal(b, retriever.DefaultMaxChunks,
		strings.Count(get(mux, target, "Authorization", bearer).Body.String(), `"title"`))
	httpxtest.Compare(b, mux, target, http.Header{"Authorization": {bearer}})
}
