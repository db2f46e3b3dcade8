// Package jsontext reads IDs and writes JSON: any value in the service's form and, by hand, strings
// and times for entries and answers that are encoded often.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Marshal returns the JSON of v without escaping HTML characters, so that URLs
// stay readable. It is one line for every reader: U+0085, which ends a line in
// Python's httpx_sse before 0.4.2, is escaped as well.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if bytes.Contains(data, []byte("\u0085")) { // only inside a string
		data = bytes.ReplaceAll(data, []byte("\u0085"), []byte(`\u0085`))
	}
	return data, nil
}

// ID is an ID that is a string or an integer in JSON. A number keeps its digits; null becomes
// empty.
type ID string

// UnmarshalJSON implements [json.Unmarshaler].
func (id *ID) UnmarshalJSON(b []byte) error {
	if b[0] == '"' || string(b) == "null" {
		return json.Unmarshal(b, (*string)(id))
	}
	if strings.Trim(string(b), "0123456789") != "" {
		return errors.New("an ID is neither a string nor an integer")
	}
	*id = ID(b)
	return nil
}

// AppendField appends the text before unchanged, followed by s as a JSON
// string.
func AppendField(dst []byte, before, s string) []byte {
	return AppendString(append(dst, before...), s)
}

// AppendString appends a string in exactly the form of Marshal, so an entry encoded by hand
// equals one that was not. Invalid UTF-8 becomes an escaped U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if strings.ContainsFunc(s, mayBeEscaped) {
		text, _ := Marshal(s) // every string has JSON
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func mayBeEscaped(r rune) bool {
	switch r {
	case '"', '\\', '\u0085', '\u2028', '\u2029', utf8.RuneError:
		return true
	}
	return r < ' '
}

// AppendTime appends a number of seconds in the form of encoding/json. NaN and infinities are
// an error; dst is then unchanged.
func AppendTime(dst []byte, seconds float64) ([]byte, error) {
	if size := math.Abs(seconds); 1 <= size && size < 1e21 { // without an exponent
		return strconv.AppendFloat(dst, seconds, 'f', -1, 64), nil
	}
	text, err := json.Marshal(seconds)
	return append(dst, text...), err
}

// AppendSeconds appends microseconds as decimal seconds, without trailing zeros.
func AppendSeconds(dst []byte, micros int64) []byte {
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	dst = strconv.AppendInt(dst, micros/1e6, 10)
	if fraction := micros % 1e6; fraction > 0 {
		dst = strconv.AppendInt(dst, 1e6+fraction, 10)
		dst[len(dst)-7] = '.' // in place of the 1, before six digits
		dst = bytes.TrimRight(dst, "0")
	}
	return dst
}
