package eventlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/ssetest"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// everyTransport runs a test in a bubble for each way a stream is served.
func everyTransport(t *testing.T, test func(t *testing.T, tr transport)) {
	inBubbles(t, transports, test)
}

func inBubbles(t *testing.T, ways []transport, test func(t *testing.T, tr transport)) {
	byEach(t, ways, func(t *testing.T, tr transport) { synctest.Test(t, func(t *testing.T) { test(t, tr) }) })
}

func TestHandler_sendsALoneEntryAtOnce(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		tape := s.subscribe(t, "", nil).record()
		for n := range 3 {
			time.Sleep(time.Second)
			e := eventlogtest.Append(t, s.log, product, eventlogtest.Entry("a", n))[0]
			now := time.Now()
			synctest.Wait()
			require.Equal(t, []taped{{ssetest.Frame{ID: e.ID.String(), Data: string(e.Data)}, now}}, tape.take())
		}
	})
}

// Under load many entries are one write, and none is delayed for longer than the pause between writes.
func TestHandler_delaysAnEntryForAMomentAtMost(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		const pause = 20 * time.Millisecond
		s := servePiped(t, tr, newMemoryLog(), &eventlog.HandlerOptions{Coalesce: pause})
		tape := s.subscribe(t, "", nil).record()
		for n := range 200 { // for 200 ms
			eventlogtest.Append(t, s.log, product, eventlogtest.Entry("a", n))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(pause)
		synctest.Wait()
		events, writes := tape.take(), map[time.Time]bool{}
		require.Len(t, events, 200)
		for _, e := range events {
			id, err := eventlog.ParseID(e.ID)
			require.NoError(t, err)
			require.LessOrEqual(t, e.at.Sub(id.Time()), pause+time.Millisecond)
			writes[e.at] = true
		}
		require.InDelta(t, 200/20, len(writes), 2)
	})
}

// An entry that comes between a look at the log and the wait for a change is sent at once like any other.
func TestHandler_missesNoEntryThatComesWhileItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watchtest.Log{Log: newMemoryLog()}
		var once sync.Once
		log.After = func(ctx context.Context, op watchtest.Op, err error) error {
			if op.Name == "read" { // it was found empty
				once.Do(func() { err = log.Append(ctx, op.ProductID, eventlogtest.Entries("late", 1)) })
			}
			return err
		}
		s := servePiped(t, takenOver, log, nil)
		began := time.Now()
		require.Equal(t, string(eventlogtest.Entry("late", 0).Data), s.subscribe(t, "", nil).next(t).Data)
		require.Zero(t, time.Since(began))
	})
}

var heartbeat = ssetest.Frame{Event: "heartbeat", Data: "{}"}

func TestHandler_sendsNoHeartbeatWhileThereIsTraffic(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		tape := s.subscribe(t, "", nil).record()
		for n := range 5 {
			time.Sleep(eventlog.DefaultHeartbeat - time.Second)
			eventlogtest.Append(t, s.log, product, eventlogtest.Entry("a", n))
		}
		last := time.Now()
		synctest.Wait()
		for _, e := range tape.take() {
			require.Empty(t, e.Event)
		}
		time.Sleep(eventlog.DefaultHeartbeat)
		synctest.Wait()
		require.Equal(t, []taped{{heartbeat, last.Add(eventlog.DefaultHeartbeat)}}, tape.take())
	})
}

// To a reader that filters, a product busy with other sessions is silent.
func TestHandler_keepsAFilteredStreamAliveWhileOthersAreBusy(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		began := time.Now()
		tape := s.subscribe(t, query("session_id", "mine"), nil).record()
		for n := range 4_000 { // for 40 s
			eventlogtest.Append(t, s.log, product, eventlogtest.Entry("other", n))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		beats := tape.take()
		require.Len(t, beats, 2)
		for i, beat := range beats {
			require.Equal(t, heartbeat, beat.Frame)
			due := began.Add(time.Duration(i+1) * eventlog.DefaultHeartbeat)
			require.WithinDuration(t, due, beat.at, time.Duration(i+1)*2*eventlog.DefaultCoalesce)
		}
	})
}

// WriteTimeout ends a reader that does not take the bytes written to it, and the time-outs of the
// server are for requests. A longer silence harms nobody.
func TestHandler_isNotCutByTimeoutsShorterThanASilence(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(),
			&eventlog.HandlerOptions{Heartbeat: time.Hour, WriteTimeout: time.Second}, func(server *http.Server) {
				server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = time.Second, time.Second, time.Second
			})
		tape := s.subscribe(t, "", nil).record()
		time.Sleep(30 * time.Minute)
		eventlogtest.Append(t, s.log, product, eventlogtest.Entry("a", 0))
		synctest.Wait()
		require.NoError(t, tape.end())
		require.Len(t, tape.take(), 1)
		time.Sleep(10 * time.Minute)
		require.NoError(t, s.log.Close())
		synctest.Wait()
		require.Equal(t, io.EOF, tape.end(), "the end is clean, too")
	})
}

func TestHandler_whenTheLogCloses_sendsTheRestAndEnds(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		tape, filtered := s.subscribe(t, "", nil).record(), s.subscribe(t, query("session_id", "b"), nil).record()
		time.Sleep(time.Second)
		want := eventlogtest.Append(t, s.log, product, eventlogtest.Entries("a", 1000)...)
		require.NoError(t, s.log.Close())
		closed := time.Now()
		require.NoError(t, s.handler.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(closed), 2*eventlog.DefaultCoalesce)
		synctest.Wait()
		require.Equal(t, io.EOF, tape.end())
		require.Equal(t, io.EOF, filtered.end())
		require.Empty(t, filtered.take())
		require.Equal(t, framesOf(want), tape.frames())
		require.Zero(t, s.readers(t))
	})
}

func TestHandler_forgetsAReaderThatLeaves(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		stays, leaves := s.subscribe(t, "", nil), s.subscribe(t, "", nil)
		synctest.Wait()
		require.Equal(t, 2, s.readers(t))
		left := time.Now()
		leaves.cancel()
		synctest.Wait()
		require.Equal(t, 1, s.readers(t))
		hurried, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		require.ErrorIs(t, s.handler.Wait(hurried), context.DeadlineExceeded)
		stays.cancel()
		require.NoError(t, s.handler.Wait(t.Context()))
		require.Zero(t, time.Since(left), "at once, not at the next write")
	})
}

// A reader that stops reading is cut off after WriteTimeout. Meanwhile nobody waits for it.
func TestHandler_cutsOffAReaderThatStalls(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		stalled := s.subscribe(t, "", nil)
		lively := s.subscribe(t, "", nil).record()
		synctest.Wait()
		stall := time.Now()
		for n := range 192 { // 6 MiB: more than any client takes in by itself
			eventlogtest.Append(t, s.log, product, eventlogtest.Sized(eventlogtest.Entry("a", n), 32<<10))
		}
		require.Zero(t, time.Since(stall), "nobody who writes waits for a reader")
		time.Sleep(eventlog.DefaultCoalesce)
		synctest.Wait()
		require.Len(t, lively.take(), 192, "a reader does not wait for another")
		require.Equal(t, 2, s.readers(t))
		time.Sleep(eventlog.DefaultWriteTimeout)
		synctest.Wait()
		require.Equal(t, 1, s.readers(t))
		require.NoError(t, lively.end())
		_, err := stalled.readToEnd()
		if tr.name != takenOver.name { // there the body ends with the connection, either way
			require.NotErrorIs(t, err, io.EOF, "the client sees that it was cut off")
		}
	})
}

// If an entry is erased while it is being sent, a reader gets nothing more of it. The reader
// resumes from the entry before, and is told no other entry in its place.
func TestHandler_endsAStreamWhenAnEntryIsErasedWithinItsFrame(t *testing.T) {
	// A client of HTTP/2 has all of it at once.
	inBubbles(t, []transport{takenOver, shared}, func(t *testing.T, tr transport) {
		s := servePiped(t, tr, newMemoryLog(), nil)
		sub := s.subscribe(t, "", nil)
		synctest.Wait()
		visit := activitytest.Pageview(time.Now(), "https://app.example.com/"+strings.Repeat("a", 1900))
		b := activitytest.NewBatch(product, "s1", "ada", slices.Repeat([]activity.Action{visit}, 600)...)
		eventlogtest.Append(t, s.log, product, eventlog.Entry{SessionID: "s1", Batch: &b,
			Data: musttest.New(json.Marshal(b))})
		synctest.Wait() // the client has not read on
		eventlogtest.Append(t, s.log, product, eventlogtest.EraseEntry(t,
			feed.Erasure{ProductID: product, UserID: "ada", SessionIDs: []string{"s1"}}))
		e, err := sub.read()
		require.Error(t, err, "%.100s", e.Data)
		require.NotErrorIs(t, err, io.EOF, "the frame is not complete")
		synctest.Wait()
		require.Zero(t, s.readers(t))
	})
}

// A reader has to take the end of the stream in time, too.
func TestHandler_doesNotWaitForAReaderToTakeTheEnd(t *testing.T) {
	inBubbles(t, []transport{takenOver, shared}, func(t *testing.T, tr transport) {
		var server *http.Server
		s := servePiped(t, tr, newMemoryLog(), nil, func(made *http.Server) { server = made })
		greeted(t, s.rawSubscribe(t))
		require.NoError(t, s.log.Close())
		ctx, cancel := context.WithTimeout(t.Context(), 2*eventlog.DefaultWriteTimeout)
		defer cancel()
		require.NoError(t, server.Shutdown(ctx))
		require.NoError(t, s.handler.Wait(ctx))
	})
}

// A reader gets the entries that it missed while it was busy.
func TestHandler_letsASlowReaderCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := servePiped(t, takenOver, newMemoryLog(), nil)
		sub := greeted(t, s.rawSubscribe(t))
		want := eventlogtest.Append(t, s.log, product, eventlogtest.Entries("a", 500)...)
		time.Sleep(eventlog.DefaultWriteTimeout - time.Second)
		sub.receives(t, want)
	})
}

// greeted reads the head of the response and the line that a stream begins with at once.
func greeted(t testing.TB, conn net.Conn) *subscription {
	t.Helper()
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	sub := &subscription{response: response, events: ssetest.NewReader(response.Body), cancel: func() { _ = conn.Close() }}
	require.NoError(t, sub.events.Begin())
	return sub
}

// A reader that falls behind the retained entries is sent a gap in the middle of the stream, and
// goes on from the oldest entry there is.
func TestHandler_sendsAGapToAReaderThatFellTooFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := musttest.New(memorylog.New(&memorylog.Options{Retention: eventlog.Retention{MaxBytes: 256 << 10}}))
		s := servePiped(t, takenOver, log, nil)
		sub := greeted(t, s.rawSubscribe(t))
		first := eventlogtest.Append(t, log, product, eventlogtest.Entry("first", 0))
		synctest.Wait() // the server is at writing it
		for n := range 1000 {
			eventlogtest.Append(t, log, product, eventlogtest.Sized(eventlogtest.Entry("a", n), 1024))
		}
		oldest := eventlogtest.Bounds(t, log, product).Oldest
		sub.receives(t, first)
		require.Equal(t, map[string]string{"requested": first[0].ID.String(), "oldest": oldest.String()}, sub.gap(t))
		sub.receives(t, eventlogtest.Retained(t, log, product))
		require.EqualValues(t, 1, s.metric(t, "liveactivity_stream_gaps_total"))
		sub.receives(t, eventlogtest.Append(t, log, product, eventlogtest.Entry("live", 0)))
	})
}

var errDown = watchtest.ErrDown

func TestHandler_keepsStreamsOpenWhileStorageIsDown(t *testing.T) {
	everyTransport(t, func(t *testing.T, tr transport) {
		log := &watchtest.Log{Log: newMemoryLog()}
		var lines logtest.Buffer
		s := servePiped(t, tr, log, &eventlog.HandlerOptions{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		tape := s.subscribe(t, "", nil).record()
		synctest.Wait() // no read is under way
		log.Down.Store(true)
		want := eventlogtest.Append(t, log.Log, product, eventlogtest.Entries("a", 300)...) // by another server
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, tape.end())
		beats := tape.take()
		require.Len(t, beats, int(time.Minute/eventlog.DefaultHeartbeat), "heartbeats go on")
		require.Contains(t, lines.String(), "stream failed to read the log")
		require.LessOrEqual(t, strings.Count(lines.String(), "\n"), 2, "one line a minute: %s", &lines)
		log.Down.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, framesOf(want), tape.frames())
	})
}
