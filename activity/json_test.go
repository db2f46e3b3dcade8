package activity_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/internal/jsontext"
)

// The JSON of a batch equals the output of encoding/json, to the byte.
func FuzzBatch_AppendJSON(f *testing.F) {
	for _, text := range []string{"", "Click Save", "https://x/?a=1&b=<2>", "\"\\/\b\f\n\r\t\x00\x1f\x7f",
		"\u0085", "\u2028", "\u2029", "\ufffd", "\x1f", "\xff\xed\xa0\x80", "größer ☕ 👩\u200d👧", "\\u0085"} {
		f.Add(text, "x", 1_700_000_000.123456, 4_503_599_627.370497, 7)
	}
	for _, seconds := range []float64{0, math.Copysign(0, -1), 1e-6, -1e-6, 1e-7, 1.5, 1 << 32, 1e11, 1e20, 1e21,
		math.MaxFloat64, math.SmallestNonzeroFloat64, 1_700_000_000.0000001} {
		f.Add("s", "", seconds, -seconds, -1)
	}
	f.Fuzz(func(t *testing.T, text, conversation string, start, end float64, n int) {
		a := activity.BatchAction{SessionID: text, UserID: text, Email: text, ConversationID: conversation,
			Action: activity.Action{ID: text, Type: text, Title: text, Description: text, TimestampStart: start,
				TimestampEnd: end, RawURL: text, CanonicalURL: text, Index: n, Marks: []string{text, "b"},
				Properties: map[string]string{"b": text, "a": conversation}}}
		b := activity.Batch{Type: text, ProductID: text, SessionID: text, UserID: text, Email: text,
			ConversationID: conversation, Count: n, ForwardedAt: start, Actions: []activity.BatchAction{a, {}, a}}
		want, wrong := jsontext.Marshal(&b)
		got, err := b.AppendJSON([]byte("before"))
		if wrong != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got))
	})
}

func TestBatch_AppendJSON_refusesTimesThatAreNone(t *testing.T) {
	b := activitytest.NewBatch("acme", "s", "ada", activitytest.Pageview(time.Now(), "/"))
	for i, field := range []*float64{&b.ForwardedAt, &b.Actions[0].TimestampStart, &b.Actions[0].TimestampEnd} {
		right := *field
		for _, *field = range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			_, err := b.AppendJSON(nil)
			assert.Error(t, err, "%d %g", i, *field)
		}
		*field = right
	}
}

// A time of the recorder's clock is written as the shortest text of its number, as long as clocks have 16 digits.
func TestBatch_AppendJSON_writesTimesAsMarshalDoes(t *testing.T) {
	for micros := int64(1); micros < 1<<54; micros += micros/200 + 1 {
		for _, at := range []int64{micros, -micros, micros - micros%1000, micros - micros%100_000} {
			b := activity.Batch{ForwardedAt: float64(at) / 1e6, Actions: []activity.BatchAction{}}
			want, err := jsontext.Marshal(&b)
			require.NoError(t, err)
			got, err := b.AppendJSON(nil)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), at)
		}
	}
}
