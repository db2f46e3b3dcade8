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

// clicksOf is a batch of clicks of a user in a session.
func clicksOf(session, user string, labels ...string) activity.Batch {
	var actions []activity.Action
	for _, label := range labels {
		actions = append(actions, activitytest.Click(time.Now(), label, "https://app.example.com/"))
	}
	return activitytest.NewBatch(streamtest.DefaultProductID, session, user, actions...)
}

func (n *notes) erasure(e stream.Erasure) {
	n.add("erase %s %s %d", e.UserID, strings.Join(e.SessionIDs, " "), len(e.Kept))
}

// In each session an erasure comes after the earlier entries, however long they are retried.
func TestConsumer_handsAnErasureToEachSessionInItsOrder(t *testing.T) {
	s := newStream(t, nil)
	var did notes
	var fails atomic.Int32
	fails.Store(20)
	opts := quick()
	opts.Client = s.Client()
	opts.Since = time.Unix(0, 0)
	r := startConsumer(t, s.URL(), stream.Handlers{
		Actions: func(_ context.Context, b activity.Batch) error {
			if b.SessionID == "s1" && fails.Add(-1) >= 0 {
				return errors.New("away")
			}
			did.add("%s %s", b.SessionID, strings.Join(activitytest.Titles(b), " "))
			return nil
		},
		Erase: func(_ context.Context, e stream.Erasure) error { did.erasure(e); return nil },
		Raw:   func(_ context.Context, m stream.Message) error { did.add("raw %s", m.Type); return nil },
	}, opts)
	defer r.stop(t)
	s.Send(clicksOf("s1", "ada", "a"))
	waittest.Until(t, "an attempt", func() bool { return fails.Load() < 20 })
	s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"},
		Kept: map[string][]string{"s2": {"bob"}, "s3": {"ada"}}})
	s.Send(clicksOf("s1", "ada", "b"))
	waittest.Until(t, "all of it", func() bool { return len(did.all()) == 8 })
	var first []string
	raw := 0
	for _, line := range did.all() {
		if strings.HasPrefix(line, "s1") || strings.HasPrefix(line, "erase ada s1") {
			first = append(first, line)
		}
		if line == "raw erase" {
			raw++
		}
	}
	assert.Equal(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click b"}, first)
	assert.Subset(t, did.all(), []string{"erase ada s2 1", "erase ada  1"})
	assert.Equal(t, 1, raw)
}

// An outage of the store while an erasure arrives does not move the erasure behind the session's later
// entries, of which it would erase more than it should.
func TestErasure_staysBeforeTheLaterEntriesOfASession(t *testing.T) {
	for _, name := range []string{"consumer", "writer"} {
		inBubble(t, name, func(t *testing.T) {
			s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{InMemory: true}))
			defer s.Close()
			var did notes
			var away atomic.Bool
			unlessAway := func(note func()) error {
				if away.Load() {
					return errors.New("away")
				}
				note()
				return nil
			}
			handlers := stream.Handlers{
				Actions: func(_ context.Context, b activity.Batch) error {
					return unlessAway(func() { did.add("%s %s", b.SessionID, strings.Join(activitytest.Titles(b), " ")) })
				},
				Erase: func(_ context.Context, e stream.Erasure) error { return unlessAway(func() { did.erasure(e) }) },
			}
			if name == "writer" {
				w := musttest.New(stream.NewWriter(handlers.Actions, &stream.WriterOptions{Erase: handlers.Erase}))
				waittest.Run(t, w.Run)
				handlers = stream.Handlers{Deliver: w.Deliver}
			}
			startConsumer(t, s.URL(), handlers, stream.ConsumerOptions{Client: s.Client(), Since: time.Unix(0, 0)})
			s.Send(clicksOf("s1", "ada", "a"))
			time.Sleep(time.Minute)
			away.Store(true)
			s.Send(clicksOf("", "bob", "b"))
			time.Sleep(10 * time.Minute) // entries without a session are behind
			s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"}})
			time.Sleep(10 * time.Minute)
			s.Send(clicksOf("s1", "eve", "c"))
			time.Sleep(time.Second)
			away.Store(false)
			time.Sleep(time.Hour)
			in1 := slices.DeleteFunc(did.all(), func(line string) bool { return !strings.Contains(line, "s1") })
			assert.Equal(t, []string{"s1 Click a", "erase ada s1 0", "s1 Click c"}, in1)
			assert.Len(t, did.all(), 6, "each once")
		})
	}
}

// Actions that wait to be written when their user is erased are never written. Other users' actions
// are, even if the erasure is refused.
func TestWriter_leavesOutErasedActions(t *testing.T) {
	s := newStream(t, nil)
	var did notes
	sums := musttest.New(stream.NewSummarizer(func(_ context.Context, sum stream.Summary) error {
		did.add("sum %s %d", sum.SessionID, sum.Replaces)
		return nil
	}, &stream.SummarizerOptions{Threshold: 3}))
	w := musttest.New(stream.NewWriter(func(_ context.Context, b activity.Batch) error {
		did.add("%s %s", b.SessionID, strings.Join(activitytest.Titles(b), " "))
		return nil
	}, &stream.WriterOptions{Debounce: 300 * time.Millisecond, Summarizer: sums,
		Erase: func(_ context.Context, e stream.Erasure) error {
			did.erasure(e)
			if slices.Contains(e.SessionIDs, "s2") {
				return stream.Permanent(errors.New("no such person"))
			}
			return nil
		}}))
	waittest.Run(t, w.Run)
	opts := quick()
	opts.Client, opts.Since = s.Client(), time.Unix(0, 0)
	r := startConsumer(t, s.URL(), stream.Handlers{Deliver: w.Deliver}, opts)
	s.Send(clicksOf("s1", "ada", "a", "b"))
	did.become(t, "s1 Click a Click b")
	s.Send(clicksOf("s1", "ada", "c"), clicksOf("s2", "ada", "d"), clicksOf("s2", "bob", "e"))
	waittest.Until(t, "what waits", func() bool { return w.Stats().Pending == 3 })
	s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"}, Kept: map[string][]string{"s2": {"bob"}}})
	s.Send(clicksOf("s1", "ada", "f"))
	waittest.Until(t, "all of it", func() bool { return len(did.all()) == 6 })
	assert.ElementsMatch(t, []string{"s1 Click a Click b", "erase ada s1 0", "erase ada s2 1", "erase ada  0",
		"s2 Click e", "s1 Click f"}, did.all())
	r.stop(t)
	assert.EqualValues(t, 1, r.Stats().SkippedRefused, "the batches before the refused erasure are written")
}

// An erasure of a session ends its link: later actions there wait for another one.
func TestWriter_endsTheLinkOfAnErasedSession(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{AwaitLink: true}, func(t *testing.T, w *writing) {
		require.NoError(t, w.SessionLinked(t.Context(), "s1", "c1"))
		require.NoError(t, w.SessionLinked(t.Context(), "s2", "c2"))
		erasure := chunk{text: "event: erase\nid: 1\n" +
			`data: {"product_id":"acme","user_id":"ada","session_ids":["s1"]}` + "\n\n"}
		startConsumer(t, fakeURL, stream.Handlers{Deliver: w.Deliver},
			stream.ConsumerOptions{Client: serving(erasure).client(), IdleTimeout: forever})
		w.after(time.Minute)
		w.add(clicksOf("s1", "eve", "a"), clicksOf("s2", "bob", "b"))
		require.Equal(t, []string{"1m0s write s2: b"}, w.after(time.Hour))
		require.NoError(t, w.SessionLinked(t.Context(), "s1", "c3"))
		require.Equal(t, []string{"1h0m0s write s1: a"}, w.after(2*time.Hour))
	})
}

// rereadSource is a log of two clicks and then their erasure. Its second reader has read both
// clicks before the erasure, and delivers the second of them after it, if it may.
type rereadSource struct {
	readers        atomic.Int32
	reread, erased chan struct{}
}

func (s *rereadSource) Follow(ctx context.Context, _ string, _ time.Time,
	deliver func(feed.Event) error) error {
	click := func(id, label string) error {
		data := musttest.New(json.Marshal(clicksOf("s1", "ada", label)))
		return deliver(feed.Event{Message: feed.NewMessage(id, data)})
	}
	switch s.readers.Add(1) {
	case 1:
		erasure := `{"type":"erase","product_id":"acme","user_id":"ada","session_ids":["s1"]}`
		for _, err := range []error{click("1-0", "a"), click("2-0", "b")} {
			if err != nil {
				return err
			}
		}
		<-s.reread
		if err := deliver(feed.Event{Message: feed.NewErase("3-0", []byte(erasure))}); err != nil {
			return err
		}
	case 2:
		err := click("1-0", "a")
		close(s.reread)
		if err != nil {
			return err
		}
		select {
		case <-s.erased:
			if err := click("2-0", "b"); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// Entries that were read before an erasure do not come after it.
func TestConsumer_handsNothingOlderAfterAnErasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &rereadSource{reread: make(chan struct{}), erased: make(chan struct{})}
		var did notes
		var fails atomic.Int32
		c := musttest.New(stream.NewSourceConsumer(source, stream.Handlers{
			Actions: func(_ context.Context, b activity.Batch) error {
				if fails.Add(1) == 1 {
					return errors.New("away")
				}
				did.add("%s", strings.Join(activitytest.Titles(b), " "))
				return nil
			},
			Erase: func(_ context.Context, e stream.Erasure) error {
				did.erasure(e)
				if len(e.SessionIDs) > 0 {
					close(source.erased)
				}
				return nil
			},
		}, &stream.ConsumerOptions{Since: time.Unix(0, 0), ParkAfter: time.Millisecond}))
		stop := waittest.Run(t, c.Run)
		time.Sleep(time.Minute)
		require.ErrorIs(t, stop(), context.Canceled)
		assert.Contains(t, did.all(), "erase ada s1 0")
		assert.NotContains(t, did.all(), "Click b")
	})
}

// readers is a source of which each reader reads as its function says, and nothing more.
type readers struct {
	came  atomic.Int32
	reads []func(ctx context.Context, deliver func(feed.Event) error) error
}

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

// A pass that reads faster than the live reader does not overtake an erasure.
func TestConsumer_handsNothingNewerBeforeAnErasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did notes
		var calls atomic.Int32
		c := musttest.New(stream.NewSourceConsumer(&readers{reads: []func(context.Context, func(feed.Event) error) error{
			func(_ context.Context, deliver func(feed.Event) error) error {
				err := deliver(clickAt("1-0", "a"))
				time.Sleep(time.Hour)
				return errors.Join(err, deliver(erasureAt("2-0")), deliver(clickAt("3-0", "c")))
			},
			func(_ context.Context, deliver func(feed.Event) error) error {
				return errors.Join(deliver(clickAt("1-0", "a")), deliver(clickAt("3-0", "c")))
			},
		}}, stream.Handlers{
			Actions: func(_ context.Context, b activity.Batch) error {
				if calls.Add(1) == 1 {
					return errors.New("away")
				}
				time.Sleep(time.Second)
				did.add("%s", strings.Join(activitytest.Titles(b), " "))
				return nil
			},
			Erase: func(_ context.Context, e stream.Erasure) error { did.erasure(e); return nil },
		}, &stream.ConsumerOptions{Since: time.Unix(0, 0), ParkAfter: time.Millisecond}))
		waittest.Run(t, c.Run)
		time.Sleep(2 * time.Hour)
		inSession := slices.DeleteFunc(did.all(), func(line string) bool { return line == "erase ada  0" })
		assert.Equal(t, []string{"Click a", "erase ada s1 0", "Click c"}, inSession)
	})
}

// Erasures that fail for good do not fill the room of other sessions.
func TestConsumer_letsErasuresFallBehindThatHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{InMemory: true}))
		defer s.Close()
		var did notes
		handlers := did.everything(nil)
		handlers.Raw = nil
		handlers.Erase = func(context.Context, stream.Erasure) error { return errors.New("no such table") }
		startConsumer(t, s.URL(), handlers, stream.ConsumerOptions{Client: s.Client(), Since: time.Unix(0, 0), MaxPending: 8})
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
		var did notes
		var away atomic.Bool
		away.Store(true)
		w := musttest.New(stream.NewWriter(func(context.Context, activity.Batch) error { return errors.New("away") },
			&stream.WriterOptions{ParkAfter: time.Millisecond, Erase: func(_ context.Context, e stream.Erasure) error {
				if away.Load() {
					return errors.New("away")
				}
				did.erasure(e)
				return nil
			}}))
		waittest.Run(t, w.Run)
		c := musttest.New(stream.NewSourceConsumer(&readers{reads: []func(context.Context, func(feed.Event) error) error{
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
		away.Store(false)
		time.Sleep(time.Hour)
		assert.Contains(t, did.all(), "erase ada s1 0")
	})
}

// Entries that wait behind a refused erasure must not fill the room of everything else.
func TestErasure_thatKeepsFailingDoesNotStopOtherSessions(t *testing.T) {
	for _, name := range []string{"consumer", "writer"} {
		inBubble(t, name, func(t *testing.T) {
			s := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{InMemory: true}))
			defer s.Close()
			var did notes
			var broken atomic.Bool
			broken.Store(true)
			handlers := stream.Handlers{
				Actions: func(_ context.Context, b activity.Batch) error {
					did.add("%s %s", b.SessionID, strings.Join(activitytest.Titles(b), " "))
					return nil
				},
				Erase: func(_ context.Context, e stream.Erasure) error {
					if broken.Load() {
						return errors.New("broken")
					}
					did.erasure(e)
					return nil
				},
			}
			if name == "writer" {
				w := musttest.New(stream.NewWriter(handlers.Actions, &stream.WriterOptions{Erase: handlers.Erase, MaxPending: 8}))
				waittest.Run(t, w.Run)
				handlers = stream.Handlers{Deliver: w.Deliver}
			}
			c := startConsumer(t, s.URL(), handlers,
				stream.ConsumerOptions{Client: s.Client(), Since: time.Unix(0, 0), MaxPending: 8})
			s.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1"}})
			for range 20 {
				s.Send(clicksOf("s1", "eve", "a"))
			}
			s.Send(clicksOf("s2", "bob", "b"))
			time.Sleep(10 * time.Minute)
			assert.Contains(t, did.all(), "s2 Click b")
			broken.Store(false)
			time.Sleep(time.Hour)
			assert.Subset(t, did.all(), []string{"erase ada  0", "erase ada s1 0"})
			assert.Zero(t, c.counted(t, "behind"))
		})
	}
}
