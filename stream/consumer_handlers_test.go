package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/stream"
)

// entryOf is an entry of a session with one action of this title.
func entryOf(sessionID, title string) string {
	return fmt.Sprintf(`{"type":"actions","session_id":%q,"actions":[{"title":%q}]}`, sessionID, title)
}

// everything returns handlers that note the titles of actions, the texts of summaries, and how many entries were raw.
func (n *notes) everything(raw *atomic.Int64) stream.Handlers {
	return stream.Handlers{
		Actions: func(_ context.Context, b activity.Batch) error {
			for _, a := range b.Actions {
				n.add("%s %s", b.SessionID, a.Title)
			}
			return nil
		},
		Summary: func(_ context.Context, s stream.Summary) error { n.add("%s sum %s", s.SessionID, s.Text); return nil },
		Raw:     func(context.Context, stream.Message) error { raw.Add(1); return nil },
	}
}

// A mistake in an entry concerns that entry only: the consumer counts it, logs it without its
// content, and goes on with the stream.
func TestConsumer_skipsMalformedEvents(t *testing.T) {
	const start = `{"type":"actions","session_id":"s1",`
	tests := map[string]string{
		"nothing":                      ``,
		"no JSON":                      `SECRET`,
		"null":                         `null`,
		"half an object":               start + `"actions":[{"title":"SECRET`,
		"no type":                      `{"session_id":"s1","actions":[{"title":"SECRET"}]}`,
		"a type that is a number":      `{"type":5,"session_id":"SECRET","actions":[{}]}`,
		"a session that is a number":   `{"type":"actions","session_id":5,"actions":[{"title":"SECRET"}]}`,
		"no actions":                   start + `"x":"SECRET"}`,
		"an action of another session": start + `"actions":[{"title":"a"},{"title":"SECRET","session_id":"s2"}]}`,
		"a summary that is no text":    `{"type":"summary","session_id":"s1","summary":["SECRET"]}`,
		"ten mebibytes deep":           start + `"x":` + strings.Repeat("[", 10<<20),
	}
	for name, data := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := serving(events(1, entryOf("s1", "first"), data, entryOf("s1", "last")))
			var n notes
			var raw atomic.Int64
			c := s.consume(t, n.everything(&raw), stream.ConsumerOptions{MaxEventBytes: 16 << 20})
			synctest.Wait()
			assert.ElementsMatch(t, []string{"s1 first", "s1 last"}, n.all())
			assert.EqualValues(t, 3, raw.Load(), "raw is everything")
			c.counts(t, map[string]float64{"skipped_total malformed": 1, "acknowledged_total": 2, "handler_failures_total": 0})
			assert.Contains(t, c.log.String(), "malformed entry")
			assert.NotContains(t, c.log.String(), "SECRET")
		})
	}
}

func TestConsumer_handlesOddButValidEvents(t *testing.T) {
	deep := strings.Repeat("[", 900) + strings.Repeat("]", 900)
	tests := map[string]struct{ data, want string }{
		"white space": {" {\t\"type\" : \"actions\" , \"session_id\" : \"s1\" ,\"actions\" : [ { \"title\" : " +
			"\"a\" } ] } ", "s1 a"},
		"another order": {`{"actions":[{"title":"a"}],"session_id":"s1","type":"actions"}`, "s1 a"},
		"half a pair": {`{"type":"act\u0069ons","session_id":"\ud800","actions":[{"title":"\udc00"}]}`,
			"\ufffd \ufffd"},
		"no session": {`{"type":"actions","actions":[{"title":"a"}]}`, " a"},
		"nested, but not too deep": {`{"type":"actions","session_id":"s1","x":` + deep + `,"actions":[{"title":"a"}]}`,
			"s1 a"},
		"bytes that are no text": {"{\"type\":\"actions\",\"session_id\":\"\\u0073\xff\xfe1\"," +
			"\"actions\":[{\"title\":\"\xff\xffa\"}]}", "s\ufffd1 \ufffda"},
		"a summary of no text": {"{\"type\":\"summary\",\"session_id\":\"s1\",\"summary\":\"\xff\"}", "s1 sum \ufffd"},
		"a summary of nothing": {`{"type":"summary"}`, " sum "},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := serving(events(1, test.data))
			var n notes
			handlers := n.everything(nil)
			handlers.Raw = func(_ context.Context, m stream.Message) error {
				assert.True(t, utf8.Valid(m.Data))
				return nil
			}
			c := s.consume(t, handlers, stream.ConsumerOptions{})
			synctest.Wait()
			assert.Equal(t, []string{test.want}, n.all())
			assert.Zero(t, c.counted(t, "skipped_total"))
		})
	}
}

func requireOrder(t testing.TB, lines []string, sessionID string, n int) {
	t.Helper()
	var got, want []string
	for _, line := range lines {
		if strings.HasPrefix(line, sessionID+" ") {
			got = append(got, line)
		}
	}
	for i := range n {
		want = append(want, fmt.Sprintf("%s %d", sessionID, i))
	}
	require.Equal(t, want, got)
}

type meter struct {
	io.ReadCloser
	read atomic.Int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.read.Add(int64(n))
	return n, err
}

// With MaxPending entries in flight the consumer reads nothing more, and the server waits. The rest
// comes when there is room.
func TestConsumer_readsNoMoreThanThereIsRoomFor(t *testing.T) {
	for _, maxPending := range []int{1, 2, 100} {
		inBubble(t, fmt.Sprint(maxPending), func(t *testing.T) {
			const entries = 5000
			all := events(1, many(entries, func(i int) string {
				return fmt.Sprintf(`{"type":"x","session_id":"%d","n":%d}`, i%7, i)
			})...)
			size := int64(len(all.text))
			body := &meter{}
			s := &fakeServer{answer: func(_ int, req *http.Request) (*http.Response, error) {
				res := streaming(req, nil, all)
				body.ReadCloser, res.Body = res.Body, body
				return res, nil
			}}
			proceed := make(chan struct{})
			var inHand, most, handled atomic.Int64
			c := s.consume(t, stream.Handlers{Raw: func(context.Context, stream.Message) error {
				if now := inHand.Add(1); now > most.Load() {
					most.Store(now)
				}
				<-proceed
				inHand.Add(-1)
				handled.Add(1)
				return nil
			}}, stream.ConsumerOptions{MaxPending: maxPending, IdleTimeout: forever})
			time.Sleep(time.Hour)
			assert.Less(t, body.read.Load(), size/2, "of %d", size)
			assert.EqualValues(t, min(maxPending, 7), inHand.Load())
			assert.InDelta(t, maxPending+1, c.counted(t, "pending"), 0, "one waits for room")
			close(proceed)
			synctest.Wait()
			assert.Equal(t, size, body.read.Load())
			assert.EqualValues(t, entries, handled.Load())
			assert.LessOrEqual(t, most.Load(), int64(min(maxPending, 7)))
			assert.Equal(t, 1, s.count())
		})
	}
}

// A handler that fails is called again, later and later, with the same entry and before the next of
// its session. Other sessions go on.
func TestConsumer_retriesAFailedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 7
		s := serving(events(1, entryOf("bad", "0"), entryOf("bad", "1"), entryOf("good", "0"), entryOf("good", "1")))
		var n, raw notes
		var calls []time.Time
		handlers := n.everything(nil)
		note := handlers.Actions
		handlers.Actions = func(ctx context.Context, b activity.Batch) error {
			if b.SessionID == "bad" && len(calls) <= failures {
				if calls = append(calls, time.Now()); len(calls) <= failures {
					require.Equal(t, "0", b.Actions[0].Title)
					return errors.New("store is down")
				}
			}
			return note(ctx, b)
		}
		handlers.Raw = func(_ context.Context, m stream.Message) error { raw.add("%s", m.ID); return nil }
		c := s.consume(t, handlers, stream.ConsumerOptions{IdleTimeout: forever, ParkAfter: forever})
		synctest.Wait()
		requireOrder(t, n.all(), "good", 2)
		assert.InDelta(t, 2, c.counted(t, "pending"), 0)
		time.Sleep(10 * time.Minute)
		requireOrder(t, n.all(), "bad", 2)
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			requireBackOff(t, calls[i+1].Sub(calls[i]), want*time.Second)
		}
		c.counts(t, map[string]float64{"handler_failures_total": failures, "acknowledged_total": 4})
		assert.ElementsMatch(t, []string{"1", "2", "3", "4"}, raw.all(), "Raw had been told already")
		assert.Contains(t, c.log.String(), "store is down")
	})
}

// Entries of a type without a handler are acknowledged at once.
func TestConsumer_countsEntriesAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inTurn(down, sends(io.EOF, chunk{text: "event: gap\ndata: {}\n\n"},
			events(1, entryOf("s1", "a"), `{"type":"summary"}`, "x")),
			sends(nil, events(4, entryOf("s1", "b"), `{"type":"y"}`)))
		c := s.consume(t, stream.Handlers{Actions: new(notes).everything(nil).Actions}, stream.ConsumerOptions{})
		time.Sleep(10 * time.Second)
		c.counts(t, map[string]float64{"connects_total": 2, "interruptions_total": 2, "gaps_total": 1, "skipped_total": 1,
			"acknowledged_total": 4, "acknowledged_total actions": 2, "acknowledged_total summary": 1,
			"acknowledged_total other": 1, "handler_failures_total": 0, "pending": 0})
	})
}
