package jsontext

import "strings"

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
