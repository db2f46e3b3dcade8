package stream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

type writing struct {
	*stream.Writer
	*journal
	give func(batches ...activity.Batch)
	stop func() error // ends Run

	mu      sync.Mutex
	takes   map[string]time.Duration // a write of a session
	fails   map[string]int           // how many writes of a session fail from now on
	refuses map[string]bool          // sessions whose writes fail for good
	batches []activity.Batch         // as written
	busy    map[string]bool          // sessions that are being written or overwritten
}

var errWrite = errors.New("store is down")

// newWriting returns a writer that does not run yet, and that gets the batches that a test adds.
func newWriting(t testing.TB, opts *stream.WriterOptions) *writing {
	t.Helper()
	w := &writing{journal: newJournal(), takes: map[string]time.Duration{}, fails: map[string]int{},
		refuses: map[string]bool{}, busy: map[string]bool{}}
	w.Writer = musttest.New(stream.NewWriter(w.write, opts))
	w.give = give(t, w.Writer)
	return w
}

// give returns a function that appends batches to a log, which a consumer reads for the writer.
func give(t testing.TB, w *stream.Writer) func(batches ...activity.Batch) {
	t.Helper()
	log := musttest.New(memorylog.New(nil))
	waittest.Run(t, musttest.New(stream.NewSourceConsumer(musttest.New(eventlog.NewSource(log, product)),
		stream.Handlers{Deliver: w.Deliver}, &stream.ConsumerOptions{Since: time.Unix(0, 0)})).Run)
	return func(batches ...activity.Batch) {
		entries := make([]eventlog.Entry, len(batches))
		for i, b := range batches {
			entries[i] = eventlog.Entry{SessionID: b.SessionID, Data: musttest.New(b.AppendJSON(nil))}
		}
		assert.NoError(t, log.Append(t.Context(), product, entries))
	}
}

// whileWriting runs a test in a bubble with a writer that runs.
func whileWriting(t *testing.T, opts *stream.WriterOptions, test func(t *testing.T, w *writing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, startWriting(t, opts)) })
}

func startWriting(t *testing.T, opts *stream.WriterOptions) *writing {
	t.Helper()
	w := newWriting(t, opts)
	w.run(t)
	return w
}

// run lets the writer run until the test ends, or until stopped.
func (w *writing) run(t *testing.T) {
	t.Helper()
	w.stop = waittest.Run(t, w.Run)
	t.Cleanup(func() { w.stopped(t) })
}

func (w *writing) stopped(t *testing.T) {
	t.Helper()
	require.ErrorIs(t, w.stop(), context.Canceled)
}

// enter notes that a session is being written or overwritten, which must not
// overlap. Batches outside any session may.
func (w *writing) enter(productID, sessionID string) (leave func()) {
	if sessionID == "" {
		return func() {}
	}
	key := productID + "/" + sessionID
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[key] {
		panic("calls for " + key + " overlap")
	}
	w.busy[key] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy[key] = false
	}
}

func (w *writing) write(ctx context.Context, b activity.Batch) error {
	defer w.enter(b.ProductID, b.SessionID)()
	w.note("write %s: %s", b.SessionID, labels(b))
	w.mu.Lock()
	takes := w.takes[b.SessionID]
	w.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		w.note("write: %v", ctx.Err())
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses[b.SessionID] {
		return stream.Permanent(errWrite)
	}
	if w.fails[b.SessionID] > 0 {
		w.fails[b.SessionID]--
		return errWrite
	}
	w.batches = append(w.batches, b)
	return nil
}

func (w *writing) overwrite(_ context.Context, s stream.Summary) error {
	defer w.enter(s.ProductID, s.SessionID)()
	w.note("overwrite %s: %d", s.SessionID, s.Replaces)
	time.Sleep(time.Second)
	w.note("overwritten")
	return nil
}

// add appends batches to the writer's stream, and returns when it has them and all is quiet.
func (w *writing) add(batches ...activity.Batch) {
	w.give(batches...)
	synctest.Wait()
}

// after waits until so long after the beginning, and until all is quiet, and returns the new lines of the journal.
func (w *writing) after(d time.Duration) []string {
	time.Sleep(time.Until(w.began.Add(d)))
	synctest.Wait()
	return w.take()
}

func TestWriter_mergesWaitingBatches(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{Debounce: time.Second}, func(t *testing.T, w *writing) {
		first, second := clicked("s", "a", "b"), clicked("s", "c")
		for _, actions := range [][]activity.BatchAction{first.Actions, second.Actions} {
			for i := range actions {
				actions[i].ID = "" // is not sent
			}
		}
		first.Actions[0].Index = 17 // counted over the session
		second.UserID, second.Email, second.ForwardedAt = "bob", "bob@example.com", first.ForwardedAt+1
		w.add(first, second)
		w.after(time.Minute)
		require.Equal(t, []activity.Batch{activity.Merge(first, second)}, w.batches)
		require.Equal(t, []int{0, 1, 2}, activitytest.Indexes(w.batches[0]))
		w.add(second)
		w.after(time.Hour)
		require.Equal(t, activity.Merge(second), w.batches[1], "one alone likewise")
	})
}

// The actions of a user without pauses are written, too.
func TestWriter_waitsForNoMoreThan500Actions(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{Debounce: 3 * time.Second}, func(t *testing.T, w *writing) {
		for range 12 { // a second apart
			w.add(clickedTimes("s", 100))
			time.Sleep(time.Second)
		}
		w.after(time.Minute)
		counts := []int{}
		for _, b := range w.batches {
			counts = append(counts, b.Count)
		}
		require.Equal(t, []int{500, 500, 200}, counts)
		w.take()
		w.began = time.Now()
		w.add(clickedTimes("s", 499))
		require.Empty(t, w.after(2*time.Second))
		w.add(clicked("s", "x"))
		require.Len(t, w.after(2*time.Second), 1)
	})
}

// Sessions of two products that have the same ID are not mixed; neither are actions outside any session.
func TestWriter_mergesOnlyBatchesOfOneSession(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{Debounce: time.Second}, func(t *testing.T, w *writing) {
		for _, label := range []string{"a", "b"} {
			for _, product := range []string{"acme", "beta"} {
				for _, who := range [][2]string{{"s", "ada"}, {"", "ada"}, {"", "bob"}, {"", ""}} {
					w.add(activitytest.NewBatch(product, who[0], who[1], activitytest.Click(time.Now(), label, "")))
				}
			}
		}
		w.after(time.Minute)
		var written []string
		for _, b := range w.batches {
			written = append(written, fmt.Sprintf("%s/%s/%s: %s", b.ProductID, b.SessionID, b.UserID, labels(b)))
		}
		require.ElementsMatch(t, []string{
			"acme/s/ada: a b", "acme//ada: a b", "acme//bob: a b", "acme//: a", "acme//: b",
			"beta/s/ada: a b", "beta//ada: a b", "beta//bob: a b", "beta//: a", "beta//: b",
		}, written)
	})
}

func TestWriter_gathersWhileItWrites(t *testing.T) {
	const s = time.Second
	cases := map[string]struct {
		debounce   time.Duration
		atB, atC   time.Duration // when more comes
		during     []string
		afterwards []string
	}{
		"at once": {0, s, 2 * s, []string{"0s write s: a"},
			[]string{"5s write s: b", "10s write s: c"}},
		"a pause that is over": {2 * s, 3 * s, 4 * s, []string{"2s write s: a"}, []string{"7s write s: b c"}},
		"a pause between the two": {2 * s, 3 * s, 6 * s, []string{"2s write s: a"},
			[]string{"7s write s: b", "12s write s: c"}},
		"a pause that ends with a write": {2 * s, 3 * s, 5 * s, []string{"2s write s: a"}, []string{"7s write s: b c"}},
	}
	for name, c := range cases {
		inBubble(t, name, func(t *testing.T) {
			w := startWriting(t, &stream.WriterOptions{Debounce: c.debounce})
			w.takes["s"] = 5 * time.Second
			w.add(clicked("s", "a"))
			time.Sleep(c.atB)
			w.add(clicked("s", "b"))
			require.Equal(t, c.during, w.after(c.atC))
			w.add(clicked("s", "c"))
			require.Equal(t, c.afterwards, w.after(time.Minute))
		})
	}
}

// What comes while a write is repeated is one batch.
func TestWriter_repeatsFailedWrites(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{ParkAfter: time.Hour}, func(t *testing.T, w *writing) {
		w.fails["s"] = 8
		w.add(clicked("s", "a"))
		require.Len(t, w.after(time.Second/2), 1)
		w.add(clicked("s", "b"), clicked("s", "c"))
		require.Len(t, w.after(2*time.Second), 1)
		require.Len(t, w.after(5*time.Second), 1)
		lines := w.after(96 * time.Second)
		require.Less(t, len(lines), 6, "the pauses are 121 s, give or take a fifth")
		require.Equal(t, append(slices.Repeat([]string{"write s: a"}, 6), "write s: b c"),
			withoutTimes(append(lines, w.after(150*time.Second)...)))
	})
}

func TestWriter_skipsRefusedBatchesAndCountsThem(t *testing.T) {
	whileWriting(t, nil, func(t *testing.T, w *writing) {
		w.fails["s"], w.refuses["gone"] = 1, true
		w.add(clicked("s", "a"), clicked("gone", "b"))
		require.NoError(t, w.Flush(t.Context()), "what was refused is done with")
		require.Equal(t, stream.WriterStats{Written: 1, Failures: 1, Refused: 1}, w.Stats())
	})
}

// Batches that were written before a restart are written again in the same parts, however fast a stream is read back.
func TestWriter_writesEntriesReadBackUnchanged(t *testing.T) {
	forwarded := func(second float64, label string) activity.Batch {
		b := clicked("s", label)
		b.ForwardedAt = second
		return b
	}
	seconds := []float64{100, 102, 105, 120, 122, 124, 126, 128, 130, 132}
	for debounce, want := range map[time.Duration]string{
		0:               "100|102|105|120|122|124|126|128|130|132",
		2 * time.Second: "100 102|105|120 122 124 126 128 130|132", // the first waits for at most 10 s
		time.Minute:     "100 102 105 120 122 124 126 128 130 132",
	} {
		inBubble(t, debounce.String(), func(t *testing.T) {
			w := startWriting(t, &stream.WriterOptions{Debounce: debounce})
			for _, second := range seconds {
				w.add(forwarded(second, fmt.Sprint(second)))
			}
			written := withoutTimes(w.after(2 * time.Minute))
			require.Equal(t, want, strings.ReplaceAll(strings.Join(written, "|"), "write s: ", ""))
		})
	}
}

func TestWriter_letsItsConsumerWait(t *testing.T) {
	for maxPending, room := range map[int]int{0: 512, 3: 3} {
		inBubble(t, fmt.Sprint(maxPending), func(t *testing.T) {
			w := newWriting(t, &stream.WriterOptions{MaxPending: maxPending})
			for n := range room + 1 {
				w.add(clicked(fmt.Sprint("s", n%7), "x"))
			}
			w.after(time.Hour)
			require.EqualValues(t, room, w.Stats().Pending)
			w.run(t)
			w.after(2 * time.Hour)
			require.Len(t, w.batches, room+1)
		})
	}
}

func TestWriter_flushesWhatWaits(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{Debounce: time.Minute}, func(t *testing.T, w *writing) {
		w.takes["s1"], w.takes["s2"] = 2*time.Second, 3*time.Second
		w.add(clicked("s1", "a"), clicked("s2", "a"), clicked("s1", "b"))
		require.NoError(t, w.Flush(t.Context()))
		require.Equal(t, 3*time.Second, time.Since(w.began), "with the writes")
		require.ElementsMatch(t, []string{"0s write s1: a b", "0s write s2: a"}, w.take())

		w.add(clicked("s1", "c"))
		require.Empty(t, w.after(10*time.Second), "the next waits again")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Flush(ctx), context.DeadlineExceeded)
	})
}

func TestWriter_RunReturnsAfterEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		w := musttest.New(stream.NewWriter(func(ctx context.Context, _ activity.Batch) error {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			return nil
		}, nil))
		give(t, w)(clicked("s", "a"))
		synctest.Wait()
		require.ErrorIs(t, w.Run(ended), context.Canceled)
		require.Zero(t, time.Since(began), "nothing is started after the end")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Run(ctx), context.DeadlineExceeded)
		require.Equal(t, 6*time.Second, time.Since(began))
		require.NoError(t, w.Flush(t.Context()), "it was written all the same")
	})
}

// linked is a batch that carries a conversation.
func linked(conversationID string, b activity.Batch) activity.Batch {
	b.ConversationID = conversationID
	return b
}

// conversations returns which conversation each written batch and its actions carry; they must agree.
func (w *writing) conversations(t *testing.T) []string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []string{}
	for _, b := range w.batches {
		list = append(list, b.ConversationID)
		for _, a := range b.Actions {
			require.Equal(t, b.ConversationID, a.ConversationID)
		}
	}
	return list
}

func TestWriter_withoutAwaitLinkWritesUnlinkedSessions(t *testing.T) {
	whileWriting(t, nil, func(t *testing.T, w *writing) {
		w.add(clicked("s", "a"))
		w.after(0)
		require.NoError(t, w.SessionLinked(t.Context(), "s", "c"))
		for _, b := range []activity.Batch{clicked("s", "b"), clicked("other", "x"), linked("d", clicked("other", "y")),
			clicked("other", "z")} {
			w.add(b)
			w.after(0)
		}
		require.Equal(t, []string{"", "c", "", "d", "d"}, w.conversations(t))
	})
}

func TestWriter_keepsTheFirstLink(t *testing.T) {
	for _, await := range []bool{true, false} {
		whileWriting(t, &stream.WriterOptions{AwaitLink: await}, func(t *testing.T, w *writing) {
			require.NoError(t, w.SessionLinked(t.Context(), "s", "c"))
			require.NoError(t, w.SessionLinked(t.Context(), "s", "c"), "the same again")
			err := w.SessionLinked(t.Context(), "s", "d")
			var refused *stream.LinkError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, stream.LinkError{SessionID: "s", ConversationID: "c"}, *refused)
			require.EqualError(t, err, `stream: session "s" is linked to conversation "c"`)
			b := linked("d", clicked("s", "a"))
			w.add(b)
			w.after(0)
			w.add(clicked("s", "b"))
			w.after(0)
			require.Equal(t, []string{"c", "c"}, w.conversations(t))
			require.Empty(t, b.Actions[0].ConversationID, "what was added is not changed")

			w.add(linked("e", clicked("s2", "a")))
			require.ErrorAs(t, w.SessionLinked(t.Context(), "s2", "c"), &refused)
			require.Equal(t, "e", refused.ConversationID, "linked by a batch")
			require.NoError(t, w.SessionLinked(t.Context(), "s2", "e"))
			w.after(0)
		})
	}
}

func TestWriter_refusesHalfALink(t *testing.T) {
	w := newWriting(t, &stream.WriterOptions{AwaitLink: true})
	require.Error(t, w.SessionLinked(t.Context(), "", "c"))
	require.Error(t, w.SessionLinked(t.Context(), "s", ""))
	require.NoError(t, w.SessionLinked(t.Context(), "s", "c"))
}

func TestWriter_forgetsTheLinksUsedLeastRecently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWriting(t, &stream.WriterOptions{MaxBytes: 1850}) // for three links
		for _, session := range []string{"s1", "s2", "s3", "s1", "s4"} {
			w.add(clicked("unlinked before "+session, "x")) // takes no memory
			require.NoError(t, w.SessionLinked(t.Context(), session, "c"))
		}
		for _, session := range []string{"s1", "s3", "s4"} {
			require.Error(t, w.SessionLinked(t.Context(), session, "another"), session)
		}
		require.NoError(t, w.SessionLinked(t.Context(), "s2", "another"))
	})
}

func TestWriter_cannotLinkWithoutASession(t *testing.T) {
	whileWriting(t, &stream.WriterOptions{AwaitLink: true, MaxPending: 1}, func(t *testing.T, w *writing) {
		w.add(clicked("", "a"), linked("c", clicked("", "b")))
		require.Equal(t, []string{"0s write : b"}, w.after(0))
		w.add(clicked("", "c"))
		require.Empty(t, w.after(0))
		require.Equal(t, []string{"c"}, w.conversations(t))
	})
}

// A link during a write, or while a write is repeated, is a link of later actions.
func TestWriter_linksWhileItWrites(t *testing.T) {
	whileWriting(t, nil, func(t *testing.T, w *writing) {
		w.fails["s"] = 1
		w.add(clicked("s", "a"))
		w.after(0)
		require.NoError(t, w.SessionLinked(t.Context(), "s", "c"))
		w.add(clicked("s", "b"))
		w.after(time.Minute)
		require.Equal(t, []string{"", "c"}, w.conversations(t))
	})
}

// sumUp lets a writer that does not run yet sum up at three actions, with a model if there is one.
func sumUp(t *testing.T, model func(context.Context, string) (string, error), opts stream.WriterOptions) (w *writing) {
	t.Helper()
	opts.Summarizer = musttest.New(stream.NewSummarizer(func(ctx context.Context, s stream.Summary) error {
		return w.overwrite(ctx, s)
	}, &stream.SummarizerOptions{Threshold: 3, Model: model}))
	w = newWriting(t, &opts)
	return w
}

// summingUp is a writer that runs, with a model that takes so long and shares its journal.
func summingUp(t *testing.T, takes time.Duration, opts stream.WriterOptions) (*writing, *fakeModel) {
	t.Helper()
	model := &fakeModel{takes: takes}
	w := sumUp(t, model.answer, opts)
	model.journal = w.journal
	w.run(t)
	return w, model
}

// The built-in summary covers the same actions however fast a stream is read back.
func TestWriter_sumsUpBeforeTheNextWriteWithoutAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sumUp(t, nil, stream.WriterOptions{})
		for _, label := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			w.add(clicked("s", label))
		}
		w.run(t)
		require.Equal(t, []string{"write s: a", "write s: b", "write s: c", "overwrite s: 3", "overwritten", "write s: d",
			"write s: e", "write s: f", "overwrite s: 3", "overwritten", "write s: g"}, withoutTimes(w.after(time.Minute)))
	})
}

// A summary replaces the actions that were written when the model was asked. It waits for a write
// in flight, as a write waits for it.
func TestWriter_writesOnWhileTheModelWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, model := summingUp(t, 10*time.Second, stream.WriterOptions{})
		w.add(clicked("s", "a", "b", "c"))
		require.Equal(t, []string{"0s write s: a b c", "0s model"}, w.after(time.Second))
		w.add(clicked("s", "d"))
		require.Equal(t, []string{"1s write s: d"}, w.after(8*time.Second))
		w.mu.Lock()
		w.takes["s"] = 4 * time.Second
		w.mu.Unlock()
		w.add(clicked("s", "e"))
		w.after(9 * time.Second)
		w.add(clicked("s", "f")) // waits for the write of e, then for the summary or not
		got := w.after(12*time.Second + time.Second/2)
		require.Equal(t, []string{"12s overwrite s: 3"}, got)
		require.Equal(t, []string{"13s overwritten", "13s write s: f"}, w.after(14*time.Second))
		require.Equal(t, []string{"17s model", "27s overwrite s: 3", "28s overwritten"}, w.after(time.Minute)[:3])
		require.Contains(t, model.lastPrompt(), "so far:\n<data>\nsummary 1")
		require.Contains(t, model.lastPrompt(), "clicked f on")
	})
}

func TestWriter_countsOnlyWrittenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := summingUp(t, 0, stream.WriterOptions{AwaitLink: true})
		w.add(clicked("s", "a", "b", "c", "d"))
		require.Empty(t, w.after(time.Minute))
		require.NoError(t, w.SessionLinked(t.Context(), "s", "c"))
		require.Equal(t, []string{"1m0s write s: a b c d", "1m0s model", "1m0s overwrite s: 4"}, w.after(time.Minute))
		w.after(2 * time.Minute)
		w.fails["s"] = 3
		w.add(clicked("s", "e", "f", "g"))
		for _, line := range w.after(2 * time.Minute) {
			require.Contains(t, line, "write s: e f g", "no summary of what is not written")
		}
		lines := withoutTimes(w.after(time.Hour))
		require.Equal(t, []string{"write s: e f g", "model", "overwrite s: 3", "overwritten"}, lines[len(lines)-4:])
	})
}

func TestWriter_stopsWhileItSumsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, model := summingUp(t, 10*time.Second, stream.WriterOptions{})
		w.add(clicked("s", "a", "b", "c"))
		time.Sleep(time.Second)
		w.stopped(t)
		require.Equal(t, time.Second, time.Since(w.began))
		require.Equal(t, []string{"0s write s: a b c", "0s model", "1s model: context canceled"}, w.take())
		model.takes = 0
		w.run(t)
		w.add(clicked("s", "d", "e", "f"))
		require.Equal(t, []string{"write s: d e f", "model", "overwrite s: 6", "overwritten"},
			withoutTimes(w.after(time.Minute)))
	})
}

// A summary that waits for a write in flight does not come after the end.
func TestWriter_stopsASummaryThatWaitsForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := summingUp(t, time.Second, stream.WriterOptions{})
		w.add(clicked("s", "a", "b", "c"))
		w.after(0)
		w.mu.Lock()
		w.takes["s"] = time.Hour
		w.mu.Unlock()
		w.add(clicked("s", "d"))
		w.after(2 * time.Second)
		w.stopped(t)
		require.Equal(t, 2*time.Second, time.Since(w.began))
		require.Equal(t, []string{"2s write: context canceled"}, w.take())
	})
}

// All actions are written once and in order while sessions, failing writes and summaries run at the same time.
func TestWriter_writesEverythingOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			w := sumUp(t, func(context.Context, string) (string, error) {
				time.Sleep(100 * time.Millisecond)
				return "x", nil
			}, stream.WriterOptions{Debounce: time.Duration(r.IntN(2)) * 50 * time.Millisecond, MaxPending: 1 + r.IntN(20)})
			w.run(t)
			var all sync.WaitGroup
			want := map[string][]string{}
			for n := range 5 {
				session := fmt.Sprint("s", n)
				pauses := make([]time.Duration, 60)
				for i := range pauses {
					pauses[i] = time.Duration(r.IntN(200)) * time.Millisecond
					want[session] = append(want[session], fmt.Sprint("Click ", i))
				}
				w.mu.Lock()
				w.fails[session], w.takes[session] = r.IntN(4), time.Duration(r.IntN(100))*time.Millisecond
				w.mu.Unlock()
				all.Go(func() {
					for i, pause := range pauses {
						time.Sleep(pause)
						w.give(clicked(session, fmt.Sprint(i)))
					}
				})
			}
			all.Wait()
			w.after(time.Hour)
			got := map[string][]string{}
			for _, b := range w.batches {
				got[b.SessionID] = append(got[b.SessionID], activitytest.Titles(b)...)
			}
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			require.Equal(t, want, got)
		})
	}
}
