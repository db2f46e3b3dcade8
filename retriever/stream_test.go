package retriever_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/feed"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/internal/waittest"
	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
	"github.com/liveactivity/liveactivity/stream/streamtest"
)

// The store works behind a writer with a summarizer, as the package comment says.
func TestStore_behindAWriterAndASummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(nil))
		answer := make(chan string)
		model := func(context.Context, string) (string, error) { return <-answer, nil }
		server := follow(t, s, musttest.New(stream.NewWriter(s.Add, &stream.WriterOptions{
			Summarizer: musttest.New(stream.NewSummarizer(s.Overwrite, &stream.SummarizerOptions{Threshold: 20, Model: model})),
		})))
		do := func(from, to int) {
			for i := from; i <= to; i++ {
				server.Send(batch("s", "ada@example.com", fmt.Sprint(i)))
				time.Sleep(time.Second)
			}
		}
		server.Send(batch("other", "", "x"))
		do(1, 19)
		require.Len(t, events(t, s, "s"), 19)
		do(20, 22) // the model is asked at 20
		require.Len(t, events(t, s, "s"), 22, "raw until the summary is there")
		answer <- "sum of 20"
		synctest.Wait()
		require.Equal(t, []string{"22", "21", "sum of 20"}, eventsOf(t, s, "ada@example.com"))
		do(23, 40)
		answer <- "sum of 40"
		synctest.Wait()
		assert.Equal(t, []string{"sum of 40"}, events(t, s, "s"))
		assert.Equal(t, []string{"x"}, events(t, s, "other"))
	})
}

// follow has a store learn every batch of the writer from a new stream, until the test ends, which
// runs in a bubble.
func follow(t *testing.T, s *retriever.Store, w *stream.Writer) *streamtest.Server {
	t.Helper()
	server := musttest.New(streamtest.NewServer(&streamtest.ServerOptions{InMemory: true}))
	t.Cleanup(server.Close)
	waittest.Run(t, w.Run)
	waittest.Run(t, musttest.New(stream.NewConsumer(server.URL(), server.Token(),
		stream.Handlers{Deliver: s.Learning(w.Deliver)},
		&stream.ConsumerOptions{Since: time.Unix(0, 0), Client: server.Client()})).Run)
	return server
}

// The writes of different sessions come in any order. The store learns emails in the order of the
// stream.
func TestStore_theEmailSeenLastWinsDespiteASlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(nil))
		server := follow(t, s, musttest.New(stream.NewWriter(func(ctx context.Context, b activity.Batch) error {
			if b.SessionID == "first" {
				time.Sleep(time.Second)
			}
			return s.Add(ctx, b)
		}, nil)))
		newer, older := batch("first", "ada@example.com", "first"), batch("last", "ada@example.com", "last")
		older.ForwardedAt = newer.ForwardedAt - 1 // another server's clock
		server.Send(newer, older)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"first"}, events(t, s, "first"))
		assert.Equal(t, []string{"last"}, eventsOf(t, s, "ada@example.com"))
	})
}

// The records of an erased person vanish, and the person's email leads nowhere.
func TestStore_forgetsAnErasedPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(nil))
		server := follow(t, s, musttest.New(stream.NewWriter(s.Add, &stream.WriterOptions{Erase: s.Erase,
			Summarizer: musttest.New(stream.NewSummarizer(s.Overwrite, &stream.SummarizerOptions{Threshold: 3}))})))
		by := func(user string, b activity.Batch) activity.Batch { b.UserID = user; return b }
		const ada, bob = "ada@example.com", "bob@example.com"
		server.Send(by("ada", batch("s1", ada, "a", "b", "c", "d")), by("ada", batch("s2", ada, "e")),
			by("anon", batch("s2", ada, "f")), by("bob", batch("s2", bob, "g")), by("eve", batch("s3", ada, "h")))
		time.Sleep(time.Second)
		require.Len(t, events(t, s, "s3"), 1)
		server.SendErase(stream.Erasure{UserID: "ada", SessionIDs: []string{"s1", "s2"},
			Kept: map[string][]string{"s2": {"anon", "bob"}}, EmailsSHA256: []string{feed.EmailDigest(ada)}})
		server.Send(by("eve", batch("s3", "", "i")))
		time.Sleep(time.Second)
		assert.Empty(t, events(t, s, "s1"))
		assert.Equal(t, 1, s.Sessions(), "s3 alone")
		assert.Len(t, events(t, s, "s3"), 2)
		assert.Empty(t, eventsOf(t, s, ada))
		for _, record := range append(events(t, s, "s2"), eventsOf(t, s, bob)...) {
			assert.NotContains(t, record, "e")
		}
		server.Send(by("ada", batch("s1", ada, "new")))
		time.Sleep(time.Second)
		assert.Len(t, eventsOf(t, s, ada), 1)
	})
}

// After an erasure the other users' records in the session stay, beside the summaries of their
// later actions. Such a summary replaces the records of those actions and no others.
func TestStore_keepsUnsummarizedRecordsAfterAnErasure(t *testing.T) {
	s := musttest.New(retriever.NewStore(nil))
	summarizer := musttest.New(stream.NewSummarizer(s.Overwrite, &stream.SummarizerOptions{Threshold: 3}))
	add := func(user, label string) {
		b := batch("s1", "", label)
		b.UserID, b.Actions[0].UserID = user, user
		b.Actions[0].Title = "Click " + label
		require.NoError(t, s.Add(t.Context(), b))
		require.NoError(t, summarizer.Add(t.Context(), b))
	}
	add("ada", "a")
	add("bob", "b")
	e := stream.Erasure{ProductID: batch("s1", "", "a").ProductID, UserID: "ada", SessionIDs: []string{"s1"},
		Kept: map[string][]string{"s1": {"bob"}}}
	summarizer.Erase(e)
	require.NoError(t, s.Erase(t.Context(), e))
	for round := range 2 {
		for _, label := range []string{"c", "d", "e"} {
			add("bob", fmt.Sprint(label, round))
		}
		records := events(t, s, "s1")
		require.Len(t, records, 2, "%q", records)
		assert.Contains(t, records[0], fmt.Sprintf("c%d, d%[1]d and e%[1]d", round), "the newest first")
		assert.Equal(t, "b", records[1])
	}
	add("bob", "last")
	assert.Len(t, events(t, s, "s1"), 3)
}

// The oldest record makes room for the next. A summary stands behind every record that came after
// its actions.
func TestStore_placesASummaryBehindUnsummarizedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxChunks: 3}))
		add := func(label string) {
			time.Sleep(time.Second)
			b := batch("s1", "", label)
			b.UserID, b.Actions[0].UserID = "bob", "bob"
			require.NoError(t, s.Add(t.Context(), b))
		}
		e := stream.Erasure{UserID: "ada", SessionIDs: []string{"s1"}, Kept: map[string][]string{"s1": {"bob"}}}
		add("a")
		require.NoError(t, s.Erase(t.Context(), e))
		add("b")
		add("c")
		require.NoError(t, s.Overwrite(t.Context(), summary("s1", "of b", 1)))
		require.Equal(t, []string{"c", "of b", "a"}, events(t, s, "s1"))
		records := requireRecords(t, get(newMux(s, nil), "/events?session_id=s1"))
		assert.Greater(t, records[1].Title, records[2].Title, "it has the time of what it replaces")
		add("d")
		require.Equal(t, []string{"d", "c", "of b"}, events(t, s, "s1"))

		require.NoError(t, s.Erase(t.Context(), e))
		add("e")
		require.NoError(t, s.Overwrite(t.Context(), summary("s1", "of nothing", 0)))
		require.Equal(t, []string{"e", "of nothing", "d"}, events(t, s, "s1"), "in a full session, too")
	})
}
