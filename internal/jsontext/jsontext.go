// Package jsontext reads IDs and writes JSON: any value in the service's form, and by hand strings
// and times for answers that are encoded often.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	fastjson "github.com/segmentio/encoding/json"
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
	return onOneLine(bytes.TrimSuffix(buf.Bytes(), []byte("\n")), 0), nil
}

// onOneLine escapes U+0085, which occurs only inside a string, in the JSON that begins at an index.
func onOneLine(data []byte, from int) []byte {
	const nextLine = "\u0085"
	if !bytes.Contains(data[from:], []byte(nextLine)) {
		return data
	}
	return append(data[:from], bytes.ReplaceAll(data[from:], []byte(nextLine), []byte(`\u0085`))...)
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

// Append appends the JSON of v, which equals Marshal's, for values that are encoded often. No struct in v
// may have the option omitzero. After an error it returns nil, though it may have written to dst.
func Append(dst []byte, v any) ([]byte, error) {
	from := len(dst)
	dst, err := fastjson.Append(dst, v, fastjson.SortMapKeys)
	if err != nil {
		return nil, err
	}
	return onOneLine(dst, from), nil
}

// AppendField appends the text before unchanged, followed by s as a JSON string in exactly the form of Marshal,
// without an allocation for most strings.
func AppendField(dst []byte, before, s string) []byte {
	dst = append(dst, before...)
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
