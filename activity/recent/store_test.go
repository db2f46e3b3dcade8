package recent_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// lastMicro is the last microsecond that epoch seconds in a float64 tell exactly, in the year 2106.
const lastMicro = 1<<32*1_000_000 - 1

// A record is JSON or it is an error: encoding/json refuses such numbers, too.
func TestNewRecord_refusesTimesThatAreNone(t *testing.T) {
	for _, seconds := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64} {
		r, err := recent.NewRecord("s", activity.Action{TimestampStart: seconds})
		if err == nil {
			data := recent.Records{r}.AppendJSON(nil)
			assert.True(t, json.Valid(data), "%g became %s", seconds, data)
		}
	}
}

func TestRecent_refusesADamagedRecord(t *testing.T) {
	_, err := recent.Records{{JSON: `{"type":`}}.Actions()
	assert.Error(t, err)
}

// FuzzRecord holds records against encoding/json: both must decode to the same action, for all texts and times.
func FuzzRecord(f *testing.F) {
	f.Add("click", "Click Save", "User clicked Save", "https://x/?a=1&b=<2>", "https://x/", int64(1_700_000_000_123_456),
		int64(1_700_000_000_123_457), uint8(0))
	f.Add("\"", "\\", "\x00\x1f\x7f", "\u2028\u2029", "\xff\xed\xa0\x80", int64(0), int64(-1), uint8(7))
	f.Add("", "</script>", "👩\u200d👧", "{\"a\":", "],\"", int64(-1_500_000), int64(1<<53), uint8(49))
	f.Add("", "", "", "", "", int64(lastMicro-1), int64(500_000), uint8(0))
	for _, urls := range [][2]string{{`/"a"\"b\`, `/"a"\"b\`}, {`""`, `""`}, {`,"raw_url":`, ""}, {"", `,"raw_url":`}} {
		f.Add("click", "", "", urls[0], urls[1], int64(1), int64(1), uint8(0))
	}
	f.Fuzz(func(t *testing.T, typ, title, description, raw, canonical string, start, end int64, index uint8) {
		start, end = start%lastMicro, end%lastMicro
		a := activity.Action{
			ID: "id", Type: typ, Title: title, Description: description, RawURL: raw, CanonicalURL: canonical,
			TimestampStart: float64(start) / 1e6, TimestampEnd: float64(end) / 1e6, Index: int(index),
			Marks: []string{title, "b"}, Properties: map[string]string{"b": raw, "a": typ},
		}
		r, err := recent.NewRecord("s", a)
		require.NoError(t, err)
		require.Equal(t, [2]int64{start, start}, [2]int64{r.Start, r.End}, "a record ends where it starts")
		r.End = end
		found := make(recent.Records, int(index)+1)
		for i := range found {
			found[i] = r
		}

		var got []activity.Action
		require.NoError(t, json.Unmarshal(found.AppendJSON(nil), &got))
		var want activity.Action
		require.NoError(t, json.Unmarshal(musttest.New(json.Marshal(a)), &want))
		require.Equal(t, want, got[index])
	})
}

// The JSON of an action in a lookup's answer is specified to the byte.
func TestRecords_AppendJSON_isTheSpecifiedAction(t *testing.T) {
	const head = `{"type":"click","title":"Click \"Save\"","description":"User clicked \"Save\"",`
	const tail = `"timestamp_start":1700000000.5,"timestamp_end":1700000000.5,"index":`
	for canonical, want := range map[string]string{
		"https://x/1?a&b=<\u2028>": `"raw_url":"https://x/1?a&b=<\u2028>","canonical_url":"https://x/1?a&b=<\u2028>",`,
		"https://x/:id":            `"raw_url":"https://x/1?a&b=<\u2028>","canonical_url":"https://x/:id",`,
	} {
		r, err := recent.NewRecord("s", activity.Action{Type: "click", Title: `Click "Save"`, CanonicalURL: canonical,
			Description: `User clicked "Save"`, TimestampStart: 1_700_000_000.5, RawURL: "https://x/1?a&b=<\u2028>"})
		require.NoError(t, err)
		got := recent.Records{r, r}.AppendJSON([]byte("before"))
		assert.Equal(t, "before["+head+want+tail+"0},"+head+want+tail+"1}]", string(got))
	}
}

func TestConstructors_reportEveryMistake(t *testing.T) {
	_, err := recent.NewMemory(&recent.MemoryOptions{TTL: -1, MaxEvents: -1, MaxBytes: -1, TotalBytes: -1})
	assert.Equal(t, []string{"recent.TTL", "recent.MaxEvents", "recent.MaxBytes", "recent.TotalBytes"},
		musttest.Mistakes(t, err))
	_, err = recent.NewLookup(nil, -1)
	assert.Equal(t, []string{"recent.store", "recent.maxEvents"}, musttest.Mistakes(t, err))
}

// A visitor's stay on a page begins after the last action of the same session elsewhere.
func TestRecent_knowsTheStayOnAPage(t *testing.T) {
	record := func(second int64, session, url string) recent.Record {
		r := musttest.New(recent.NewRecord(session, activity.Action{CanonicalURL: url, TimestampStart: float64(second)}))
		return r
	}
	const page = `https://a.example/x?q=":"b"`
	for name, c := range map[string]struct {
		recent      recent.Records
		came, first int64
	}{
		"nothing":         {},
		"one action":      {recent.Records{record(5, "s", page)}, 5, 5},
		"without a page":  {recent.Records{record(4, "t", ""), record(5, "s", ""), record(6, "s", "")}, 5, 5},
		"all on the page": {recent.Records{record(5, "s", page), record(6, "s", page)}, 5, 5},
		"back on the page": {recent.Records{record(5, "s", page), record(6, "s", "https://a.example"),
			record(7, "s", page), record(8, "s", page)}, 7, 5},
		"an event without a page": {recent.Records{record(4, "s", "https://a.example"), record(5, "s", ""),
			record(6, "s", page), record(7, "s", ""), record(8, "s", page), record(9, "t", "")}, 6, 4},
		"another session's": {recent.Records{record(5, "s", page), record(6, "t", "https://a.example"),
			record(7, "s", page)}, 5, 5},
		"the end of a longer": {recent.Records{record(5, "s", `x":"b`), record(6, "s", "b")}, 6, 5},
	} {
		t.Run(name, func(t *testing.T) {
			_, came, first := c.recent.Stay()
			assert.Equal(t, [2]int64{c.came * 1e6, c.first * 1e6}, [2]int64{came, first})
		})
	}
}
