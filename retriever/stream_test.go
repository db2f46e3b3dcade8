package retriever_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/retriever"
	"github.com/liveactivity/liveactivity/stream"
)

// The store behind what it is made for, as the package comment says.
func TestStore_behindAWriterAndASummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retriever.NewStore(nil)
		answer := make(chan string)
		model := func(context.Context, string) (string, error) { return <-answer, nil }
		w := stream.NewWriter(s.Add, &stream.WriterOptions{
			Summarizer: stream.NewSummarizer(s.Overwrite, &stream.SummarizerOptions{Threshold: 20, Model: model}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		do := func(from, to int) {
			for i := from; i <= to; i++ {
				require.NoError(t, s.Learning(w.Add)(ctx, batch("s", "ada@example.com", fmt.Sprint(i))))
				synctest.Wait()
			}
		}
		require.NoError(t, w.Add(ctx, batch("other", "", "x")))
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
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
}
