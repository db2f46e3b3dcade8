package jsonscan

import "bytes"

// Shape measures the work of decoding a JSON text. For valid JSON, Values is at least the
// number of values minus one.
type Shape struct {
	Depth    int // of nested objects and arrays
	Values   int // objects, arrays, and commas between values
	Elements int // elements of the text; zero if it is not an array
}

// ShapeOf returns the shape of a text. If the text is invalid JSON, the result is a guess. It
// takes one pass without allocations, so it can run before anything trusts the text. An empty
// array counts as one element.
func ShapeOf(text []byte) (s Shape) {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) > 0 && text[0] == '[' {
		s.Elements = 1
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			s.Depth = max(s.Depth, depth)
			s.Values++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			s.Values++
			if depth == 1 && s.Elements > 0 {
				s.Elements++
			}
		}
	}
	return s
}
