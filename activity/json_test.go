package activity_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
)

func TestMarshal_keepsURLsReadable(t *testing.T) {
	got, err := activity.Marshal(map[string]string{"url": "https://app.example.com/?a=1&b=<2>"})
	require.NoError(t, err)
	assert.Equal(t, `{"url":"https://app.example.com/?a=1&b=<2>"}`, string(got))

	got, err = activity.Marshal("a\u0085b\u2028c\nd")
	require.NoError(t, err)
	assert.Equal(t, `"a\u0085b\u2028c\nd"`, string(got), "it is on one line, whatever a client takes for a line's end")

	_, err = activity.Marshal(math.NaN())
	assert.Error(t, err)
}

// The JSON of a batch is, to the byte, what encoding/json makes of it.
func FuzzBatch_AppendJSON(f *testing.F) {
	for _, text := range []string{"", "Click Save", "https://x/?a=1&b=<2>", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "\u0085\u2028\u2029\ufffd", "\xff\xed\xa0\x80", "größer ☕ 👩\u200d👧", "\\u0085"} {
		f.Add(text, "x", 1_700_000_000.123456, 4_503_599_627.370497, 7)
	}
	for _, seconds := range []float64{0, math.Copysign(0, -1), 1e-6, -1e-6, 1e-7, 1.5, 1 << 32, 1e11, 1e20, 1e21, math.MaxFloat64, math.SmallestNonzeroFloat64, 1_700_000_000.0000001} {
		f.Add("s", "", seconds, -seconds, -1)
	}
	f.Fuzz(func(t *testing.T, text, conversation string, start, end float64, n int) {
		a := activity.BatchAction{SessionID: text, UserID: text, Email: text, ConversationID: conversation, Action: activity.Action{ID: text,
			Type: text, Title: text, Description: text, TimestampStart: start, TimestampEnd: end, RawURL: text, CanonicalURL: text, Index: n}}
		b := activity.Batch{Type: text, ProductID: text, SessionID: text, UserID: text, Email: text, ConversationID: conversation,
			Count: n, ForwardedAt: start, Actions: []activity.BatchAction{a, {}, a}}
		want, wrong := activity.Marshal(&b)
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
	for name, wrong := range map[string]func(*activity.Batch, float64){
		"forwarded": func(b *activity.Batch, no float64) { b.ForwardedAt = no },
		"start":     func(b *activity.Batch, no float64) { b.Actions[0].TimestampStart = no },
		"end":       func(b *activity.Batch, no float64) { b.Actions[0].TimestampEnd = no },
	} {
		for _, no := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			b := activitytest.NewBatch("acme", "s", "ada", activitytest.Pageview(time.Now(), "/"))
			wrong(&b, no)
			_, err := b.AppendJSON(nil)
			assert.Error(t, err, "%s %g", name, no)
		}
	}
}

// The times of the recorder's clock are the shortest text of their number, as
// long as clocks have 16 digits.
func TestBatch_AppendJSON_writesTimesAsMarshalDoes(t *testing.T) {
	for micros := int64(1); micros < 1<<54; micros += micros/1000 + 1 {
		for _, at := range []int64{micros, -micros, micros - micros%1000, micros - micros%100_000} {
			b := activity.Batch{ForwardedAt: float64(at) / 1e6, Actions: []activity.BatchAction{}}
			want, err := activity.Marshal(&b)
			require.NoError(t, err)
			got, err := b.AppendJSON(nil)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), at)
		}
	}
}

// What a lookup sends of an action, to the byte.
func TestRecent_AppendJSON_isTheSpecifiedAction(t *testing.T) {
	const head = `{"type":"click","title":"Click \"Save\"","description":"User clicked \"Save\""`
	const tail = `"timestamp_start":1700000000.5,"timestamp_end":1700000000.5,"index":`
	for name, c := range map[string]struct{ raw, canonical, want string }{
		"the same URL twice": {"https://x/a", "https://x/a", `"raw_url":"https://x/a","canonical_url":"https://x/a"`},
		"two URLs":           {"https://x/1?a&b=<2>", "https://x/:id", `"raw_url":"https://x/1?a&b=<2>","canonical_url":"https://x/:id"`},
		"no URL":             {"", "", `"raw_url":"","canonical_url":""`},
		"quotes":             {`/"a"\"b\`, `/"a"\"b\`, `"raw_url":"/\"a\"\\\"b\\","canonical_url":"/\"a\"\\\"b\\"`},
		"only quotes":        {`""`, `""`, `"raw_url":"\"\"","canonical_url":"\"\""`},
		"a name of a field":  {`,"raw_url":`, "", `"raw_url":",\"raw_url\":","canonical_url":""`},
		"another in the end": {"", `,"raw_url":`, `"raw_url":"","canonical_url":",\"raw_url\":"`},
		"ends of lines":      {"a\u0085\u2028\n", "a", `"raw_url":"a\u0085\u2028\n","canonical_url":"a"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := activity.NewRecord("s", activity.Action{Type: "click", Title: `Click "Save"`, Description: `User clicked "Save"`,
				TimestampStart: 1_700_000_000.5, RawURL: c.raw, CanonicalURL: c.canonical})
			require.NoError(t, err)
			want := head + "," + c.want + "," + tail
			assert.Equal(t, "before["+want+"0},"+want+"1}]", string(activity.Recent{r, r}.AppendJSON([]byte("before"))))
		})
	}
}
