package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// scanners returns scanners of b: of the bytes, and of streams of them.
func scanners(b []byte) map[string]*jsonscan.Scanner {
	again := jsonscan.New([]byte(`["\n",[`))
	again.Skip()
	again.Reset(b)
	return map[string]*jsonscan.Scanner{
		"bytes":           jsonscan.New(b),
		"stream":          jsonscan.NewReader(bytes.NewReader(b), make([]byte, 7), 0),
		"byte by byte":    jsonscan.NewReader(iotest.OneByteReader(bytes.NewReader(b)), make([]byte, 64), 0),
		"again":           again,
		"data with error": jsonscan.NewReader(iotest.DataErrReader(bytes.NewReader(b)), make([]byte, 16), 0),
	}
}

// value reads any value in the form of encoding/json, strings cut to the limit.
func value(s *jsonscan.Scanner, limit int) any {
	switch s.Kind() {
	case '{':
		object := map[string]any{}
		s.BeginObject()
		for key, ok := s.Key(); ok; key, ok = s.Key() {
			name := string(key)
			object[name] = value(s, limit)
		}
		return object
	case '[':
		array := []any{}
		for s.BeginArray(); s.Element(); {
			array = append(array, value(s, limit))
		}
		return array
	case '"':
		return s.Text(limit)
	case 't', 'f':
		return s.Text(limit) == "true"
	case 'n':
		s.Skip()
		return nil
	}
	return json.Number(s.Text(limit))
}

// requireSameAsJSON asserts that a scanner takes what encoding/json takes, and reads the same.
func requireSameAsJSON(t *testing.T, b []byte) {
	t.Helper()
	valid := json.Valid(b)
	for name, s := range scanners(b) {
		s.Skip()
		s.End()
		require.Equal(t, valid, s.Err() == nil, "%s: %v", name, s.Err())
		if valid {
			require.EqualValues(t, len(b), s.Offset())
		}
	}
	if !valid || !utf8.Valid(b) {
		return
	}
	var want any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&want))
	for name, s := range scanners(b) {
		require.Equal(t, want, value(s, 1<<20), name)
		require.NoError(t, s.Err())
	}
}

var samples = []string{
	`{"a":[1,-2.5e+3,0,0.1,1E9],"b":{"c":null,"":true},"d":false}`, ` [ ] `, `{}`, `""`, `"\"\\\/\b\f\n\r\tx\u0041\u00e9\uD83D\uDE00"`,
	`"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ud83dx\ude00"`, `"\ud83d\n\ude00"`, `"\u00zz"`, `"\u12`, `"\x"`, `"é😀"`, "\"\x01\"", "\"\xff\"", `"`, `"\`,
	`01`, `-`, `-a`, `1.`, `.5`, `1e`, `1e+`, `--1`, `+1`, `1 2`, `tru`, `truex`, `nul`, `nan`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`,
	`[1}`, `{"a":1]`, `]`, `}`, ``, ` `, "\x00", "\ufeff{}", `{"a":1}x`, `[[[[]]]]`, `[[]`, `{"a":1 "b":2}`, `{"a":1,"a":2}`, `{"a" :1 , "b": [ 1 , 2 ] }`,
}

func TestScanner_takesWhatEncodingJSONTakes(t *testing.T) {
	for _, sample := range samples {
		t.Run(sample, func(t *testing.T) { requireSameAsJSON(t, []byte(sample)) })
	}
}

func FuzzScanner(f *testing.F) {
	for _, sample := range samples {
		f.Add([]byte(sample))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 256 { // no key of which is cut
			requireSameAsJSON(t, b)
		}
	})
}

func TestScanner_boundsDepthLikeEncodingJSON(t *testing.T) {
	for _, n := range []int{9999, 10_000, 10_001} {
		for _, brackets := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			b := []byte(strings.Repeat(brackets[0], n) + "0" + strings.Repeat(brackets[1], n))
			for name, s := range scanners(b) {
				s.Skip()
				require.Equal(t, json.Valid(b), s.Err() == nil, "%d %s", n, name)
			}
		}
	}
}

func TestScanner_locatesTheMistake(t *testing.T) {
	for input, offset := range map[string]int64{`{"a":?}`: 5, `[1,2,x]`: 5, `[1 2]`: 3, `{"a" 1}`: 5, `tru?`: 3, "[\"a\x01\"]": 3, `[1.x]`: 3,
		"[\x00]": 1, "[1,\x00]": 3, "{\x00": 1, `{1`: 1, `[01]`: 2, `[-]`: 2, `[1e+]`: 4, `[.5]`: 1, `[1.5.5]`: 4, `[1e5e]`: 4} {
		for name, s := range scanners([]byte(input)) {
			s.Skip()
			var mistake *jsonscan.SyntaxError
			require.ErrorAs(t, s.Err(), &mistake, input)
			assert.Equal(t, offset, mistake.Offset, "%s: %s", name, input)
		}
	}
}

func TestScanner_says_thatTheInputBreaksOff(t *testing.T) {
	const whole = `{"a":["\u0041",1.5,true,null,{"b":""}]}`
	for n := range len(whole) {
		for name, s := range scanners([]byte(whole[:n])) {
			s.Skip()
			require.ErrorIs(t, s.Err(), io.ErrUnexpectedEOF, "%s: %s", name, whole[:n])
		}
	}
}

func TestScanner_returnsTheErrorOfItsReader(t *testing.T) {
	failure := errors.New("damaged")
	s := jsonscan.NewReader(io.MultiReader(strings.NewReader(`{"a":[`), iotest.ErrReader(failure)), make([]byte, 4), 0)
	s.Skip()
	require.ErrorIs(t, s.Err(), failure)
	require.Zero(t, s.Kind())
	_, ok := s.Key()
	require.False(t, ok)
	require.False(t, s.Element())
	require.Empty(t, s.Text(9))
}

func TestScanner_cutsWhatIsLonger(t *testing.T) {
	for limit := range 12 {
		for _, s := range scanners([]byte(`["abcdefghijkl","\u00e9\u00e9\ud83d\ude00\n\n\n\n\n",123456789012,"next"]`)) {
			s.BeginArray()
			require.True(t, s.Element())
			require.Equal(t, "abcdefghijkl"[:limit], s.Text(limit))
			require.True(t, s.Element())
			require.True(t, strings.HasPrefix("éé😀\n\n\n\n\n", strings.TrimRight(s.Text(limit), "\n\ufffd")))
			require.True(t, s.Element())
			require.Equal(t, "123456789012"[:limit], s.Text(limit))
			require.True(t, s.Element())
			require.Equal(t, "next"[:min(limit, 4)], s.Text(limit))
			require.False(t, s.Element())
			require.NoError(t, s.Err())
		}
	}
}

func TestScanner_readsValuesOfAnyKindAsAskedFor(t *testing.T) {
	for value, want := range map[string]struct {
		text, str string
		float     float64
		isFloat   bool
		isTrue    bool
	}{
		`1.5`: {text: "1.5", float: 1.5, isFloat: true}, `1e999`: {text: "1e999"}, `-0`: {text: "-0", isFloat: true},
		`"x"`: {text: "x", str: "x"}, `"2"`: {text: "2", str: "2"}, `""`: {},
		"\"a\xff\"": {text: "a\ufffd", str: "a\ufffd"}, `"\u00e9\n"`: {text: "é\n", str: "é\n"},
		`true`: {text: "true", isTrue: true}, `false`: {text: "false"},
		`null`: {}, `{"a":1}`: {}, `[1]`: {},
	} {
		s := jsonscan.New([]byte(`[` + strings.Repeat(value+",", 4) + value + `]`))
		s.BeginArray()
		require.True(t, s.Element())
		assert.Equal(t, want.text, s.Text(99), value)
		require.True(t, s.Element())
		assert.Equal(t, want.str, s.String(99), value)
		require.True(t, s.Element())
		assert.Equal(t, "after "+want.str, string(s.AppendString([]byte("after "), 99)), value)
		require.True(t, s.Element())
		f, ok := s.Float()
		assert.Equal(t, want.isFloat, ok, value)
		if ok {
			assert.InDelta(t, want.float, f, 0, value)
		}
		require.True(t, s.Element())
		assert.Equal(t, want.isTrue, s.Bool(), value)
		require.False(t, s.Element())
		require.NoError(t, s.Err(), value)
	}
}

// A stream is read in constant memory, whatever is in it.
func TestScanner_needsNoMoreForMore(t *testing.T) {
	const size, limit = 4 << 20, 16 << 10
	for name, s := range map[string]*jsonscan.Scanner{
		"a string": jsonscan.NewReader(io.MultiReader(strings.NewReader(`"`), repeated("x", size), strings.NewReader(`"`)), make([]byte, 4096), 0),
		"a key":    jsonscan.NewReader(io.MultiReader(strings.NewReader(`{"`), repeated("k", size), strings.NewReader(`":1}`)), make([]byte, 4096), 0),
		"a number": jsonscan.NewReader(io.MultiReader(repeated("1", size), strings.NewReader(` `)), make([]byte, 4096), 0),
		"space":    jsonscan.NewReader(io.MultiReader(repeated(" ", size), strings.NewReader(`1 `)), make([]byte, 4096), 0),
		"numbers":  jsonscan.NewReader(io.MultiReader(strings.NewReader(`[1`), repeated(",1", size), strings.NewReader(`]`)), make([]byte, 4096), 0),
	} {
		t.Run(name, func(t *testing.T) {
			grown := heaptest.After(func() {
				s.Skip()
				require.NoError(t, s.Err())
			})
			require.Less(t, grown, int64(limit))
		})
	}
}

// repeated is size bytes of repetitions of s.
func repeated(s string, size int64) io.Reader {
	block := strings.Repeat(s, 4096/len(s))
	return io.LimitReader(&endless{block: block}, size/int64(len(block))*int64(len(block)))
}

type endless struct {
	block string
	pos   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.block[e.pos:])
	e.pos = (e.pos + n) % len(e.block)
	return n, nil
}

func BenchmarkScanner_skip(b *testing.B) {
	body := []byte(`[` + strings.Repeat(`{"event":"$autocapture","properties":{"a":[1,2,3],"$current_url":"https://app.example.com/projects/42?tab=x"}},`, 1000) + `{}]`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s := jsonscan.New(body)
		s.Skip()
	}
}

func TestScanner_teesWhatItReads(t *testing.T) {
	const before, value, after = `{"a": [1, 2], "b":  `, `{"long": "0123456789 and so on and on", "x":[true, null]}`, ` , "c": 3}`
	for name, s := range scanners([]byte(before + value + after)) {
		t.Run(name, func(t *testing.T) {
			var discarded, read bytes.Buffer
			s.Tee(&discarded)
			s.BeginObject()
			s.Key()
			s.Skip()
			s.Key()
			s.Kind()
			s.Tee(&read)
			s.Skip()
			s.EndTee()
			s.Key()
			s.Skip()
			assert.Equal(t, value, read.String())
			assert.NotContains(t, discarded.String(), "long")
			assert.NoError(t, s.Err())
		})
	}
}
