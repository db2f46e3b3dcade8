package sessions_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/activitytest"
	"github.com/liveactivity/liveactivity/activity/sessions"
)

// entryOf is what Decode returns of a batch, by the batch itself.
func entryOf(at sessions.Position, b activity.Batch) sessions.Entry {
	first, last := b.Actions[0], b.Actions[len(b.Actions)-1]
	return sessions.Entry{At: at, SessionID: b.SessionID, Text: sessions.NewText(b.UserID, b.Email, last.CanonicalURL, last.Sentence()),
		First: first.Start().UnixMicro(), Last: last.Start().UnixMicro(),
		Count: len(b.Actions), Actions: last.Index + 1}
}

func TestDecoder_returnsWhatABatchSays(t *testing.T) {
	var decoder sessions.Decoder // of all, whatever came before
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 30, -1)
		var actions []activity.Action
		at := noon
		for i := range rapid.IntRange(1, 4).Draw(t, "actions") {
			at = at.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "micros")) * time.Microsecond)
			a := activitytest.Click(at, text.Draw(t, "label"), "https://app.example.com/"+text.Draw(t, "path"))
			a.Index = i + 3
			actions = append(actions, a)
		}
		b := activitytest.NewBatch("acme", "s"+text.Draw(t, "session"), text.Draw(t, "user"), actions...)
		b.Email = text.Draw(t, "email")
		data, err := activity.Marshal(&b)
		require.NoError(t, err)
		var decoded activity.Batch
		require.NoError(t, json.Unmarshal(data, &decoded))
		position := sessions.Position{Milli: 1, Seq: 2}
		if rapid.Bool().Draw(t, "damaged before") {
			decoder.Decode(position, "s", data[:len(data)/2])
		}
		got, ok := decoder.Decode(position, decoded.SessionID, data)
		require.True(t, ok)
		require.Equal(t, entryOf(position, decoded), got)
	})
}

func TestDecoder_refusesAnythingElse(t *testing.T) {
	var decoder sessions.Decoder
	for _, data := range []string{
		``, `null`, `[]`, `{}`, `{"type":"actions"}`, `{"type":"actions","actions":[]}`, `{"type":"actions","actions":{}}`, `{"type":"actions","actions":[1]}`,
		`{"type":"summary","actions":[{"type":"click"}]}`, `{"actions":[{"type":"click"}]}`, `{"type":"actionsx","actions":[{}]}`, `{"type":"actions","actions":[{}`,
		`{"type":"actions","actions":[{},{}],"actions":[`,
	} {
		_, ok := decoder.Decode(sessions.Position{}, "s", []byte(data))
		assert.False(t, ok, data)
	}
	_, ok := decoder.Decode(sessions.Position{}, "", []byte(`{"type":"actions","actions":[{}]}`))
	assert.False(t, ok, "no session")
}

func TestDecoder_takesActionsOfTwoFieldsTogether(t *testing.T) {
	data := `{"type":"actions","actions":[{"index":0},{"index":7,"description":"User waved"}],"actions":[]}`
	got, ok := new(sessions.Decoder).Decode(sessions.Position{}, "s", []byte(data))
	require.True(t, ok)
	require.Equal(t, sessions.Entry{SessionID: "s", Text: sessions.NewText("", "", "", "User waved"), Count: 2, Actions: 8}, got)
}

func TestDecoder_allocatesNothingButTheText(t *testing.T) {
	data, err := activity.Marshal(activitytest.NewBatch("acme", "s", "u", activitytest.Click(noon, "Save", "https://app.example.com/a"), activitytest.Click(noon, "Send", "https://app.example.com/b")))
	require.NoError(t, err)
	var decoder sessions.Decoder
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() {
		if _, ok := decoder.Decode(sessions.Position{}, "s", data); !ok {
			t.Fatal("not decoded")
		}
	}))
}

func TestDecoder_saysSomethingOfAnActionWithoutADescription(t *testing.T) {
	for data, want := range map[string]string{
		`{"type":"click","title":"Click\tSave"}`:                       "Click Save",
		`{"type":"click","title":"Click Save","description":"\u200b"}`: "Click Save",
		`{"type":"click","title":""}`:                                  "click",
		`{}`:                                                           "User did something",
		`{"title":"Click Save","description":"User  clicked \u0007Save"}`: "User clicked Save",
	} {
		e, ok := new(sessions.Decoder).Decode(sessions.Position{}, "s", []byte(`{"type":"actions","user_id":"ada","actions":[`+data+`]}`))
		require.True(t, ok)
		assert.Equal(t, sessions.NewText("ada", "", "", want), e.Text, data)
	}
}

func FuzzDecoder(f *testing.F) {
	data, err := activity.Marshal(activitytest.NewBatch("acme", "s", "u", activitytest.Click(noon, "Save", "https://app.example.com/a")))
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"type":"actions","actions":[{"timestamp_start":1e300,"index":-1e300}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMemory(t, nil)
		if e, ok := new(sessions.Decoder).Decode(sessions.Position{Milli: 1}, "s", data); ok {
			m.Add("acme", e)
			m.Expire(noon)
			_, err := m.List("acme", sessions.Query{Limit: 1}, noon)
			require.NoError(t, err)
		}
	})
}

// The entries that a session is said to have are those of its newest 50 actions.
func TestMemory_knowsWhereTheNewestActionsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := sessions.NewMemory(nil)
		require.NoError(t, err)
		type entry struct {
			sessions.Position
			actions int
		}
		var all []entry
		at := sessions.Position{Milli: 1_800_000_000_000}
		for range rapid.IntRange(1, 120).Draw(t, "entries") {
			if later := rapid.Uint64Range(0, 100_000).Draw(t, "later"); later > 0 {
				at = sessions.Position{Milli: at.Milli + later}
			} else {
				at.Seq += rapid.Uint64Range(1, 300).Draw(t, "seq")
			}
			e := seen("s", noon)
			e.At, e.Count = at, rapid.IntRange(1, 20).Draw(t, "actions")
			m.Add("acme", e)
			all = append(all, entry{at, e.Count})
		}
		var want []sessions.Position
		for i, actions := len(all)-1, 0; i >= 0 && actions < sessions.MaxRecent; i-- {
			want = append([]sessions.Position{all[i].Position}, want...)
			actions += all[i].actions
		}
		_, got, ok := m.Session("acme", "s", noon)
		require.True(t, ok)
		require.Equal(t, want, got)
	})
}

// BenchmarkDecoder compares what the view needs of an entry with all of it.
func BenchmarkDecoder(b *testing.B) {
	var decoder sessions.Decoder
	for _, n := range []int{1, 10} {
		var actions []activity.Action
		for i := range n {
			actions = append(actions, activitytest.Click(noon.Add(time.Duration(i)*time.Second), "Export CSV", "https://app.example.com/projects/42/tasks?tab=open"))
		}
		batch := activitytest.NewBatch("acme", id(1), "user_42", actions...)
		data, err := activity.Marshal(&batch)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("needed/actions=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				decoder.Decode(sessions.Position{}, "s", data)
			}
		})
		b.Run(fmt.Sprintf("all/actions=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var decoded activity.Batch
				_ = json.Unmarshal(data, &decoded)
			}
		})
	}
}
