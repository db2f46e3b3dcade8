package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/jsonscan"
)

// scanners returns scanners of b: a new one, and one that was used before.
func scanners(b []byte) map[string]*jsonscan.Scanner {
	again := jsonscan.New([]byte(`["\n",[`))
	again.Skip()
	again.Reset(b)
	return map[string]*jsonscan.Scanner{"new": jsonscan.New(b), "again": again}
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

// requireSameAsJSON asserts that a scanner accepts the same texts as encoding/json and reads the same values.
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
	`{"a":[1,-2.5e+3,0,0.1,1E9],"b":{"c":null,"":true},"d":false}`, ` [ ] `, `{}`, `""`,
	`"\"\\\/\b\f\n\r\tx\u0041\u00e9\uD83D\uDE00"`,
	`"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ud83dx\ude00"`, `"\ud83d\n\ude00"`, `"\u00zz"`, `"\u12`, `"\x"`,
	`"é😀"`, "\"\x01\"", "\"\xff\"", `"`, `"\`,
	`01`, `-`, `-a`, `1.`, `.5`, `1e`, `1e+`, `--1`, `+1`, `1 2`, `tru`, `truex`, `nul`, `nan`, `[1,]`, `[,1]`, `[1 2]`,
	`{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{'a':1}`,
	`[1}`, `{"a":1]`, `]`, `}`, ``, ` `, "\x00", "0\x00", "\ufeff{}", `{"a":1}x`, `[[[[]]]]`, `[[]`, `{"a":1 "b":2}`,
	`{"a":1,"a":2}`, `{"a" :1 , "b": [ 1 , 2 ] }`,
}

// A scanner accepts the same texts as encoding/json.
func FuzzScanner(f *testing.F) {
	for _, sample := range samples {
		f.Add([]byte(sample))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 256 { // none of its keys is cut
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
	for input, offset := range map[string]int64{`{"a":?}`: 5, `[1,2,x]`: 5, `[1 2]`: 3, `{"a" 1}`: 5, `tru?`: 3,
		"[\"a\x01\"]": 3, `[1.x]`: 3, "[\x00]": 1, "[1,\x00]": 3, "{\x00": 1, `{1`: 1, `[01]`: 2, `[-]`: 2, `[1e+]`: 4,
		`[.5]`: 1, `[1.5.5]`: 4, `[1e5e]`: 4} {
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

func TestScanner_cutsLongStrings(t *testing.T) {
	for limit := range 12 {
		for _, s := range scanners([]byte(`["abcdefghijkl","\u00e9\u00e9\ud83d\ude00\n\n\n\n\n",123456789012,"next"]`)) {
			s.BeginArray()
			require.True(t, s.Element())
			require.Equal(t, "abcdefghijkl"[:limit], s.Text(limit))
			require.True(t, s.Element())
			require.True(t, strings.HasPrefix("éé😀\n\n\n\n\n", s.Text(limit)))
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
		text   string
		isTrue bool
	}{
		`1.5`: {text: "1.5"}, `1e999`: {text: "1e999"}, `-0`: {text: "-0"},
		`"x"`: {text: "x"}, `"2"`: {text: "2"}, `""`: {},
		"\"a\xff\"": {text: "a\ufffd"}, `"\u00e9\n"`: {text: "é\n"},
		`true`: {text: "true", isTrue: true}, `false`: {text: "false"},
		`null`: {}, `{"a":1}`: {}, `[1]`: {},
	} {
		s := jsonscan.New([]byte(`[` + value + "," + value + `]`))
		s.BeginArray()
		require.True(t, s.Element())
		assert.Equal(t, want.text, s.Text(99), value)
		require.True(t, s.Element())
		assert.Equal(t, want.isTrue, s.Bool(), value)
		require.False(t, s.Element())
		require.NoError(t, s.Err(), value)
	}
}

// The bytes that end a run of plain ones are found after any number of them.
func TestScanner_findsTheEndOfAString(t *testing.T) {
	for before := range 20 {
		for _, last := range []string{`"`, `\"`, `\u0041"`, `\u00`, `\`, `\x`, "\x1f", "\x00", ""} {
			for _, filler := range []string{"x", "\x7f", "é", "\xff", " "} {
				requireSameAsJSON(t, []byte(`["`+strings.Repeat(filler, before)+last+`,"next"]`))
				requireSameAsJSON(t, []byte(`["`+strings.Repeat(filler, before)+last+strings.Repeat(filler, 9)+`","next"]`))
			}
		}
	}
}

func TestShapeOf(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want jsonscan.Shape
	}{
		"nothing":             {``, jsonscan.Shape{}},
		"an object":           {`{"a":1,"b":[2,{"c":3}]}`, jsonscan.Shape{Depth: 3, Values: 5}},
		"a batch of one":      {`[{"a":1,"b":2}]`, jsonscan.Shape{Depth: 2, Values: 3, Elements: 1}},
		"a batch of three":    {" \r\n\t[{},{},{}]", jsonscan.Shape{Depth: 2, Values: 6, Elements: 3}},
		"in strings":          {`{"a":"[[[,,,{{{","b\"[":"\\"}`, jsonscan.Shape{Depth: 1, Values: 2}},
		"an endless nesting":  {strings.Repeat("[", 1000), jsonscan.Shape{Depth: 1000, Values: 1000, Elements: 1}},
		"a string cut short":  {`["\`, jsonscan.Shape{Depth: 1, Values: 1, Elements: 1}},
		"closed but not open": {`]]]]{}`, jsonscan.Shape{Values: 1}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, jsonscan.ShapeOf([]byte(tt.body))) })
	}
}
