package eventlog_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/httpxtest"
	"github.com/liveactivity/liveactivity/internal/leaktest"
	"github.com/liveactivity/liveactivity/internal/metrics"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

func newMemoryLog() *memorylog.Log {
	return musttest.New(memorylog.New(nil))
}

// openBolt opens a log that lasts.
func openBolt(t testing.TB) *boltlog.Log {
	t.Helper()
	log := musttest.New(boltlog.Open(t.TempDir(), &boltlog.Options{TailBytes: 64 << 10}))
	t.Cleanup(func() { require.NoError(t, log.Release()) })
	return log
}

// The bytes on the wire are part of the contract.
func TestHandler_writesFramesByteForByte(t *testing.T) {
	log := newMemoryLog()
	s := serve(t, takenOver, log, nil)
	entries := eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0),
		eventlog.Entry{Data: []byte(`{"type":"summary","title":"größer ☕ <b>"}`)})
	conn := s.raw(t, "GET /stream/acme?since=0")
	s.hasReaders(t, 1)
	require.NoError(t, log.Close())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	head, body, found := strings.Cut(string(answer), "\r\n\r\n")
	require.True(t, found)
	require.True(t, strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n"), head)
	require.Contains(t, head, "\r\nConnection: close", "the body ends with the connection")
	require.Equal(t, "retry: 1000\nid: "+entries[0].ID.String()+"\ndata: {\"type\":\"summary\",\"session_id\":\"a\","+
		"\"n\":0}\n\n"+
		"id: "+entries[1].ID.String()+"\ndata: {\"type\":\"summary\",\"title\":\"größer ☕ <b>\"}\n\n", body)
}

func TestHandler_answersWithTheHeadOfAnEventStream(t *testing.T) {
	for _, tr := range append(transports, flushOnly) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(method+" by "+tr.name, func(t *testing.T) {
				s := serve(t, tr, newMemoryLog(), nil)
				response := s.answer(t, method, "", nil)
				require.Equal(t, http.StatusOK, response.StatusCode)
				for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Request-Id": "r1",
					"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"} {
					require.Equal(t, want, response.Header.Get(name))
				}
				date, err := http.ParseTime(response.Header.Get("Date"))
				require.NoError(t, err)
				require.WithinDuration(t, time.Now(), date, time.Minute)
			})
		}
	}
}

// On a server whose clock differs from the clock of the IDs, a client may begin anew at the date of
// its stream, and the lag goes by the log's clock.
func TestHandler_goesByTheClockOfTheLog(t *testing.T) {
	byEach(t, transports, func(t *testing.T, tr transport) {
		log := &watchtest.Log{Log: newMemoryLog(), Skew: time.Hour}
		s := serve(t, tr, log, nil)
		sub := s.subscribe(t, "", nil)
		date, err := http.ParseTime(sub.response.Header.Get("Date"))
		require.NoError(t, err)
		require.WithinDuration(t, log.Now(), date, time.Minute)
		sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0)))
		waittest.Until(t, "the lag is measured", func() bool { return s.metric(t, "liveactivity_stream_lag_seconds") > 0 })
		require.InDelta(t, 3600, s.metric(t, "liveactivity_stream_lag_seconds"), 60)
	})
}

// The lag is never negative, even if the clock was set back and IDs are ahead of it.
func TestHandler_hasNoNegativeLag(t *testing.T) {
	log := &watchtest.Log{Log: newMemoryLog(), Skew: -time.Hour}
	s := serve(t, takenOver, log, nil)
	sub := s.subscribe(t, "", nil)
	sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0)))
	sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("b", 0))) // the lag of a is measured
	require.Zero(t, s.metric(t, "liveactivity_stream_lag_seconds"))
}

// The answer to HEAD has no body, and the connection can be used again.
func TestHandler_HEAD_opensNoStream(t *testing.T) {
	s := serve(t, takenOver, newMemoryLog(), nil)
	const request = "HEAD /stream/acme"
	conn := s.raw(t, request)
	require.NoError(t, conn.SetDeadline(time.Now().Add(waittest.Patience)))
	answers := bufio.NewReader(conn)
	for range 2 {
		response, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Zero(t, answers.Buffered())
		require.NoError(t, errorOf(io.WriteString(conn, request+" HTTP/1.1\r\nHost: test\r\n\r\n")))
	}
	require.Zero(t, s.readers(t))
	require.NoError(t, s.handler.Wait(t.Context()))
}

// An entry of a type that clients do not know is for views inside the service: no reader is sent
// it, and every cursor passes it.
func TestHandler_sendsOnlyTheTypesThatClientsKnow(t *testing.T) {
	byEach(t, transports, func(t *testing.T, tr transport) {
		log := newMemoryLog()
		s := serve(t, tr, log, nil)
		internal := eventlog.Entry{SessionID: "a", Data: []byte(`{"type":"link","session_id":"a"}`)}
		first := eventlogtest.Append(t, log, product, internal, eventlogtest.Entry("a", 0), internal,
			eventlog.Entry{SessionID: "a", Data: []byte(`{"n":1,"type":"summary"}`)},
			eventlog.Entry{Data: []byte(`{}`)}, internal)
		live := s.subscribe(t, "", nil)
		subs := []*subscription{live, s.subscribe(t, "session_id=a", nil)}
		all := s.subscribe(t, "since=0", nil)
		all.receives(t, []eventlog.Entry{first[1], first[3]})
		late := s.subscribe(t, "", lastEventID(first[2].ID.String()))
		late.receives(t, first[3:4])
		then := eventlogtest.Append(t, log, product, internal, eventlogtest.Entry("a", 1))
		for _, sub := range append(subs, all, late) {
			sub.receives(t, then[1:])
		}
	})
}

func TestHandler_sendsRetryOnceAndThenEntriesAsTheyCome(t *testing.T) {
	byEach(t, append(transports, takenTLS, flushOnly), func(t *testing.T, tr transport) {
		log := newMemoryLog()
		s := serve(t, tr, log, nil)
		eventlogtest.Append(t, log, product, eventlogtest.Entry("before", 0))
		sub := s.subscribe(t, "", nil)
		for n := range 5 {
			sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("a", n)))
		}
		sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entries("b", 300)...))
		large := eventlogtest.Append(t, log, product, eventlogtest.Sized(eventlogtest.Entry("large", 0), 300<<10),
			eventlogtest.Entry("large", 1))
		sub.receives(t, large)
		require.NoError(t, log.Close())
		sub.ends(t)
	})
}

// resumption is a service whose log has got ten entries and retains the last seven.
type resumption struct {
	*service
	entries []eventlog.Entry
}

func newResumption(t *testing.T, tr transport) resumption {
	t.Helper()
	log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 80 << 10}}))
	var entries []eventlog.Entry
	for n := range 10 {
		entries = append(entries, eventlogtest.Append(t, log, product,
			eventlogtest.Sized(eventlogtest.Entry("a", n), 9<<10))...)
	}
	require.Equal(t, entries[3].ID, eventlogtest.Bounds(t, log, product).Oldest)
	return resumption{serve(t, tr, log, nil), entries}
}

func (r resumption) oldest() string { return r.entries[3].ID.String() }

func TestHandler_choosesWhereToStart(t *testing.T) {
	ago := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).Unix(), 10) }
	for name, c := range map[string]struct {
		id, header, since string // ids are numbers of entries
		want              int    // the number of the first entry sent
	}{
		"by default with what comes":       {want: 10},
		"after the last id":                {id: "9", want: 10},
		"after the first retained id":      {header: "3", want: 4},
		"after the last id dropped":        {id: "2", want: 3}, // it still says which came after it
		"the header comes before the id":   {header: "6", id: "4", want: 7},
		"the header comes before the time": {header: "6", since: "0", want: 7},
		"an id comes before the time":      {id: "6", since: "0", want: 7},
		"a time unused may be anything":    {id: "6", since: "tomorrow", want: 7},
		"since ever, which is no gap":      {since: "0", want: 3},
		"since before the epoch":           {since: "-1000", want: 3},
		"since a moment ago":               {since: ago(time.Minute), want: 3},
		"since a fraction":                 {since: "1.5e1", want: 3},
		"since a time in the future":       {since: ago(-time.Hour), want: 10},
		"since the far future":             {since: "1e12", want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResumption(t, takenOver)
			id := func(number string) string {
				i, err := strconv.Atoi(number)
				if err != nil {
					return ""
				}
				return r.entries[i].ID.String()
			}
			sub := r.subscribe(t, query("last_event_id", id(c.id), "since", c.since), lastEventID(id(c.header)))
			require.NoError(t, r.log.Close())
			sub.receives(t, r.entries[c.want:])
			sub.ends(t)
		})
	}
}

// A resume that cannot be read must not silently become a stream from now on.
func TestHandler_refusesAQueryItCannotRead(t *testing.T) {
	for _, tr := range transports {
		s := serve(t, tr, newMemoryLog(), nil)
		for _, raw := range []string{"last_event_id=%zz", "since=%zz", "since=0;x=1"} {
			response := s.answer(t, http.MethodGet, raw, nil)
			require.Contains(t, httpxtest.Detail(t, http.StatusBadRequest, response), "query string")
		}
		for _, since := range []string{"yesterday", "NaN", "Inf", "-Inf", "1e13", "-1e13", "1e999", "2026-01-01", "12s", " 1",
			"0,5", "\x00", strings.Repeat("9", 400)} {
			t.Run(fmt.Sprintf("%.20q by %s", since, tr.name), func(t *testing.T) {
				response := s.answer(t, http.MethodGet, query("since", since), nil)
				require.Contains(t, httpxtest.Detail(t, http.StatusBadRequest, response), "since")
			})
		}
	}
}

func TestHandler_answers503WhileStorageIsDown(t *testing.T) {
	byEach(t, transports, func(t *testing.T, tr transport) {
		log := &watchtest.Log{Log: newMemoryLog()}
		s := serve(t, tr, log, nil)
		log.Down.Store(true)
		response := s.answer(t, http.MethodGet, "", nil)
		require.NotEmpty(t, response.Header.Get("Retry-After"))
		require.Contains(t, httpxtest.Detail(t, http.StatusServiceUnavailable, response), "repeat")
		require.Zero(t, s.readers(t))
	})
}

// An ID that the log cannot resume after is answered with a gap that repeats it, and with everything retained.
func TestHandler_answersAnIDItCannotResumeAfterWithAGap(t *testing.T) {
	r := newResumption(t, takenOver)
	newest := r.entries[9].ID
	for name, id := range map[string]string{
		"no longer retained":      r.entries[0].ID.String(),
		"just no longer retained": r.entries[1].ID.String(),
		"long gone":               "1-0",
		"zero":                    "0-0",
		"never given":             eventlog.ID{Milli: newest.Milli, Seq: newest.Seq + 1}.String(),
		"in the future":           eventlog.ID{Milli: newest.Milli + 3_600_000}.String(),
		"the largest there is":    "18446744073709551615-18446744073709551615",
		"too large":               "18446744073709551616-0",
		"a word":                  "garbage",
		"of another service":      "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
		"quotes":                  `1"},"oldest":"0-0`,
		"mark-up":                 "</script><script>alert(1)</script>",
		"not ASCII":               "größer ☕",
	} {
		t.Run(name, func(t *testing.T) {
			for _, sub := range []*subscription{r.subscribe(t, "", lastEventID(id)),
				r.subscribe(t, query("last_event_id", id), nil)} {
				require.Equal(t, map[string]string{"requested": id, "oldest": r.oldest()}, sub.gap(t))
				sub.receives(t, r.entries[3:])
			}
		})
	}
	s := serve(t, takenOver, newMemoryLog(), nil)
	sub := s.subscribe(t, "", lastEventID("1-1"))
	require.Equal(t, map[string]string{"requested": "1-1", "oldest": ""}, sub.gap(t), "of an empty log")
	sub.receives(t, eventlogtest.Append(t, s.log, product, eventlogtest.Entry("a", 0)))
	require.EqualValues(t, 1, s.metric(t, "liveactivity_stream_gaps_total"))
}

// gap reads a gap event, which must be next, and returns its fields.
func (s *subscription) gap(t testing.TB) map[string]string {
	t.Helper()
	e := s.next(t)
	require.Equal(t, ssetest.Frame{Event: "gap", Data: e.Data}, e)
	var fields map[string]string
	require.NoError(t, json.Unmarshal([]byte(e.Data), &fields))
	return fields
}

// A time names no entry: a request for the entries retained since then does not miss entries that
// go before the stream begins. A request that names an ID does, and so does any stream later on.
func TestHandler_sendsAGapOnlyForRequestedEntries(t *testing.T) {
	for name, c := range map[string]struct {
		query func(first eventlog.ID) string
		gap   bool
	}{
		"since ever": {func(eventlog.ID) string { return query("since", "0") }, false},
		"since a moment": {func(id eventlog.ID) string { return query("since", strconv.FormatInt(id.Time().Unix()-1, 10)) },
			false},
		"after an id": {func(id eventlog.ID) string { return query("last_event_id", id.String()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			log := &watchtest.Log{Log: newMemoryLog()}
			var afterBounds, beforeRead atomic.Bool
			turn := func(ctx context.Context, op watchtest.Op) error { // it drops all entries, and gets a new one
				return errors.Join(log.Log.Drop(ctx, op.ProductID, 0),
					log.Log.Append(ctx, op.ProductID, []eventlog.Entry{{Data: []byte(`{"type":"summary"}`)}}))
			}
			log.After = func(ctx context.Context, op watchtest.Op, err error) error {
				if op.Name == "bounds" && afterBounds.Load() {
					return turn(ctx, op)
				}
				return err
			}
			log.Before = func(ctx context.Context, op watchtest.Op) error {
				if op.Name == "read" && beforeRead.Swap(false) {
					return turn(ctx, op)
				}
				return nil
			}
			s := serve(t, takenOver, log, nil)
			first := eventlogtest.Append(t, log, product, eventlogtest.Entries("old", 2)...)[0]
			afterBounds.Store(true)
			sub := s.subscribe(t, c.query(first.ID), nil)
			if c.gap {
				require.Equal(t, first.ID.String(), sub.gap(t)["requested"])
			}
			afterBounds.Store(false)
			retained := eventlogtest.Retained(t, log, product)
			sub.receives(t, retained)
			require.Equal(t, c.gap, s.metric(t, "liveactivity_stream_gaps_total") > 0)

			beforeRead.Store(true)
			eventlogtest.Append(t, log, product, eventlogtest.Entry("new", 0))
			require.Equal(t, retained[len(retained)-1].ID.String(), sub.gap(t)["requested"])
		})
	}
}

func TestHandler_leavesOutOtherSessions(t *testing.T) {
	byEach(t, transports, func(t *testing.T, tr transport) {
		log := newMemoryLog()
		s := serve(t, tr, log, nil)
		all := eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0), eventlogtest.Entry("b", 0),
			eventlogtest.Entry("", 0), eventlogtest.Entry("a&b", 0))
		live := s.subscribe(t, query("session_id", "b"), nil)
		s.hasReaders(t, 1)
		all = append(all, eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 1), eventlogtest.Entry("b", 1),
			eventlogtest.Entry("B", 1), eventlogtest.Entry("", 1))...)
		require.NoError(t, log.Close())
		live.receives(t, all[5:6])
		live.ends(t)
		for session, want := range map[string][]eventlog.Entry{
			"a": {all[0], all[4]}, "b": {all[1], all[5]}, "a&b": {all[3]}, "unknown": nil, "": all,
		} {
			sub := s.subscribe(t, query("since", "0", "session_id", session), nil)
			sub.receives(t, want)
			sub.ends(t)
		}
		resumed := s.subscribe(t, query("session_id", "b"), lastEventID(all[0].ID.String()))
		resumed.receives(t, []eventlog.Entry{all[1], all[5]})
		resumed.ends(t)
		s.hasReaders(t, 0)
		require.EqualValues(t, 1+2+2+1+8+2, s.metric(t, "liveactivity_stream_sent_total"))
		require.Zero(t, s.metric(t, "liveactivity_stream_gaps_total"))
	})
}

// All entries that are appended at the same time reach every reader exactly once and in one order,
// whenever the reader came.
func TestHandler_sendsEveryReaderEverythingOnceInOrder(t *testing.T) {
	for readers, tr := range map[int]transport{200: takenOver, 40: shared, 24: overHTTP2} {
		t.Run(tr.name, func(t *testing.T) { testFanOut(t, tr, readers) })
	}
}

func testFanOut(t *testing.T, tr transport, readers int) {
	const writers = 8
	log := newMemoryLog()
	s := serve(t, tr, log, nil)
	var appending, reading sync.WaitGroup
	joined := make(chan struct{}, readers) // for each reader that comes there is an append
	failures := make(chan error, 2*readers)
	for w := range writers {
		appending.Go(func() {
			for n := range readers / writers {
				<-joined
				entries := []eventlog.Entry{eventlogtest.Entry(fmt.Sprint(w), 2*n), eventlogtest.Entry(fmt.Sprint(w), 2*n+1)}
				failures <- log.Append(context.Background(), product, entries)
			}
		})
	}
	received := make([][]ssetest.Frame, readers)
	for r := range readers {
		reading.Go(func() {
			sub, err := s.open(query("since", "0"), nil)
			joined <- struct{}{}
			if err == nil {
				received[r], err = sub.readToEnd()
			}
			if !errors.Is(err, io.EOF) {
				failures <- err
			}
		})
	}
	appending.Wait()
	s.hasReaders(t, readers)
	want := framesOf(eventlogtest.Retained(t, log, product))
	require.NoError(t, log.Close())
	reading.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.Len(t, want, 2*readers)
	for r := range readers {
		require.Equal(t, want, received[r], "reader %d", r)
	}
}

// readToEnd returns the events of a stream and how it ended.
func (s *subscription) readToEnd() (events []ssetest.Frame, err error) {
	defer s.cancel()
	watchdog := time.AfterFunc(2*waittest.Patience, s.cancel)
	defer watchdog.Stop()
	for {
		e, err := s.events.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// A reader that comes back again and again with the last id it saw misses
// nothing and sees nothing twice, however busy the log is.
func TestHandler_resumesWithoutGapOrDuplicateUnderLoad(t *testing.T) {
	const total = 600
	log := newMemoryLog()
	s := serve(t, takenOver, log, nil)
	last := eventlogtest.Bounds(t, log, product).Newest.String()
	var appending sync.WaitGroup
	appending.Go(func() {
		for n := range total {
			assert.NoError(t, log.Append(t.Context(), product, []eventlog.Entry{eventlogtest.Entry("a", n)}))
			runtime.Gosched()
		}
	})
	var got []ssetest.Frame
	for visit := 0; len(got) < total; visit++ {
		sub := s.subscribe(t, "", lastEventID(last))
		for range min(1+visit%17, total-len(got)) {
			got = append(got, sub.next(t))
			last = got[len(got)-1].ID
		}
		sub.cancel()
	}
	appending.Wait()
	require.Equal(t, framesOf(eventlogtest.Retained(t, log, product)), got)
}

func TestHandler_leavesNoGoroutineBehind(t *testing.T) {
	byEach(t, transports, func(t *testing.T, tr transport) {
		log := newMemoryLog()
		s := serve(t, tr, log, nil)
		s.subscribe(t, "", nil).cancel() // the client's goroutines that start once are there
		s.hasReaders(t, 0)
		s.client.CloseIdleConnections()
		before := leaktest.Goroutines(t)
		var subs []*subscription
		for range 20 {
			subs = append(subs, s.subscribe(t, "", nil))
		}
		s.hasReaders(t, 20)
		require.Greater(t, runtime.NumGoroutine(), before)
		for _, sub := range subs[:10] {
			sub.cancel()
		}
		s.hasReaders(t, 10)
		require.NoError(t, log.Close())
		for _, sub := range subs[10:] {
			sub.ends(t)
			sub.cancel()
		}
		require.NoError(t, s.handler.Wait(t.Context()))
		waittest.Until(t, "no goroutines are left", func() bool {
			s.client.CloseIdleConnections()
			return runtime.NumGoroutine() <= before
		})
	})
}

// Wait may be called at any time.
func TestHandler_Wait_canBeCalledWhileReadersComeAndGo(t *testing.T) {
	s := serve(t, takenOver, newMemoryLog(), nil)
	var waiting sync.WaitGroup
	done := make(chan struct{})
	waiting.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			_ = s.handler.Wait(ctx)
			cancel()
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 100 {
		s.subscribe(t, "", nil).cancel()
	}
	close(done)
	waiting.Wait()
	require.NoError(t, s.handler.Wait(t.Context()))
}

// A reader that does not read costs a buffer, for entries of any size and wherever the log keeps them.
func TestHandler_holdsLittleForAReaderThatDoesNotRead(t *testing.T) {
	const readers, limit = 24, 64 << 10
	for name, size := range map[string]int{"small": 200, "usual": 1000, "as large as they become": 60 << 10,
		"larger": 300 << 10} {
		for engine, log := range map[string]eventlog.Log{"memory": newMemoryLog(), "bbolt": openBolt(t)} {
			t.Run(name+" entries, "+engine, func(t *testing.T) {
				for n := range (1<<20)/size/16 + 1 {
					var entries []eventlog.Entry
					for i := range 16 {
						entries = append(entries, eventlogtest.Sized(eventlogtest.Entry("a", 16*n+i), size))
					}
					eventlogtest.Append(t, log, product, entries...)
				}
				s := serve(t, takenOver, log, &eventlog.HandlerOptions{WriteTimeout: time.Hour, SendBuffer: 4 << 10})
				before := heaptest.InUse()
				for range readers {
					require.NoError(t, s.raw(t, "GET /stream/acme?since=0").(*net.TCPConn).SetReadBuffer(4<<10))
				}
				s.hasReaders(t, readers)
				sent := -1.0
				waittest.Until(t, "no reader gets any further", func() bool {
					last := sent
					time.Sleep(50 * time.Millisecond)
					sent = s.metric(t, "liveactivity_stream_sent_total")
					return sent == last
				})
				waittest.Until(t, "a reader costs a buffer", func() bool {
					each := (heaptest.InUse() - before) / readers
					t.Logf("%d bytes a reader", each)
					return each < limit
				})
			})
		}
	}
}

// A reader that has been sent something and waits for more keeps no deep stack. The race detector
// doubles both of its stacks, to 4 KiB each.
func TestHandler_holdsLittleForAReaderThatWaits(t *testing.T) {
	const readers, limit = 500, 9 << 10
	log := newMemoryLog()
	s := serve(t, takenOver, log, &eventlog.HandlerOptions{Heartbeat: time.Hour})
	var all []*subscription
	subscribed := func() int64 {
		for range readers {
			all = append(all, greeted(t, s.rawSubscribe(t)))
		}
		want := eventlogtest.Append(t, log, product, eventlogtest.Entry("a", len(all)))
		for _, sub := range all {
			sub.receives(t, want)
		}
		return stacks()
	}
	before := subscribed()
	each := (subscribed() - before) / readers
	t.Logf("%d bytes of stacks a reader", each)
	require.Less(t, each, int64(limit))
}

// stacks returns the bytes of all goroutines' stacks, after a garbage collection.
func stacks() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.StackInuse)
}

// Over a real network, too, a reader that stalls is cut off. It has cost only the buffers of its connection.
func TestHandler_cutsOffAReaderThatStallsOverTCP(t *testing.T) {
	byEach(t, []transport{takenOver, takenTLS}, func(t *testing.T, tr transport) {
		log := newMemoryLog()
		s := serve(t, tr, log, &eventlog.HandlerOptions{WriteTimeout: 500 * time.Millisecond})
		conn := s.rawSubscribe(t)
		require.NoError(t, tcpOf(conn).SetReadBuffer(16<<10))
		s.hasReaders(t, 1)
		for n := range 256 {
			eventlogtest.Append(t, log, product, eventlogtest.Sized(eventlogtest.Entry("a", n), 32<<10))
		}
		require.NoError(t, s.handler.Wait(t.Context()))
		require.NoError(t, conn.SetDeadline(time.Now().Add(waittest.Patience)))
		sent, err := io.Copy(io.Discard, conn)
		require.Less(t, sent, int64(1<<20), "of 8 MiB")
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// tcpOf returns the TCP connection, which may be below TLS.
func tcpOf(conn net.Conn) *net.TCPConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*net.TCPConn)
}

// A client sends nothing after its request. A few extra bytes are ignored; a client that does not stop is cut off.
func TestHandler_doesNotListenToATalkativeClient(t *testing.T) {
	log := newMemoryLog()
	s := serve(t, takenOver, log, nil)
	brief := s.rawSubscribe(t)
	sub := greeted(t, brief)
	_, err := io.WriteString(brief, "hello?\r\n\r\n")
	require.NoError(t, err)

	endless := s.rawSubscribe(t)
	greeted(t, endless)
	require.NoError(t, endless.SetDeadline(time.Now().Add(waittest.Patience)))
	_, err = io.Copy(endless, chatter{})
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	s.hasReaders(t, 1)
	sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("a", 0)))
}

// chatter is requests without end.
type chatter struct{}

func (chatter) Read(p []byte) (int, error) {
	return copy(p, "GET / HTTP/1.1\r\nHost: test\r\n\r\n"), nil
}

// The series of a removed product go before its streams have ended.
func TestHandler_countsTheStreamsOfAProductAnewOnceItsSeriesAreGone(t *testing.T) {
	log := newMemoryLog()
	s := serve(t, takenOver, log, nil)
	series := &metrics.Registry{Registerer: s.metrics}
	musttest.New(eventlog.NewHandler(log, &eventlog.HandlerOptions{Metrics: series})) // shares them
	former := s.subscribe(t, "", nil)
	s.hasReaders(t, 1)
	series.Forget(product)
	s.subscribe(t, "", nil)
	s.hasReaders(t, 1)
	former.cancel()
	waittest.Until(t, "the first has gone", func() bool { return s.handler.Readers(product) == 1 })
	assert.Equal(t, 1, s.readers(t))
}

// brokenHijacker fails to hand its connection over for a reason of its own.
type brokenHijacker struct{ http.ResponseWriter }

func (brokenHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("connection is gone")
}

func TestHandler_answers503WhenTheConnectionCannotBeHad(t *testing.T) {
	s := newService(newMemoryLog(), nil)
	recorder := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/stream/acme", nil)
	r.SetPathValue("product_id", "acme")
	s.handler.ServeHTTP(brokenHijacker{recorder}, r)
	require.Contains(t, httpxtest.Detail(t, http.StatusServiceUnavailable, recorder.Result()), "repeat")
	require.NoError(t, s.handler.Wait(t.Context()), "it is not counted as a reader")
}

// A logging middleware often wraps the ResponseWriter and hides its Flush. The stream would be empty.
func TestHandler_refusesAWriterThatCannotFlush(t *testing.T) {
	h := musttest.New(eventlog.NewHandler(newMemoryLog(), nil))
	r := httptest.NewRequest(http.MethodGet, "/stream/acme", nil)
	r.SetPathValue("product_id", "acme")
	w := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.Zero(t, h.Readers("acme"))
}

func TestConstructors_reportEveryMistake(t *testing.T) {
	taken := prometheus.NewRegistry()
	for _, name := range []string{"liveactivity_actions_total", "liveactivity_stream_sent_total"} {
		require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: name})))
	}
	for want, err := range map[string]error{
		"log Heartbeat WriteTimeout Coalesce SendBuffer Metrics": errorOf(eventlog.NewHandler(nil, &eventlog.HandlerOptions{
			Heartbeat: -1, WriteTimeout: -1, Coalesce: -1, SendBuffer: -1, Metrics: taken})),
		"log TTL Metrics": errorOf(eventlog.NewRecorder(nil, &eventlog.RecorderOptions{TTL: -1, Metrics: taken})),
		"log productID":   errorOf(eventlog.NewSource(nil, "")),
		"productID":       errorOf(eventlog.NewSource(newMemoryLog(), "")),
	} {
		assert.Equal(t, want, strings.ReplaceAll(strings.Join(musttest.Mistakes(t, err), " "), "eventlog.", ""))
	}
}

// keyed is a service with two products, and an open stream of each product.
type keyed struct {
	*service
	keys         *access.Keyring
	ours, theirs *http.Response // of acme and of other
}

func newKeyed(t *testing.T, heartbeat time.Duration, http2 bool) *keyed {
	t.Helper()
	k := &keyed{keys: access.NewKeyring()}
	k.service = serve(t, transport{tls: true, http2: http2}, newMemoryLog(),
		&eventlog.HandlerOptions{Keys: k.keys, Heartbeat: heartbeat})
	for productID, response := range map[string]**http.Response{"acme": &k.ours, "other": &k.theirs} {
		require.NoError(t, k.keys.Add("key-of-"+productID, productID))
		of := *k.service
		of.product = productID
		*response = of.answer(t, http.MethodGet, "", http.Header{"Authorization": {"Bearer key-of-" + productID}})
		require.Equal(t, http.StatusOK, (*response).StatusCode)
	}
	return k
}

func TestHandler_endsAStreamWhenItsKeyIsRevoked(t *testing.T) {
	k := newKeyed(t, 10*time.Millisecond, false)
	k.keys.RemoveProduct("acme")
	eventlogtest.Append(t, k.log, "acme", eventlog.Entry{Data: []byte(`{"type":"summary","secret":1}`)})
	sent, err := io.ReadAll(k.ours.Body)
	require.NoError(t, err, "the stream ends cleanly")
	require.NotContains(t, string(sent), "secret")

	heartbeat := make([]byte, 64)
	for range 5 { // the other product's stream goes on
		require.NoError(t, errorOf(k.theirs.Body.Read(heartbeat)))
	}
	require.NoError(t, k.log.Close())
}

// An idle stream is ended at once, without a wait for its next heartbeat.
func TestHandler_EndRevoked_endsIdleStreamsAtOnce(t *testing.T) {
	for name, http2 := range map[string]bool{"hijacked": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			k := newKeyed(t, time.Hour, http2)
			k.handler.EndRevoked() // nothing was removed
			k.keys.RemoveProduct("acme")
			k.handler.EndRevoked()
			sent, err := io.ReadAll(k.ours.Body)
			require.NoError(t, err)
			require.Equal(t, "retry: 1000\n", string(sent))
			eventlogtest.Append(t, k.log, "other", eventlog.Entry{Data: []byte(`{"type":"summary"}`)})
			require.NoError(t, k.log.Close())
			sent, err = io.ReadAll(k.theirs.Body)
			require.NoError(t, err)
			require.Contains(t, string(sent), `data: {"type":"summary"}`, "the other product's stream goes on")
			require.NoError(t, k.handler.Wait(t.Context()))
		})
	}
}
