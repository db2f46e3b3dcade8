package liveactivity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"
)

// decode decodes JSON into the struct that into points at and returns
// everything that is wrong, each with its place: JSON that is malformed, fields
// that are unknown or duplicates, values of the wrong type (null is one), and
// secrets that are empty or have white space around them. Nothing is stored of a
// value that is wrong. The argument whole names the JSON where it is wrong as a
// whole. (Package encoding/json stops at the first mistake and takes duplicate
// fields, and those in other letters.)
func decode(data []byte, whole string, into any) []string {
	d := decoder{whole: whole}
	d.decode(data, into)
	return d.wrong
}

// decoder is decode, with ${NAME} in strings replaced by getenv unless that is nil.
type decoder struct {
	whole    string
	getenv   func(string) (string, bool)
	wrong    problems
	warnings problems
}

func (d *decoder) decode(data []byte, into any) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		d.wrong.add("%s: not valid JSON", position(data, err))
		return
	}
	d.value("", whole, reflect.ValueOf(into).Elem(), false)
}

// position says where JSON breaks. Lines and columns count from 1, columns in
// characters.
func position(data []byte, err error) string {
	var syntax *json.SyntaxError
	errors.As(err, &syntax)
	before := data[:max(syntax.Offset-1, 0)]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", 1+bytes.Count(before, []byte("\n")), 1+utf8.RuneCount(line))
}

// kindNames are what values are called, by the kind of what they are for.
var kindNames = map[reflect.Kind]string{
	reflect.Struct: "an object",
	reflect.Slice:  "an array",
	reflect.String: "a string",
	reflect.Bool:   "true or false",
	reflect.Int:    "an integer",
}

// value stores one value, which is valid JSON, and reports whether it was taken.
func (d *decoder) value(path string, raw json.RawMessage, v reflect.Value, secret bool) bool {
	switch {
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if !d.value(path, raw, target.Elem(), secret) {
			return false
		}
		v.Set(target)
		return true
	case v.Kind() == reflect.Struct && raw[0] == '{':
		d.object(path, raw, v)
	case v.Kind() == reflect.Slice && raw[0] == '[':
		d.array(path, raw, v, secret)
	case v.Kind() == reflect.String && raw[0] == '"':
		return d.text(path, raw, v, secret)
	case string(raw) == "null" || json.Unmarshal(raw, v.Addr().Interface()) != nil:
		d.wrong.add("%s: must be %s", cmp.Or(path, d.whole), kindNames[v.Kind()])
		return false
	}
	return true
}

func (d *decoder) object(path string, raw json.RawMessage, v reflect.Value) {
	known := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "-" {
			known[name] = field
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace; raw is valid, so nothing here can fail
	seen := map[string]bool{}
	for dec.More() {
		token, _ := dec.Token()
		name := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		at := strings.TrimPrefix(path+"."+name, ".")
		field, ok := known[name]
		switch {
		case seen[name]:
			d.wrong.add("%.200s: is a duplicate", at)
		case !ok && v.Type() == reflect.TypeFor[IntegrationConfig]():
			d.desk(fmt.Sprintf("%.200s", at), name, value, v.Addr().Interface().(*IntegrationConfig))
		case !ok:
			d.wrong.add("%.200s: is not a known field", at)
		default:
			d.value(at, value, v.FieldByIndex(field.Index), field.Tag.Get("secret") == "true")
		}
		seen[name] = true
	}
}

// desk stores the configuration of a help desk. Which desks there are, and what
// its fields mean, is not known here.
func (d *decoder) desk(path, name string, raw json.RawMessage, into *IntegrationConfig) {
	if raw[0] != '{' {
		d.wrong.add("%s: must be an object", path)
		return
	}
	expanded := d.deskValue(path, raw, 0)
	if d.getenv == nil {
		expanded = raw
	}
	if into.Desks == nil {
		into.Desks = map[string]json.RawMessage{}
	}
	into.Desks[name] = expanded
}

// maxDeskDepth is how deep the configuration of a desk may be nested: each level
// costs another pass over what is below it.
const maxDeskDepth = 8

// deskValue returns a value of a desk's configuration with the variables in its
// strings replaced. Those are addresses and credentials: none may be empty or
// have white space around it, and no array may be empty, as it would take away a
// secret.
func (d *decoder) deskValue(path string, raw json.RawMessage, depth int) json.RawMessage {
	switch {
	case depth > maxDeskDepth:
		d.wrong.add("%s: is nested too deep", path)
	case raw[0] == '{':
		return d.deskObject(path, raw, depth)
	case raw[0] == '[':
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is valid
		if len(items) == 0 {
			d.wrong.add("%s: must not be empty", path)
		}
		for i, item := range items {
			items[i] = d.deskValue(fmt.Sprintf("%s[%d]", path, i), item, depth+1)
		}
		return mustMarshal(items)
	case raw[0] == '"':
		var s string
		if d.text(path, raw, reflect.ValueOf(&s).Elem(), true) {
			return mustMarshal(s)
		}
	}
	return raw
}

func (d *decoder) deskObject(path string, raw json.RawMessage, depth int) json.RawMessage {
	fields := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace; raw is valid, so nothing here can fail
	for dec.More() {
		token, _ := dec.Token()
		name := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		at := fmt.Sprintf("%.200s", path+"."+name)
		if _, ok := fields[name]; ok {
			d.wrong.add("%s: is a duplicate", at)
		}
		fields[name] = d.deskValue(at, value, depth+1)
	}
	return mustMarshal(fields)
}

// mustMarshal encodes what was decoded from JSON.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func (d *decoder) array(path string, raw json.RawMessage, v reflect.Value, secret bool) {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // it is valid
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i), secret)
	}
}

func (d *decoder) text(path string, raw json.RawMessage, v reflect.Value, secret bool) bool {
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	s, ok := d.expand(path, s)
	trimmed := strings.TrimSpace(s)
	switch {
	case !ok:
		return false
	case secret && trimmed == "":
		d.wrong.add("%s: must not be empty", path)
		return false
	case secret && trimmed != s:
		d.wrong.add("%s: must not start or end with white space", path)
		return false
	}
	v.SetString(s)
	return true
}

var (
	variable = regexp.MustCompile(`\$\{[^}]*\}`)
	almost   = regexp.MustCompile(`\$[{A-Za-z_]`) // what is left of a variable whose braces are missing
)

// expand replaces the variables of a string; it reports false when one is not set.
func (d *decoder) expand(path, s string) (expanded string, ok bool) {
	if d.getenv == nil {
		return s, true
	}
	if almost.MatchString(variable.ReplaceAllString(s, "")) {
		d.warnings.add("%s: a $ that ${NAME} does not follow is taken as it stands", path)
	}
	ok = true
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		value, set := d.getenv(ref[2 : len(ref)-1])
		if !set {
			d.wrong.add("%s: the environment variable %s is not set", path, ref[2:len(ref)-1])
			ok = false
		}
		return value
	}), ok
}
