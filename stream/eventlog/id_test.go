package eventlog_test

import (
	"cmp"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/engine"
)

func TestParseID_isTheInverseOfString(t *testing.T) {
	for text, id := range map[string]eventlog.ID{
		"0-0":             {},
		"0-1":             {Seq: 1},
		"1-0":             {Milli: 1},
		"1767225600000-7": {Milli: 1767225600000, Seq: 7},
		"18446744073709551615-18446744073709551615": {Milli: math.MaxUint64, Seq: math.MaxUint64},
	} {
		require.Equal(t, text, id.String())
		parsed, err := eventlog.ParseID(text)
		require.NoError(t, err, text)
		require.Equal(t, id, parsed, text)
	}
}

func TestParseID_refusesInvalidIDs(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":            "",
		"a word":             "garbage",
		"a hyphen":           "-",
		"no number":          "17-",
		"no time":            "-17",
		"no hyphen":          "17",
		"two hyphens":        "1-2-3",
		"a sign":             "+1-2",
		"a negative number":  "1--2",
		"a fraction":         "1.5-2",
		"white space":        " 1-2",
		"a line end":         "1-2\n",
		"other digits":       "١-٢",
		"a time too large":   "18446744073709551616-0",
		"a number too large": "0-18446744073709551616",
		"a NUL":              "1-2\x00",
	} {
		id, err := eventlog.ParseID(text)
		require.Error(t, err, name)
		require.Zero(t, id, name)
	}
}

func TestID_Compare_ordersByTimeThenNumber(t *testing.T) {
	ordered := []eventlog.ID{
		{}, {Seq: 1}, {Seq: math.MaxUint64},
		{Milli: 1}, {Milli: 1, Seq: 9}, {Milli: 1, Seq: 10},
		{Milli: math.MaxInt64 + 1}, {Milli: math.MaxUint64, Seq: math.MaxUint64},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			require.Equal(t, cmp.Compare(i, j), a.Compare(b), "%s and %s", a, b)
		}
	}
}

func TestID_Previous_isJustBefore(t *testing.T) {
	for id, want := range map[eventlog.ID]eventlog.ID{
		{Milli: 7, Seq: 3}: {Milli: 7, Seq: 2},
		{Milli: 7, Seq: 1}: {Milli: 7},
		{Milli: 7}:         {Milli: 6, Seq: math.MaxUint64},
		{Seq: 1}:           {},
		{}:                 {},
	} {
		assert.Equal(t, want, id.Previous(), id)
	}
}

func TestIDAt_isJustBeforeTheMillisecond(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want eventlog.ID
	}{
		"never":                 {time.Time{}, eventlog.ID{}},
		"before the epoch":      {time.UnixMilli(-1), eventlog.ID{}},
		"the epoch":             {time.UnixMilli(0), eventlog.ID{}},
		"the first millisecond": {time.UnixMilli(1), eventlog.ID{Seq: math.MaxUint64}},
		"a millisecond":         {time.UnixMilli(1000), eventlog.ID{Milli: 999, Seq: math.MaxUint64}},
		"the middle of one":     {time.UnixMicro(1000_500), eventlog.ID{Milli: 999, Seq: math.MaxUint64}},
		"the end of the time we use": {time.UnixMilli(math.MaxInt64),
			eventlog.ID{Milli: math.MaxInt64 - 1, Seq: math.MaxUint64}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, eventlog.IDAt(c.at)) })
	}
}

func TestID_Time_isWhenTheEntryWasAppended(t *testing.T) {
	now := time.UnixMilli(1767225600123)
	require.True(t, engine.NextID(eventlog.ID{}, now).Time().Equal(now))
	require.True(t, eventlog.ID{}.Time().Equal(time.Unix(0, 0)))
	require.True(t, eventlog.ID{Milli: math.MaxUint64}.Time().After(now), "a time too large does not wrap around")
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"", "-", "0-0", "1767225600000-7", "1-2-3", "+1-2", "007-1",
		"18446744073709551615-18446744073709551615", "$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := eventlog.ParseID(text)
		if err != nil {
			require.Zero(t, id)
			return
		}
		again, err := eventlog.ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, again)
		require.LessOrEqual(t, len(id.String()), len(text), "nothing was made up")
	})
}

func TestID_isTextInJSON(t *testing.T) {
	data, err := json.Marshal(map[string]eventlog.ID{"id": {Milli: 17, Seq: 3}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"17-3"}`, string(data))
	var got map[string]eventlog.ID
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, eventlog.ID{Milli: 17, Seq: 3}, got["id"])
	require.Error(t, json.Unmarshal([]byte(`{"id":"17"}`), &got))
}

// An entry that an engine has read back outlives the memory that it was read from.
func TestEntry_sharesNoMemoryOnceItIsEncoded(t *testing.T) {
	for _, data := range []string{`{"type":"actions","session_id":"s"}`,
		`{"type":"erase","user_id":"ada","session_ids":["s"]}`} {
		read := []byte(data)
		e := eventlog.Entry{Data: read}
		e.Encode(eventlog.ID{Milli: 7})
		clear(read)
		assert.Equal(t, data, string(e.Data))
	}
}
