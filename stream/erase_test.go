package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

func clicksOf(session, user string, labels ...string) activity.Batch {
	var actions []activity.Action
	for _, label := range labels {
		actions = append(actions, activitytest.Click(time.Now(), label, "https://app.example.com/"))
	}
	return activitytest.NewBatch(streamtest.DefaultProductID, session, user, actions...)
}

// store notes what it is given. While it is away it takes no batch, and while it is broken no erasure.
type store struct {
	notes
	away, broken atomic.Bool
}

func (s *store) write(_ context.Context, b activity.Batch) error {
	if s.away.Load() {
		return errors.New("away")
	}
	s.add("%s %s", b.SessionID, strings.Join(activitytest.Titles(b), " "))
	return nil
}

func (s *store) erase(_ context.Context, e stream.Erasure) error {
	if s.broken.Load() {
		return errors.New("broken")
	}
	s.add("erase %s %s %d", e.UserID, strings.Join(e.SessionIDs, " "), len(e.Kept))
	return nil
}

// of returns what it was given of a session.
func (s *store) of(session string) []string {
	return slices.DeleteFunc(s.all(), func(line string) bool { return !strings.Contains(line, session) })
}

// consumeNew consumes a new stream until the test, which is in a bubble, ends.
func consumeNew(t *testing.T, handlers stream.Handlers, opts stream.ConsumerOptions) (*streamtest.Server, *running) {
	t.Helper()
	s := newStream(t, &streamtest.ServerOptions{InMemory: true})
	opts.Client, opts.Since = s.Client(), time.Unix(0, 0)
	return s, startConsumer(t, s.URL(), handlers, opts)
}

// intoAStore runs a test in a bubble with a new stream, whose consumer hands its entries to a store
// itself, or to the store's writer.
func intoAStore(t *testing.T, maxPending int, test func(t *testing.T, s *streamtest.Server, c *running, did *store)) {
	for _, name := range []string{"consumer", "writer"} {
		inBubble(t, name, func(t *testing.T) {
			did := &store{}
			handlers := stream.Handlers{Actions: did.write, Erase: did.erase}
			if name == "writer" {
				w := musttest.New(stream.NewWriter(did.write, &stream.WriterOptions{Erase: did.erase, MaxPending: maxPending}))
				waittest.Run(t, w.Run)
				handlers = stream.Handlers{Deliver: w.Deliver}
			}
			s, c := consumeNew(t, handlers, stream.ConsumerOptions{MaxPending: maxPending})
			test(t, s, c, did)
		})
	}
}

// In each session an erasure comes after the earlier entries, however long they are retried.
func TestConsumer_handsAnErasureToEachSessionInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		did.away.Store(true)
		s, _ := consumeNew(t, stream.Handlers{Actions: did.write, Erase: did.erase,
			Raw: func(_ context.Context, m stream.Message) error { did.add("raw %s", m.Type); return nil },
		}, stream.ConsumerOptions{})
		s.Send(clicksOf("s1", "ada", "a"))
		time.Sleep(time.Second / 2) // after an attempt
		s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"},
			Kept: map[string][]string{"s2": {"bob"}, "s3": {"ada"}}})
		s.Send(clicksOf("s1", "ada", "b"))
		time.Sleep(10 * time.Second)
		did.away.Store(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click b"}, did.of("s1"))
		assert.ElementsMatch(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click b", "erase ada s2 1", "erase ada  1",
			"raw actions", "raw erase", "raw actions"}, did.all())
	})
}

// An outage of the store while an erasure arrives does not move the erasure behind the session's later
// entries, of which it would erase more than it should.
func TestErasure_staysBeforeTheLaterEntriesOfASession(t *testing.T) {
	intoAStore(t, 0, func(t *testing.T, s *streamtest.Server, _ *running, did *store) {
		s.Send(clicksOf("s1", "ada", "a"))
		time.Sleep(time.Minute)
		did.away.Store(true)
		did.broken.Store(true)
		s.Send(clicksOf("", "bob", "b"))
		time.Sleep(10 * time.Minute) // entries without a session are behind
		s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"}})
		time.Sleep(10 * time.Minute)
		s.Send(clicksOf("s1", "eve", "c"))
		time.Sleep(time.Second)
		did.away.Store(false)
		did.broken.Store(false)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click c"}, did.of("s1"))
		assert.Len(t, did.all(), 6, "each once")
	})
}

// Actions that wait to be written when their user is erased are never written. Other users' actions
// are, even if the erasure is refused.
func TestWriter_leavesOutErasedActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		w := musttest.New(stream.NewWriter(did.write, &stream.WriterOptions{Debounce: time.Minute,
			Summarizer: musttest.New(stream.NewSummarizer(func(_ context.Context, sum stream.Summary) error {
				did.add("sum %s %d", sum.SessionID, sum.Replaces)
				return nil
			}, &stream.SummarizerOptions{Threshold: 3})),
			Erase: func(ctx context.Context, e stream.Erasure) error {
				if slices.Contains(e.SessionIDs, "s2") {
					return errors.Join(did.erase(ctx, e), stream.Permanent(errors.New("no such person")))
				}
				return did.erase(ctx, e)
			}}))
		waittest.Run(t, w.Run)
		s, r := consumeNew(t, stream.Handlers{Deliver: w.Deliver}, stream.ConsumerOptions{})
		s.Send(clicksOf("s1", "ada", "a", "b"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"s1 Click a Click b"}, did.all())
		s.Send(clicksOf("s1", "ada", "c"), clicksOf("s2", "ada", "d"), clicksOf("s2", "bob", "e"))
		time.Sleep(time.Second)
		require.EqualValues(t, 3, w.Stats().Pending)
		s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"}, Kept: map[string][]string{"s2": {"bob"}}})
		s.Send(clicksOf("s1", "ada", "f"))
		time.Sleep(time.Hour)
		assert.ElementsMatch(t, []string{"s1 Click a Click b", "erase ada s1 0", "erase ada s2 1", "erase ada  0",
			"s2 Click e", "s1 Click f"}, did.all())
		assert.EqualValues(t, 1, r.Stats().SkippedRefused, "the batches before the refused erasure are written")
	})
}

// An erasure of a session ends its link: later actions there wait for another one.
func TestWriter_endsTheLinkOfAnErasedSession(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{AwaitLink: true}, func(t *testing.T, w *writing) {
		require.NoError(t, w.SessionLinked(t.Context(), "s1", "c1"))
		require.NoError(t, w.SessionLinked(t.Context(), "s2", "c2"))
		erasure := chunk{text: "event: erase\nid: 1\n" +
			`data: {"product_id":"acme","user_id":"ada","session_ids":["s1"]}` + "\n\n"}
		serving(erasure).consume(t, stream.Handlers{Deliver: w.Deliver}, stream.ConsumerOptions{IdleTimeout: forever})
		w.after(time.Minute)
		w.add(clicksOf("s1", "eve", "a"), clicksOf("s2", "bob", "b"))
		require.Equal(t, []string{"1m0s write s2: b"}, w.after(time.Hour))
		require.NoError(t, w.SessionLinked(t.Context(), "s1", "c3"))
		require.Equal(t, []string{"1h0m0s write s1: a"}, w.after(2*time.Hour))
	})
}

// readers is a source of which each reader reads as its function says, and nothing more.
type readers struct {
	came  atomic.Int32
	reads []reading
}

type reading func(ctx context.Context, deliver func(feed.Event) error) error

func (s *readers) Follow(ctx context.Context, _ string, _ time.Time, deliver func(feed.Event) error) error {
	if n := int(s.came.Add(1)); n <= len(s.reads) {
		if err := s.reads[n-1](ctx, deliver); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func clickAt(id, label string) feed.Event {
	return feed.Event{Message: feed.NewMessage(id, musttest.New(json.Marshal(clicksOf("s1", "ada", label))))}
}

func erasureAt(id string) feed.Event {
	return feed.Event{Message: feed.NewErase(id, []byte(`{"product_id":"acme","user_id":"ada","session_ids":["s1"]}`))}
}

// failingOnce makes the first batch fail, and the others take a second.
func (s *store) failingOnce() func(context.Context, activity.Batch) error {
	var calls atomic.Int32
	return func(ctx context.Context, b activity.Batch) error {
		if calls.Add(1) == 1 {
			return errors.New("away")
		}
		time.Sleep(time.Second)
		return s.write(ctx, b)
	}
}

// The second reader has read both clicks before the erasure, and delivers one after it.
func TestConsumer_handsNothingOlderAfterAnErasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		reread, erased := make(chan struct{}), make(chan struct{})
		c := musttest.New(stream.NewSourceConsumer(&readers{reads: []reading{
			func(_ context.Context, deliver func(feed.Event) error) error {
				err := errors.Join(deliver(clickAt("1-0", "a")), deliver(clickAt("2-0", "b")))
				<-reread
				return errors.Join(err, deliver(erasureAt("3-0")))
			},
			func(ctx context.Context, deliver func(feed.Event) error) error {
				err := deliver(clickAt("1-0", "a"))
				close(reread)
				select {
				case <-erased:
					return errors.Join(err, deliver(clickAt("2-0", "b")))
				case <-ctx.Done():
					return err
				}
			},
		}}, stream.Handlers{Actions: did.failingOnce(), Erase: func(ctx context.Context, e stream.Erasure) error {
			if len(e.SessionIDs) > 0 {
				defer close(erased)
			}
			return did.erase(ctx, e)
		}}, &stream.ConsumerOptions{Since: time.Unix(0, 0), ParkAfter: time.Millisecond}))
		waittest.Run(t, c.Run)
		time.Sleep(time.Minute)
		assert.Contains(t, did.all(), "erase ada s1 0")
		assert.NotContains(t, did.all(), "s1 Click b")
	})
}

// A pass that reads faster than the live reader does not overtake an erasure.
func TestConsumer_handsNothingNewerBeforeAnErasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		c := musttest.New(stream.NewSourceConsumer(&readers{reads: []reading{
			func(_ context.Context, deliver func(feed.Event) error) error {
				err := deliver(clickAt("1-0", "a"))
				time.Sleep(time.Hour)
				return errors.Join(err, deliver(erasureAt("2-0")), deliver(clickAt("3-0", "c")))
			},
			func(_ context.Context, deliver func(feed.Event) error) error {
				return errors.Join(deliver(clickAt("1-0", "a")), deliver(clickAt("3-0", "c")))
			},
		}}, stream.Handlers{Actions: did.failingOnce(), Erase: did.erase},
			&stream.ConsumerOptions{Since: time.Unix(0, 0), ParkAfter: time.Millisecond}))
		waittest.Run(t, c.Run)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click c"}, did.of("s1"))
	})
}

// Erasures that fail for good do not fill the room of other sessions.
func TestConsumer_letsErasuresFallBehindThatHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		did.broken.Store(true)
		s, _ := consumeNew(t, stream.Handlers{Actions: did.write, Erase: did.erase}, stream.ConsumerOptions{MaxPending: 8})
		for i := range 20 {
			s.SendErase(stream.Erasure{UserID: fmt.Sprint("u", i), SessionIDs: []string{fmt.Sprint("s", i)}})
		}
		s.Send(clicksOf("here", "bob", "a"))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"here Click a"}, did.all())
	})
}

// An erasure that waits together with an entry which is read again is retried in place.
func TestWriter_retriesAnErasureAfterAnEntryReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did store
		did.away.Store(true)
		did.broken.Store(true)
		w := musttest.New(stream.NewWriter(did.write, &stream.WriterOptions{ParkAfter: time.Millisecond, Erase: did.erase}))
		waittest.Run(t, w.Run)
		c := musttest.New(stream.NewSourceConsumer(&readers{reads: []reading{
			func(_ context.Context, deliver func(feed.Event) error) error {
				err := errors.Join(deliver(clickAt("1-0", "a")), deliver(clickAt("2-0", "b")))
				time.Sleep(time.Minute)
				return errors.Join(err, deliver(erasureAt("3-0")))
			},
			func(_ context.Context, deliver func(feed.Event) error) error {
				time.Sleep(25 * time.Second) // 5 s before the erasure
				return deliver(clickAt("1-0", "a"))
			},
		}}, stream.Handlers{Deliver: w.Deliver}, &stream.ConsumerOptions{Since: time.Unix(0, 0)}))
		waittest.Run(t, c.Run)
		time.Sleep(time.Hour)
		did.broken.Store(false)
		time.Sleep(time.Hour)
		assert.Contains(t, did.all(), "erase ada s1 0")
	})
}

// Entries that wait behind a refused erasure must not fill the room of everything else.
func TestErasure_thatKeepsFailingDoesNotStopOtherSessions(t *testing.T) {
	intoAStore(t, 8, func(t *testing.T, s *streamtest.Server, c *running, did *store) {
		did.broken.Store(true)
		s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1"}})
		for range 20 {
			s.Send(clicksOf("s1", "eve", "a"))
		}
		s.Send(clicksOf("s2", "bob", "b"))
		time.Sleep(10 * time.Minute)
		assert.Contains(t, did.all(), "s2 Click b")
		did.broken.Store(false)
		time.Sleep(time.Hour)
		assert.Subset(t, did.all(), []string{"erase ada  0", "erase ada s1 0"})
		assert.Zero(t, c.counted(t, "behind"))
	})
}
