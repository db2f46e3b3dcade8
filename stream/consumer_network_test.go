package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// onABadNetwork is a server of these entries behind a network that answers a third of the requests
// itself, with one of the troubles, and cuts every other connection after a few bytes.
func onABadNetwork(data []string, troubles ...answer) *fakeServer {
	ends := []error{nil, io.EOF, io.ErrUnexpectedEOF, errors.New("connection reset by peer")}
	return &fakeServer{answer: func(_ int, req *http.Request) (*http.Response, error) {
		if rand.IntN(3) == 0 {
			return troubles[rand.IntN(len(troubles))](req)
		}
		after, _ := strconv.Atoi(req.Header.Get("Last-Event-ID")) // without one, from the start
		text := events(after+1, data[after:min(after+40, len(data))]...).text
		text = text[:min(rand.IntN(1<<(6+rand.IntN(7))), len(text))]
		var chunks []chunk
		for len(text) > 0 {
			size := 1 + rand.IntN(len(text))
			chunks = append(chunks, chunk{time.Duration(rand.IntN(50)) * time.Second, text[:size]})
			text = text[size:]
		}
		return streaming(req, ends[rand.IntN(len(ends))], chunks...), nil
	}}
}

// Every entry is handled once and in order, however bad the network is. A refusal ends Run, and the
// next Run goes on at its cursor.
func TestConsumer_losesAndDoublesNothingOnABadNetwork(t *testing.T) {
	const sessions, entries = 12, 240
	data := make([]string, entries)
	for i := range data {
		data[i] = fmt.Sprintf(`{"type":"actions","session_id":"s%d","actions":[{"title":"%d","raw_url":%q}]}`,
			i%sessions, i/sessions, strings.Repeat("x", rand.IntN(1<<rand.IntN(9))))
	}
	troubles := []answer{down, hangs, says(204, ""), says(302, ""), says(307, "", "Location", fakeURL), says(429, "{}"),
		says(500, "oh"), says(503, "{}", "Retry-After", "1"), says(200, "<html>log in</html>", "Content-Type", "text/html"),
		sends(io.EOF), sends(io.EOF, chunk{text: "id: 9999999999999-0\nda"}),
		sends(nil, chunk{text: ": nothing\n\nretry: 1\n\n"})}
	for name, refusals := range map[string][]answer{
		"without refusals":         nil,
		"with refusals and cursor": {says(401, `{"detail":"no"}`), says(403, "{}"), says(404, "gone")},
	} {
		inBubble(t, name, func(t *testing.T) {
			var n notes
			opts := stream.ConsumerOptions{Client: onABadNetwork(data, append(refusals, troubles...)...).client(),
				Since: time.Unix(0, 0), MaxPending: 64, ParkAfter: time.Second}
			if refusals != nil {
				opts.Cursor = &memoryCursor{t: t}
			}
			c := startConsumer(t, fakeURL, stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
				if rand.IntN(100) == 0 {
					return errors.New("not now")
				}
				n.add("%s %s", b.SessionID, b.Actions[0].Title)
				return nil
			}, Gap: func(requested, _ string) { t.Errorf("a gap after %s", requested) }}, opts)
			for hours := 0; len(n.all()) < entries; hours++ {
				require.Less(t, hours, 10_000)
				time.Sleep(time.Hour)
				if c.hasEnded() {
					require.ErrorAs(t, c.err, new(*stream.RefusedError))
					c.ended = make(chan struct{})
					c.run()
				}
			}
			require.Len(t, n.all(), entries)
			for i := range sessions {
				requireOrder(t, n.all(), fmt.Sprint("s", i), entries/sessions)
			}
		})
	}
}
