package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
)

// pipeline is a consumer that hands its deliveries to a writer.
type pipeline struct {
	*running
	writer  *stream.Writer
	written notes
	failed  atomic.Uint64 // writes
	fail    atomic.Pointer[func(b activity.Batch) error]
	end     func()
}

func startPipeline(t *testing.T, s *fakeServer, cursor stream.CursorStore, opts stream.WriterOptions) *pipeline {
	p := &pipeline{}
	var err error
	p.writer, err = stream.NewWriter(func(_ context.Context, b activity.Batch) error {
		if fail := p.fail.Load(); fail != nil {
			if err := (*fail)(b); err != nil {
				p.failed.Add(1)
				return err
			}
		}
		p.written.add("%s/%s: %s", b.SessionID, b.ConversationID, strings.Join(activitytest.Titles(b), " "))
		return nil
	}, &opts)
	require.NoError(t, err)
	stop := waittest.Run(t, p.writer.Run)
	p.running = s.consume(t, stream.Handlers{Deliver: p.writer.Deliver},
		stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0), IdleTimeout: forever})
	p.end = func() {
		p.cancel()
		<-p.ended
		_ = stop()
	}
	return p
}

// later is a server that answers after a second, when the test has prepared its case.
func later(s *fakeServer) *fakeServer {
	return &fakeServer{answer: func(n int, req *http.Request) (*http.Response, error) {
		time.Sleep(time.Second)
		return s.answer(n, req)
	}}
}

// away makes writes of a session fail.
func (p *pipeline) away(session string) {
	fail := func(b activity.Batch) error {
		if b.SessionID == session {
			return errors.New("the desk is away")
		}
		return nil
	}
	p.fail.Store(&fail)
}

// linkedEntry is an entry that carries the link of its session.
func linkedEntry(session, title, conversation string) string {
	return strings.Replace(entryOf(session, title), `{"type":"actions"`,
		`{"type":"actions","conversation_id":"`+conversation+`"`, 1)
}

// Entries that wait for a link are written as one batch at the link, however it is made, and also
// when the process was started anew in between.
func TestWriter_leavesEntriesInTheStreamUntilTheLink(t *testing.T) {
	for name, restart := range map[string]bool{"in one run": false, "with a restart": true} {
		for how, byEntry := range map[string]bool{"by SessionLinked": false, "carried by an entry": true} {
			inBubble(t, name+", "+how, func(t *testing.T) {
				data := []string{entryOf("s1", "a"), entryOf("s2", "x"), entryOf("s1", "b")}
				s := resuming(data...)
				cursor := &memoryCursor{t: t}
				p := startPipeline(t, s, cursor, stream.WriterOptions{AwaitLink: true})
				time.Sleep(time.Hour)
				require.Empty(t, p.written.all())
				require.Zero(t, p.counted(t, "pending"), "nothing of it is kept")
				if restart {
					p.end()
					p = startPipeline(t, s, cursor, stream.WriterOptions{AwaitLink: true})
					time.Sleep(time.Hour)
				}
				if byEntry {
					p.end()
					data = append(data, linkedEntry("s1", "c", "C1"))
					p = startPipeline(t, resuming(data...), cursor, stream.WriterOptions{AwaitLink: true})
				} else {
					require.NoError(t, p.writer.SessionLinked(t.Context(), "s1", "C1"))
				}
				time.Sleep(time.Hour)
				want := "s1/C1: a b"
				if byEntry {
					want += " c"
				}
				require.Equal(t, []string{want}, p.written.all())
				p.end()

				p = startPipeline(t, resuming(append(data, linkedEntry("s1", "d", "C1"))...), cursor,
					stream.WriterOptions{AwaitLink: true})
				time.Sleep(time.Hour)
				require.Equal(t, []string{"s1/C1: d"}, p.written.all(), "nothing twice")
			})
		}
	}
}

// A link that is made while the consumer saves that an entry is held brings the entry.
func TestWriter_writesAnEntryThatIsLinkedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *pipeline
		started := make(chan struct{})
		link := sync.OnceFunc(func() {
			<-started
			assert.NoError(t, p.writer.SessionLinked(t.Context(), "s1", "C1"))
		})
		cursor := &memoryCursor{t: t, saving: func(string) (error, bool) { link(); return nil, false }}
		p = startPipeline(t, resuming(entryOf("s1", "a")), cursor, stream.WriterOptions{AwaitLink: true})
		close(started)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"s1/C1: a"}, p.written.all())
	})
}

func TestWriter_givesBackFailedEntriesAndWritesThemLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var data []string
		for i := range 600 {
			data = append(data, entryOf("away", fmt.Sprint("a", i)), entryOf(fmt.Sprint("s", i), "x"))
		}
		cursor := &memoryCursor{t: t}
		p := startPipeline(t, later(resuming(data...)), cursor, stream.WriterOptions{})
		p.away("away")
		time.Sleep(time.Hour)
		assert.Len(t, p.written.all(), 600, "the others are not held up")
		assert.Zero(t, p.counted(t, "pending"))
		assert.Less(t, len(cursor.saved()), 100)
		assert.Equal(t, p.failed.Load(), p.writer.Stats().Failures)
		p.end()

		p = startPipeline(t, resuming(data...), cursor, stream.WriterOptions{})
		time.Sleep(time.Hour)
		written := strings.Join(p.written.all(), " ")
		want := many(600, func(i int) string { return fmt.Sprint("a", i) })
		assert.Equal(t, strings.Join(want, " "), strings.ReplaceAll(written, "away/: ", ""))
		assert.Less(t, len(p.written.all()), 10, "merged")
	})
}

// A refusal for good counts as one, too, when entries that failed before are read again.
func TestWriter_countsRefusedEntriesWhenTheyAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := &memoryCursor{t: t}
		p := startPipeline(t, later(resuming(entryOf("s1", "a"), entryOf("s2", "x"))), cursor, stream.WriterOptions{})
		p.away("s1")
		time.Sleep(time.Hour)
		require.Zero(t, p.counted(t, "pending"), "it has fallen behind")
		refuse := func(activity.Batch) error { return stream.Permanent(errors.New("no such conversation")) }
		p.fail.Store(&refuse)
		time.Sleep(time.Hour)
		assert.Equal(t, uint64(1), p.writer.Stats().Refused)
		assert.InDelta(t, 1, p.counted(t, "skipped_total", "refused"), 0)
		assert.Equal(t, "after 2", place(t, cursor.saved()))
	})
}

// Users outside any session share a place in the log. One whose writes fail makes nobody else's be repeated.
func TestWriter_writesOnceOutsideSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resuming(entryBy("ada", "a"), entryBy("bob", "b"), entryBy("bob", "c"))
		p := startPipeline(t, later(s), nil, stream.WriterOptions{})
		away := func(b activity.Batch) error {
			if b.UserID == "ada" {
				return errors.New("away")
			}
			return nil
		}
		p.fail.Store(&away)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"/: b", "/: c"}, p.written.all())
		p.fail.Store(nil)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"/: b", "/: c", "/: a"}, p.written.all())
		p.counts(t, map[string]float64{"acknowledged_total": 3, "behind": 0})
	})
}

// entryBy returns the data of a user's batch outside any session.
func entryBy(userID, title string) string {
	return fmt.Sprintf(`{"type":"actions","user_id":%q,"actions":[{"user_id":%[1]q,"title":%q}]}`, userID, title)
}

func TestDelivery_Done_countsOnceAndSkipsPermanentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursor := &memoryCursor{t: t}
		var deliveries []*stream.Delivery
		s := resuming(entryOf("s1", "a"), entryOf("s1", "b"), `{"type":"summary","session_id":"s1"}`,
			`{"type":"erase","user_id":"ada","session_ids":["s1","s2"]}`)
		c := s.consume(t, stream.Handlers{Deliver: func(_ context.Context, d *stream.Delivery) error {
			deliveries = append(deliveries, d)
			return nil
		}}, stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0), IdleTimeout: forever})
		synctest.Wait()
		require.Len(t, deliveries, 6)
		_, err := deliveries[2].Batch()
		require.Error(t, err, "it is a summary")
		deliveries[1].Done(nil)
		assert.Equal(t, "since 0", place(t, cursor.saved()), "the one before is not finished")
		deliveries[0].Done(stream.Permanent(errors.New("no such conversation")))
		assert.Equal(t, "after 2", place(t, cursor.saved()))
		deliveries[0].Done(errors.New("too late"))
		deliveries[2].Done(nil)
		deliveries[2].Done(nil)
		assert.Equal(t, "after 3", place(t, cursor.saved()))
		assert.InDelta(t, 2, c.counted(t, "acknowledged_total"), 0)
		deliveries[4].Done(stream.Permanent(errors.New("no such table"))) // the part of s1
		deliveries[4].Done(nil)
		deliveries[3].Done(nil)
		assert.Equal(t, "after 3", place(t, cursor.saved()), "the part of s2 is not finished")
		deliveries[5].Done(nil)
		assert.Equal(t, "after 4", place(t, cursor.saved()))
		assert.InDelta(t, 2, c.counted(t, "skipped_total", "refused"), 0)
		assert.Contains(t, c.log.String(), "no such table")
		assert.Zero(t, c.counted(t, "pending"))
	})
}

// Deliveries before the one that is held, or has failed, stay in flight.
func TestDelivery_fallsBehindWithoutEarlierOnes(t *testing.T) {
	for name, fall := range map[string]func(d *stream.Delivery){
		"held":   func(d *stream.Delivery) { d.Hold(nil)() },
		"failed": func(d *stream.Delivery) { d.Done(errors.New("away")) },
	} {
		inBubble(t, name, func(t *testing.T) {
			var n notes
			var first *stream.Delivery
			c := resuming(entryOf("s1", "a"), entryOf("s1", "b")).consume(t, stream.Handlers{
				Deliver: func(_ context.Context, d *stream.Delivery) error {
					n.add("%s", d.ID)
					switch len(n.all()) {
					case 1:
						first = d
					case 2:
						fall(d)
					default:
						d.Done(nil)
					}
					return nil
				}}, stream.ConsumerOptions{Since: time.Unix(0, 0), IdleTimeout: forever})
			time.Sleep(time.Hour)
			require.Equal(t, []string{"1", "2"}, n.all(), "the next one waits")
			first.Done(nil)
			time.Sleep(time.Hour)
			assert.Equal(t, []string{"1", "2", "2"}, n.all())
			c.counts(t, map[string]float64{"acknowledged_total": 2, "pending": 0, "behind": 0})
		})
	}
}

func TestConsumer_boundsHeldEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resuming(many(10, func(i int) string { return entryOf(fmt.Sprint("s", i), "a") })...)
		cursor := &memoryCursor{t: t}
		c := s.consume(t, stream.Handlers{Deliver: func(_ context.Context, d *stream.Delivery) error {
			d.Hold(nil)
			return nil
		}}, stream.ConsumerOptions{Cursor: cursor, Since: time.Unix(0, 0), IdleTimeout: forever, MaxBehind: 3})
		synctest.Wait()
		assert.InDelta(t, 7, c.counted(t, "skipped_total", "held_too_long"), 0)
		assert.Equal(t, 1, strings.Count(c.log.String(), "level=WARN"), "logged once")
		assert.Equal(t, "after 7", place(t, cursor.saved()), "the last three are held")
	})
}
