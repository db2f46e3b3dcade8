// Package strictjson decodes JSON by which a person or a program configures something,
// and reports all its mistakes together, each with its place.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/internal/nearest"
)

// A file is decoded twice: encoding/json checks whether it is valid JSON, and then the Decoder
// walks it along with the struct, by reflection. It splits each object and array into raw
// members, which are valid JSON, so their decoding errors can be ignored. The walk carries a
// path such as desks[0].token, which states the place of a mistake. Each level costs a pass
// over the text, which does not matter for files that people write.

// Problems are mistakes or warnings, each starting with the field and a colon. They contain
// names of fields and variables, never values, which may be secrets.
type Problems []string

// Add adds a problem.
func (p *Problems) Add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// News returns the problems in more whose fields p does not mention: neither the field
// itself nor one around or inside it. A problem in p without a field covers all of them.
func (p Problems) News(more []string) (news []string) {
	for _, problem := range more {
		field, _, _ := strings.Cut(problem, ":")
		if !slices.ContainsFunc(p, func(known string) bool {
			known, _, _ = strings.Cut(known, ":")
			return known == "" || field == known || isInside(field, known) || isInside(known, field)
		}) {
			news = append(news, problem)
		}
	}
	return news
}

// isInside reports whether a field is an element or a member of another.
func isInside(field, outer string) bool {
	return strings.HasPrefix(field, outer+".") || strings.HasPrefix(field, outer+"[")
}

// Decoder decodes JSON into structs. Maps get the keys in the JSON; the visible fields of
// an embedded struct count as the outer one's. A mistake is malformed JSON, an unknown or
// repeated field, a value of the wrong type (including null), or a field tagged
// secret:"true" that is empty or has white space around it. A wrong value is not stored.
// Package encoding/json, in contrast, stops at the first mistake, and accepts repeated
// fields and names in another case.
//
// Fields may be structs, maps with string keys, slices, strings, booleans, integers, and pointers
// to these. A map[string]json.RawMessage tagged others:"true" receives the fields that the struct
// around it does not have: objects of any form, in which every string counts as a secret. A Decoder
// may be used for several texts, one at a time.
type Decoder struct {
	Whole string // names the JSON if all of it is wrong, such as "the file"
	// Getenv returns the value for ${NAME} in strings; nil leaves them unchanged. An unset
	// variable is a mistake; an empty one is not.
	Getenv          func(name string) (value string, ok bool)
	Wrong, Warnings Problems // from all calls

	depth int // of the current value within an object of any form
}

// Decode decodes JSON into the struct that into points to. It adds its findings to Wrong and
// Warnings. If Wrong has anything new, the struct is only partly filled. Fields that are
// missing in the JSON stay unchanged.
func (d *Decoder) Decode(data []byte, into any) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		d.Wrong.Add("%s", malformed(data, err))
		return
	}
	for at := 0; at < len(data); { // encoding/json would replace the bytes
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			d.Wrong.Add("%s: not valid JSON: a character is not UTF-8", place(data[:at]))
			return
		}
		at += size
	}
	d.value("", whole, reflect.ValueOf(into).Elem(), false)
}

// malformed describes where JSON is malformed, or that it ends too soon.
func malformed(data []byte, err error) string {
	syntax, _ := errors.AsType[*json.SyntaxError](err)
	problem, before := "not valid JSON", data[:max(syntax.Offset-1, 0)]
	if endsTooSoon(data) {
		problem, before = "not valid JSON: it ends too soon", bytes.TrimRight(data, " \t\r\n")
	}
	return place(before) + ": " + problem
}

// place describes the place after some text. Lines and columns count from 1, columns in characters,
// as in editors.
func place(before []byte) string {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), 1+utf8.RuneCount(line))
}

// endsTooSoon reports whether the data are a prefix of a JSON value.
func endsTooSoon(data []byte) bool {
	err := json.NewDecoder(bytes.NewReader(data)).Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// kindNames maps the kinds of fields to names of the values that they take.
var kindNames = map[reflect.Kind]string{
	reflect.Struct: "an object",
	reflect.Map:    "an object",
	reflect.Slice:  "an array",
	reflect.String: "a string",
	reflect.Bool:   "true or false",
	reflect.Int:    "an integer",
}

// value stores one value, which is valid JSON without white space around it, and reports
// whether it was stored. Objects and arrays count as stored even if something inside is
// wrong. secret also applies to the strings in an array.
func (d *Decoder) value(path string, raw json.RawMessage, v reflect.Value, secret bool) bool {
	switch {
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if !d.value(path, raw, target.Elem(), secret) {
			return false
		}
		v.Set(target)
		return true
	case v.Kind() == reflect.Interface:
		d.anyValue(path, raw, v)
	case v.Kind() == reflect.Struct && raw[0] == '{':
		d.object(path, raw, v)
	case v.Kind() == reflect.Map && raw[0] == '{':
		d.entries(path, raw, v)
	case v.Kind() == reflect.Slice && raw[0] == '[':
		d.array(path, raw, v, secret)
	case v.Kind() == reflect.String && raw[0] == '"':
		return d.text(path, raw, v, secret)
	case string(raw) == "null" || json.Unmarshal(raw, v.Addr().Interface()) != nil:
		kind := cmp.Or(kindNames[v.Kind()], "a value of another type")
		if v.Kind() == reflect.Slice && json.Unmarshal([]byte(`""`), reflect.New(v.Type()).Interface()) == nil {
			kind = "a string or " + kind
		}
		d.Wrong.Add("%s: must be %s", cmp.Or(path, d.Whole), kind)
		return false
	}
	return true
}

// object stores an object in a struct, by the exact names in its json tags.
func (d *Decoder) object(path string, raw json.RawMessage, v reflect.Value) {
	known := map[string]reflect.StructField{}
	var others reflect.Value
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			known[name] = field
		}
		if field.Tag.Get("others") == "true" {
			others = v.FieldByIndex(field.Index)
		}
	}
	d.members(path, raw, func(at, name string, value json.RawMessage) {
		field, ok := known[name]
		switch {
		case ok:
			d.value(at, value, v.FieldByIndex(field.Index), field.Tag.Get("secret") == "true")
		case others.IsValid():
			d.other(at, name, value, others)
		default:
			d.Wrong.Add("%s: is not a known field%s", at, nearest.Hint(name, slices.Collect(maps.Keys(known))))
		}
	})
}

// entries stores an object with arbitrary names in a new map.
func (d *Decoder) entries(path string, raw json.RawMessage, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.members(path, raw, func(at, name string, value json.RawMessage) {
		item := reflect.New(v.Type().Elem()).Elem()
		if d.value(at, value, item, false) {
			v.SetMapIndex(reflect.ValueOf(name), item)
		}
	})
}

// members calls take with each member of an object, in order. It reports repeated members,
// and uses only the first.
func (d *Decoder) members(path string, raw json.RawMessage, take func(at, name string, value json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace; raw is valid, so this cannot fail
	seen := map[string]bool{}
	for dec.More() {
		token, _ := dec.Token()
		name := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		at := fmt.Sprintf("%.200s", strings.TrimPrefix(path+"."+name, "."))
		if seen[name] {
			d.Wrong.Add("%s: is a duplicate", at)
		} else {
			take(at, name, value)
		}
		seen[name] = true
	}
}

// other stores an object of any form as JSON under a name in a map, which it creates if it is nil.
func (d *Decoder) other(path, name string, raw json.RawMessage, v reflect.Value) {
	if raw[0] != '{' {
		d.Wrong.Add("%s: must be an object", path)
		return
	}
	var object map[string]any
	d.entries(path, raw, reflect.ValueOf(&object).Elem())
	if d.Getenv != nil {
		raw, _ = json.Marshal(object) // cannot fail: it was decoded from JSON
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(raw))
}

// maxDepth is the maximum nesting of an object of any form: each level costs another pass over
// everything below it.
const maxDepth = 8

// anyTypes maps the first byte of a value in such an object to its type. Numbers, booleans and
// null stay raw.
var anyTypes = map[byte]reflect.Type{
	'{': reflect.TypeFor[map[string]any](),
	'[': reflect.TypeFor[[]any](),
	'"': reflect.TypeFor[string](),
}

// anyValue stores a value in an object of any form. Its strings are addresses and credentials, so
// none may be empty or have white space around it. No array may be empty, since that would remove a
// secret.
func (d *Decoder) anyValue(path string, raw json.RawMessage, v reflect.Value) {
	d.depth++
	defer func() { d.depth-- }()
	t, ok := anyTypes[raw[0]]
	switch {
	case d.depth > maxDepth:
		d.Wrong.Add("%s: is nested too deep", path)
	case ok:
		item := reflect.New(t).Elem()
		if d.value(path, raw, item, true); item.Kind() == reflect.Slice && item.Len() == 0 {
			d.Wrong.Add("%s: must not be empty", path)
		}
		v.Set(item)
	default:
		v.Set(reflect.ValueOf(raw))
	}
}

// array stores an array in a new slice. A wrong element leaves its place zero, so that the
// indices in problems stay right.
func (d *Decoder) array(path string, raw json.RawMessage, v reflect.Value, secret bool) {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // it is valid
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i), secret)
	}
}

// text stores a string with its variables replaced, unless a variable is unset or the field
// is a secret and the string is not a valid one.
func (d *Decoder) text(path string, raw json.RawMessage, v reflect.Value, secret bool) bool {
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	s, ok := d.expand(path, s)
	trimmed := strings.TrimSpace(s)
	switch {
	case !ok:
		return false
	case secret && trimmed == "":
		d.Wrong.Add("%s: must not be empty", path)
		return false
	case secret && trimmed != s:
		d.Wrong.Add("%s: must not start or end with white space", path)
		return false
	}
	v.SetString(s)
	return true
}

var (
	variable = regexp.MustCompile(`\$\{[^}]*\}`)
	almost   = regexp.MustCompile(`\$[{A-Za-z_]`) // the start of a malformed variable
)

// expand replaces the variables in a string. It returns false if one is not set, and reports
// all of these. Values are not expanded again.
func (d *Decoder) expand(path, s string) (expanded string, ok bool) {
	if d.Getenv == nil {
		return s, true
	}
	if almost.MatchString(variable.ReplaceAllString(s, "")) {
		d.Warnings.Add("%s: a $ that ${NAME} does not follow is taken as it stands", path)
	}
	ok = true
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		value, set := d.Getenv(ref[2 : len(ref)-1])
		if !set {
			d.Wrong.Add("%s: the environment variable %s is not set", path, ref[2:len(ref)-1])
			ok = false
		}
		return value
	}), ok
}
