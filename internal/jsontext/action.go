package jsontext

import "strings"

// Fields of an action's JSON object, each up to its value. These texts cannot
// occur elsewhere in the object, because quotes inside a string are escaped.
const (
	DescriptionField  = `,"description":`
	MarksField        = `,"marks":[` // only with marks
	RawURLField       = `,"raw_url":`
	CanonicalURLField = `,"canonical_url":`
)

// LastString returns the string, with its quotes, at the end of JSON. It is "" if there is
// none, or nothing before it.
func LastString(json string) string {
	for i := len(json) - 1; i > 0; {
		i = strings.LastIndexByte(json[:i], '"')
		if i > 0 && json[i-1] != '\\' { // a quote inside the string is escaped
			return json[i:]
		}
	}
	return ""
}
