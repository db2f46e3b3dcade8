package jsontext

import (
	"encoding/json"
	"strings"
)

// The fields of an action's JSON object, in their order, each as far as its value. The text of
// a field stands nowhere else in the object: inside of a string its quotes are escaped.
const (
	TypeField         = `{"type":`
	TitleField        = `,"title":`
	DescriptionField  = `,"description":`
	MarksField        = `,"marks":[` // of an action with marks
	RawURLField       = `,"raw_url":`
	CanonicalURLField = `,"canonical_url":`
)

// CutString cuts the string that JSON begins with, and decodes it. Anything else is "", and the
// rest is all of the data; a string without an end has no rest. Without escapes, text is a part
// of data.
func CutString(data string) (text, rest string) {
	if !strings.HasPrefix(data, `"`) {
		return "", data
	}
	end := strings.IndexByte(data[1:], '"') + 1
	if end > 0 && strings.IndexByte(data[:end], '\\') < 0 {
		return data[1:end], data[end+1:]
	}
	for end = 1; end < len(data); end++ {
		switch data[end] {
		case '\\':
			end++
		case '"':
			return unescaped(data[:end+1]), data[end+1:]
		}
	}
	return "", ""
}

// unescaped returns the text of a JSON string.
func unescaped(data string) (text string) {
	_ = json.Unmarshal([]byte(data), &text) // else it is empty
	return text
}

// LastString returns the string, with its quotes, that JSON ends in. It is "" if there is none,
// or nothing before it.
func LastString(json string) string {
	for i := len(json) - 1; i > 0; {
		i = strings.LastIndexByte(json[:i], '"')
		if i > 0 && json[i-1] != '\\' { // which a quote inside the string has before it
			return json[i:]
		}
	}
	return ""
}
