package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/encoding/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/ledger"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// memoryCursor is a cursor store for tests. It fails the test when its methods are called at the same time.
type memoryCursor struct {
	t       testing.TB
	busy    atomic.Bool
	loading func(ctx context.Context) (string, error) // instead of the saved cursor, if set
	saving  func(text string) (error, bool)           // first, if set; true keeps text from being saved

	mu    sync.Mutex
	text  string
	saves int
}

func (m *memoryCursor) alone() (done func()) {
	assert.False(m.t, m.busy.Swap(true), "two calls of the store overlap")
	return func() { m.busy.Store(false) }
}

func (m *memoryCursor) Load(ctx context.Context) (string, error) {
	defer m.alone()()
	if m.loading != nil {
		return m.loading(ctx)
	}
	return m.saved(), nil
}

func (m *memoryCursor) Save(ctx context.Context, text string) error {
	defer m.alone()()
	assert.NoError(m.t, ctx.Err(), "what is finished can be saved")
	if m.saving != nil {
		if err, stop := m.saving(text); stop {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text, m.saves = text, m.saves+1
	return nil
}

func (m *memoryCursor) saved() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text
}

func (m *memoryCursor) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// resuming is a fake server with these entries, whose IDs are 1, 2 and so on. It sends the entries
// after the last ID and then nothing more.
func resuming(data ...string) *fakeServer {
	return &fakeServer{answer: func(_ int, req *http.Request) (*http.Response, error) {
		after, _ := strconv.Atoi(req.Header.Get("Last-Event-ID")) // without one, from the start
		return streaming(req, nil, events(after+1, data[after:]...)), nil
	}}
}

// place returns the point after which a cursor does not have all entries as finished.
func place(t testing.TB, text string) string {
	t.Helper()
	var cursor struct {
		Since  int64
		ID     string
		Behind map[string]string
	}
	if text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &cursor))
	}
	earliest := cursor.ID
	for _, id := range cursor.Behind {
		if ledger.Compare(id, earliest) < 0 {
			earliest = id
		}
	}
	if earliest == "" {
		return fmt.Sprint("since ", cursor.Since)
	}
	return "after " + earliest
}

func TestConsumer_savesItsCursorAfterEachEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		cursor := &memoryCursor{t: t, saving: func(string) (error, bool) { n.add("saved"); return nil, false }}
		handlers := stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
			n.add("%s, %s", b.Actions[0].Title, place(t, cursor.saved()))
			return nil
		}}
		s := resuming(entryOf("s1", "a"), entryOf("s1", "b"), `{"type":"actions","session_id":"s1"}`, entryOf("s1", "c"))
		s.consume(t, handlers, stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0)})
		synctest.Wait()
		assert.Equal(t, []string{"a, since 0", "saved", "b, after 1", "saved", "saved", "c, after 3", "saved"}, n.all())
		assert.Equal(t, "after 4", place(t, cursor.saved()))
	})
}

// The next entry of a session waits until the cursor has saved the one before as finished, also
// while entries of other sessions come. Sessions share the next save.
func TestConsumer_waitsForItsCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		cursor := &memoryCursor{t: t}
		cursor.saving = func(string) (error, bool) {
			time.Sleep(time.Minute)
			n.add("saved")
			return nil, false
		}
		s := serving(events(1, entryOf("a", "0"), entryOf("b", "0"), entryOf("c", "0"), entryOf("a", "1")),
			chunk{30 * time.Second, events(5, entryOf("d", "0"), entryOf("b", "1"), entryOf("c", "1")).text})
		s.consume(t, n.everything(new(atomic.Int64)),
			stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0), IdleTimeout: forever})
		time.Sleep(time.Hour)
		lines := n.all()
		assert.ElementsMatch(t, []string{"a 0", "b 0", "c 0", "d 0"}, lines[:4])
		assert.Equal(t, "saved", lines[4])
		for _, session := range []string{"a", "b", "c"} {
			requireOrder(t, lines, session, 2)
		}
		assert.LessOrEqual(t, cursor.count(), 4, "for seven entries")
		assert.Equal(t, "after 7", place(t, cursor.saved()))
	})
}

func TestConsumer_goesOnWhereItsCursorIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := &memoryCursor{t: t}
		all := []string{"1", "2", "3", "4", "5"}
		for run, want := range []struct {
			query, lastID string
			entries       []string
		}{{"since=0", "", all[:3]}, {"", "3", all[3:4]}, {"", "4", all[4:]}} {
			var n notes
			s := resuming(all[:3+run]...)
			c := s.consume(t, n.raw(), stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0)})
			synctest.Wait()
			c.stop(t)
			assert.Equal(t, want.entries, n.all())
			assert.Equal(t, want.query, s.request(0).URL.RawQuery)
			assert.Equal(t, want.lastID, s.request(0).Header.Get("Last-Event-ID"))
		}
	})
}

// A consumer that begins from now on saves its beginning before anything comes.
func TestConsumer_savesWhereItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := &memoryCursor{t: t}
		for range 3 {
			s := serving()
			c := s.consume(t, new(notes).raw(), stream.ConsumerOptions{Cursor: cursor})
			time.Sleep(time.Minute)
			c.stop(t)
		}
		assert.Equal(t, "since 946684799", place(t, cursor.saved()), "the first time")
		assert.Equal(t, 1, cursor.count())
	})
}

// The entries of a session that falls behind at its first one are read again from where the consumer
// began, not from the end of the log.
func TestConsumer_readsAgainFromWhereItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, away := resuming("a"), time.Now().Add(time.Hour)
		var n notes
		s.consume(t, stream.Handlers{Raw: func(_ context.Context, m stream.Message) error {
			if time.Now().Before(away) {
				return errors.New("away")
			}
			n.add("%s", m.Data)
			return nil
		}}, stream.ConsumerOptions{IdleTimeout: forever})
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"a"}, n.all())
		assert.Equal(t, "946684799", s.request(1).URL.Query().Get("since"))
	})
}

// The entries of a session that is behind may all be gone from the log.
func TestConsumer_savesThatNoSessionIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := &memoryCursor{t: t, text: `{"id":"3","behind":{"away":"1"}}`}
		resuming("1", "2", "3").consume(t, new(notes).raw(), stream.ConsumerOptions{Cursor: cursor, IdleTimeout: forever})
		time.Sleep(time.Hour)
		assert.Equal(t, "after 3", place(t, cursor.saved()))
	})
}

// A handler that does not return stops no other session. In the cursor it costs only the name of its session.
func TestConsumer_isNotStoppedByAHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := many(5000, func(i int) string { return fmt.Sprintf(`{"type":"x","session_id":"s%d"}`, i) })
		s := resuming(data...)
		cursor := &memoryCursor{t: t}
		proceed := make(chan struct{})
		var handled atomic.Int64
		c := s.consume(t, stream.Handlers{Raw: func(_ context.Context, m stream.Message) error {
			if m.ID == "1" {
				<-proceed
			}
			handled.Add(1)
			return nil
		}}, stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0), MaxPending: 50,
			IdleTimeout: forever})
		time.Sleep(time.Hour)
		assert.EqualValues(t, len(data)-1, handled.Load())
		assert.InDelta(t, 1, c.counted(t, "pending"), 0, "received and not finished")
		assert.Less(t, len(cursor.saved()), 100)
		close(proceed)
		synctest.Wait()
		assert.EqualValues(t, len(data), handled.Load())
		assert.Less(t, len(cursor.saved()), 100)
	})
}

// Entries that fail for an hour hold up no other session, however many come. They are handled in
// order once their handler works again, also after a restart in between.
func TestConsumer_letsASessionThatFailsFallBehind(t *testing.T) {
	for name, restart := range map[string]bool{"in one run": false, "with a restart": true} {
		inBubble(t, name, func(t *testing.T) {
			const entries = 1000
			data := many(entries, func(i int) string {
				session := fmt.Sprint("s", i)
				if i%10 == 0 {
					session = "away"
				}
				return fmt.Sprintf(`{"type":"x","session_id":%q,"n":%d}`, session, i)
			})
			var away atomic.Bool
			away.Store(true)
			var n, others, failures notes
			handlers := stream.Handlers{Raw: func(_ context.Context, m stream.Message) error {
				switch {
				case m.SessionID != "away":
					others.add("%s", m.SessionID)
				case away.Load():
					failures.add("%s", m.ID)
					return errors.New("away")
				default:
					n.add("%s", m.Data)
				}
				return nil
			}}
			cursor := &memoryCursor{t: t}
			s := resuming(data...)
			opts := stream.ConsumerOptions{Since: time.Unix(0, 0), IdleTimeout: forever, MaxPending: 64}
			if restart {
				opts.Cursor = cursor
			}
			c := s.consume(t, handlers, opts)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Len(t, others.all(), entries*9/10)
			assert.Empty(t, n.all())
			assert.Less(t, len(cursor.saved()), 100)
			assert.Positive(t, c.counted(t, "parked_total"))
			c.counts(t, map[string]float64{"pending": 0, "behind": 1, "handler_failures_total": float64(len(failures.all()))})
			if restart {
				c.stop(t)
				s.consume(t, handlers, opts)
				time.Sleep(time.Minute)
			}
			away.Store(false)
			time.Sleep(10 * time.Minute)
			assert.Equal(t, many(entries/10, func(i int) string { return data[10*i] }), n.all())
			assert.Len(t, others.all(), entries*9/10, "each once")
			assert.Zero(t, c.counted(t, "behind"))
		})
	}
}

func TestConsumer_reportsThatASessionWhichIsBehindHasLostEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{InMemory: true,
			Retention: eventlog.Retention{TTL: time.Hour}}))
		defer s.Close()
		var gaps notes
		c := startConsumer(t, s.URL(), stream.Handlers{
			Actions: func(_ context.Context, b activity.Batch) error {
				if b.SessionID == "away" {
					return errors.New("away")
				}
				return nil
			},
			Gap: func(requested, oldest string) { gaps.add("%s %s", requested, oldest) },
		}, stream.ConsumerOptions{Client: s.Client(), Since: time.Unix(0, 0)})
		ids := s.Send(clicksOf("here", "ada", "a"), clicksOf("away", "bob", "b"))
		time.Sleep(50 * time.Minute)
		ids = append(ids, s.Send(clicksOf("here", "ada", "c"))...)
		require.Empty(t, gaps.all())
		time.Sleep(20 * time.Minute)
		assert.Equal(t, []string{ids[0] + " " + ids[2]}, gaps.all())
		assert.Zero(t, c.counted(t, "behind"))
		for range 3 * 60 {
			s.Send(clicksOf("away", "bob", "b"), clicksOf("here", "ada", "c"))
			time.Sleep(time.Minute)
		}
		assert.Len(t, gaps.all(), 2, "another one, for as long as the session handles no entry")
	})
}

// A server that has lost its whole log names no oldest entry.
func TestConsumer_reportsThatASessionWhichIsBehindHasLostTheWholeLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var gaps notes
		s := newStream(t, &streamtest.ServerOptions{InMemory: true, Retention: eventlog.Retention{TTL: time.Hour}})
		c := startConsumer(t, s.URL(), stream.Handlers{
			Actions: func(context.Context, activity.Batch) error {
				if away.Load() {
					return errors.New("away")
				}
				return nil
			},
			Gap: func(requested, oldest string) { gaps.add("%s %s", requested, oldest) },
		}, stream.ConsumerOptions{Client: s.Client(), Since: time.Unix(0, 0)})
		ids := s.Send(clicksOf("s1", "ada", "a"))
		synctest.Wait()
		away.Store(true)
		s.Send(clicksOf("s1", "ada", "b"))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{ids[0] + " "}, gaps.all())
		away.Store(false)
		s.Send(clicksOf("s1", "ada", "c"))
		time.Sleep(time.Second)
		c.counts(t, map[string]float64{"behind": 0, "acknowledged_total": 2})
	})
}

// rereading consumes a new stream whose first entries, one for each session, have failed and are handled again.
// The handler of session s1 then takes an hour.
func rereading(t *testing.T, did *notes, opts stream.ConsumerOptions) (*streamtest.Server, *running) {
	t.Helper()
	var failed sync.Map // by session
	s := newStream(t, &streamtest.ServerOptions{InMemory: true})
	opts.Client, opts.Since, opts.ParkAfter = s.Client(), time.Unix(0, 0), time.Millisecond
	c := startConsumer(t, s.URL(), stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
		if _, again := failed.LoadOrStore(b.SessionID, true); !again {
			return errors.New("away")
		}
		if b.SessionID == "s1" {
			time.Sleep(time.Hour)
		}
		did.add("%s", b.SessionID)
		return nil
	}}, opts)
	s.Send(clicksOf("s1", "ada", "a"))
	time.Sleep(time.Minute)
	return s, c
}

func TestConsumer_handlesAnEntryReadAgainOnce(t *testing.T) {
	for name, interrupt := range map[string]func(t *testing.T, s *streamtest.Server, c *running){
		"an erasure": func(_ *testing.T, s *streamtest.Server, _ *running) { s.SendErase(stream.Erasure{UserID: "bob"}) },
		"a restart":  func(t *testing.T, _ *streamtest.Server, c *running) { c.stop(t); c.run() },
	} {
		inBubble(t, name, func(t *testing.T) {
			var did notes
			s, c := rereading(t, &did, stream.ConsumerOptions{Cursor: &memoryCursor{t: t}})
			require.Empty(t, did.all())
			interrupt(t, s, c)
			time.Sleep(3 * time.Hour)
			assert.Equal(t, []string{"s1"}, did.all())
			assert.Zero(t, c.counted(t, "behind"))
		})
	}
}

func TestConsumer_catchesUpBesideASlowSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did notes
		s, _ := rereading(t, &did, stream.ConsumerOptions{})
		s.Send(clicksOf("s2", "bob", "b"))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []string{"s2"}, did.all())
	})
}

func TestConsumer_goesOnWhenItsCursorIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		var works atomic.Bool
		cursor := &memoryCursor{t: t, saving: func(string) (error, bool) { return errors.New("disk is full"), !works.Load() }}
		s := serving(events(1, "a", "b"), chunk{time.Minute, "id: 3\ndata: c\n\n"})
		c := s.consume(t, n.raw(), stream.ConsumerOptions{Cursor: cursor, IdleTimeout: forever})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a", "b"}, n.all())
		assert.Contains(t, c.log.String(), "disk is full")
		assert.Empty(t, cursor.saved())
		works.Store(true)
		time.Sleep(time.Minute)
		assert.Equal(t, "after 3", place(t, cursor.saved()))
	})
}

func TestConsumer_endsWithoutItsCursor(t *testing.T) {
	errDisk := errors.New("disk is gone")
	tests := map[string]struct {
		text string
		err  error
	}{
		"it cannot be loaded":         {"", errDisk},
		"it is no JSON":               {"hello", nil},
		"it is half":                  {`{"id":"5"`, nil},
		"it has too much":             {`{"id":"5"}{}`, nil},
		"its id is longer than an id": {`{"id":"` + strings.Repeat("5", 2000) + `"}`, nil},
	}
	for name, test := range tests {
		inBubble(t, name, func(t *testing.T) {
			s := serving()
			cursor := &memoryCursor{t: t, loading: func(context.Context) (string, error) { return test.text, test.err }}
			c := s.consume(t, new(notes).raw(), stream.ConsumerOptions{Cursor: cursor})
			<-c.ended
			require.ErrorContains(t, c.err, "stream: load cursor: ")
			if test.err != nil {
				require.ErrorIs(t, c.err, test.err)
			} else {
				require.ErrorContains(t, c.err, "; remove it to start at Since")
			}
			assert.Zero(t, s.count(), "it begins nowhere else instead")
			assert.Zero(t, cursor.count())
		})
	}
}

// The cursor does not pass entries that a writer holds in memory, so a kill loses none of them. It passes them when
// they are written, also after the end of the consumer, as in an orderly stop of a process.
func TestConsumer_doesNotPassEntriesThatAWriterHolds(t *testing.T) {
	for name, stops := range map[string]bool{"while it runs": false, "after its end": true} {
		inBubble(t, name, func(t *testing.T) {
			cursor := &memoryCursor{t: t}
			h := startPipeline(t, resuming(entryOf("s1", "a"), `{"type":"x"}`, entryOf("s1", "b"), entryOf("s2", "c")), cursor,
				stream.WriterOptions{Debounce: time.Minute})
			time.Sleep(59 * time.Second)
			assert.Empty(t, h.written.all())
			h.counts(t, map[string]float64{"pending": 3})
			if stops {
				h.stop(t)
				h.counts(t, map[string]float64{"pending": 0})
			}
			assert.Equal(t, "since 0", place(t, cursor.saved()))
			time.Sleep(2 * time.Second)
			assert.ElementsMatch(t, []string{"s1/: a b", "s2/: c"}, h.written.all())
			h.counts(t, map[string]float64{"pending": 0, "acknowledged_total": 4})
			assert.Equal(t, "after 4", place(t, cursor.saved()))
		})
	}
}

// Once the consumer runs again, only the new run saves the cursor: the old run's place would lead back.
func TestConsumer_savesNothingOfARunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cursor := resuming(entryOf("s1", "a")), &memoryCursor{t: t}
		h := startPipeline(t, s, cursor, stream.WriterOptions{Debounce: time.Minute})
		time.Sleep(30 * time.Second)
		h.stop(t)
		s.answer = resuming(append([]string{entryOf("s1", "a")}, slices.Repeat([]string{`{"type":"x"}`}, 5)...)...).answer
		h.run() // gets a again
		time.Sleep(15 * time.Second)
		saves := cursor.count()
		require.Equal(t, 5, saves)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []string{"s1/: a a"}, h.written.all())
		assert.Equal(t, "after 6", place(t, cursor.saved()))
		assert.Equal(t, saves+1, cursor.count(), "the new run's, at the end")
		assert.Zero(t, h.counted(t, "pending"))
	})
}

// A consumer with a cursor store can be killed at any time: no entry is lost, and only the entries
// that a handler was at work on come again, whatever the next process has room for.
func TestConsumer_survivesKills(t *testing.T) {
	const sessions, entries = 4, 20
	data := many(entries, func(i int) string { return entryOf(fmt.Sprint("s", i%sessions), fmt.Sprint(i/sessions)) })
	synctest.Test(t, func(t *testing.T) {
		pause := func() { time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) }
		type remains struct {
			cursor string
			done   []string
		}
		var kills []remains
		var killing sync.Mutex
		cursor := &memoryCursor{t: t}
		var n notes
		opts := stream.ConsumerOptions{Client: resuming(data...).client(), Cursor: cursor, Since: time.Unix(0, 0)}
		startConsumer(t, fakeURL, stream.Handlers{Actions: func(_ context.Context, b activity.Batch) error {
			pause()
			killing.Lock()
			kills = append(kills, remains{cursor.saved(), n.all()})
			n.add("%s %s", b.SessionID, b.Actions[0].Title)
			kills = append(kills, remains{cursor.saved(), n.all()})
			killing.Unlock()
			pause()
			return nil
		}}, opts)
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, kill := range kills {
			again, cursor := &notes{lines: kill.done}, &memoryCursor{t: t, text: kill.cursor}
			opts.Client, opts.Cursor, opts.MaxPending = resuming(data...).client(), cursor, []int{0, 1, entries}[i%3]
			c := startConsumer(t, fakeURL, again.everything(new(atomic.Int64)), opts)
			synctest.Wait()
			c.stop(t)
			lines := again.all()
			require.LessOrEqual(t, len(lines), entries+sessions)
			require.Equal(t, fmt.Sprint("after ", entries), place(t, cursor.saved()))
			for i := range sessions { // the entry at work is twice in a row, at most
				session := fmt.Sprint("s", i)
				of := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, session) })
				requireOrder(t, slices.Compact(of), session, entries/sessions)
			}
		}
	})
}

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
	data := many(entries, func(i int) string {
		return fmt.Sprintf(`{"type":"actions","session_id":"s%d","actions":[{"title":"%d","raw_url":%q}]}`,
			i%sessions, i/sessions, strings.Repeat("x", rand.IntN(1<<rand.IntN(9))))
	})
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
