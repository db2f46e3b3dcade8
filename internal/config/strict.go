package config

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
	"strconv"
	"strings"
)

// Decode decodes JSON into the struct that into points at and returns
// everything that is wrong: JSON that is not JSON, fields that are unknown or
// there twice, values of the wrong type, environment variables that are not
// set, and secrets that are empty. With a nil getenv, ${NAME} means itself. What
// the JSON as a whole is called is the caller's choice.
func Decode(data []byte, getenv func(string) (string, bool), whole string, into any) []string {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	d := &strictDecoder{dec: json.NewDecoder(bytes.NewReader(data)), getenv: getenv, whole: whole}
	d.dec.UseNumber()
	tree, err := d.value("")
	if err == nil {
		if _, err = d.dec.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errTrailing
		}
	}
	if err != nil {
		line := 1 + bytes.Count(data[:min(int(d.dec.InputOffset()), len(data))], []byte("\n"))
		return []string{fmt.Sprintf("line %d: not valid JSON: %s", line, mistake(err))}
	}
	d.check(tree, reflect.TypeOf(into).Elem(), "", false)
	expanded, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(expanded, into) // what is wrong is left out
	}
	if err != nil && d.problems == nil {
		return []string{err.Error()}
	}
	return d.problems
}

// mistake says what is wrong with JSON without Go's words for it.
func mistake(err error) string {
	switch {
	case errors.Is(err, errTooDeep), errors.Is(err, errTrailing):
		return err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it breaks off"
	}
	return "there is a mistake in its form"
}

type strictDecoder struct {
	dec      *json.Decoder
	getenv   func(string) (string, bool)
	whole    string
	problems problems
	depth    int
}

// maxDepth is how deep objects and arrays may nest; a product file has six levels.
const maxDepth = 32

var (
	errTooDeep  = errors.New("its objects and arrays nest too deep")
	errTrailing = errors.New("something follows its end")
)

// value reads one value, with the environment's values in its strings.
func (d *strictDecoder) value(path string) (any, error) {
	token, err := d.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if d.depth++; d.depth > maxDepth {
		return nil, errTooDeep
	}
	defer func() { d.depth-- }()
	switch token {
	case json.Delim('{'):
		return d.object(path)
	case json.Delim('['):
		list := []any{}
		for d.dec.More() {
			v, err := d.value(fmt.Sprintf("%s[%d]", path, len(list)))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.dec.Token()
		return list, err
	}
	if s, ok := token.(string); ok {
		return d.expand(path, s), nil
	}
	return token, nil
}

func (d *strictDecoder) object(path string) (any, error) {
	fields := map[string]any{}
	for d.dec.More() {
		token, err := d.dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder takes nothing else for a name
		if _, ok := fields[name]; ok {
			d.problems.add("%s: is there twice", join(path, name))
		}
		if fields[name], err = d.value(join(path, name)); err != nil {
			return nil, err
		}
	}
	_, err := d.dec.Token()
	return fields, err
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

func (d *strictDecoder) expand(path, s string) string {
	if d.getenv == nil {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		name := ref[2 : len(ref)-1]
		value, ok := d.getenv(name)
		if !ok {
			d.problems.add("%s: the environment variable %s is not set", path, name)
			return "unset" // so that it is not reported as empty as well
		}
		return value
	})
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// check compares a value with the type it is for. It takes out of the value
// what does not fit, and reports false when the value itself does not.
func (d *strictDecoder) check(v any, t reflect.Type, path string, secret bool) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, ok := v.([]any); t == reflect.TypeFor[Strings]() && !ok {
		t = reflect.TypeFor[string]()
	}
	var ok bool
	switch t.Kind() {
	case reflect.Struct:
		var fields map[string]any
		if fields, ok = v.(map[string]any); ok {
			d.checkFields(fields, t, path)
		}
	case reflect.Slice:
		var list []any
		if list, ok = v.([]any); ok {
			d.checkItems(list, t, path, secret)
		}
	case reflect.String:
		var s string
		if s, ok = v.(string); ok && secret && strings.TrimSpace(s) == "" {
			d.problems.add("%s: must not be empty", path)
		}
	case reflect.Bool:
		_, ok = v.(bool)
	case reflect.Int:
		var n json.Number
		if n, ok = v.(json.Number); ok {
			_, err := strconv.Atoi(n.String())
			ok = err == nil
		}
	}
	if !ok {
		d.problems.add("%s: must be %s", cmp.Or(path, d.whole), kindNames[t.Kind()])
	}
	return ok
}

var kindNames = map[reflect.Kind]string{
	reflect.Struct: "an object",
	reflect.Slice:  "an array",
	reflect.String: "a string",
	reflect.Bool:   "true or false",
	reflect.Int:    "an integer",
}

func (d *strictDecoder) checkFields(fields map[string]any, t reflect.Type, path string) {
	known := map[string]reflect.StructField{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = t.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := known[name]
		if !ok {
			d.problems.add("%s: is not a known field", join(path, name))
			delete(fields, name) // encoding/json would take it for one of another case
			continue
		}
		if !d.check(fields[name], field.Type, join(path, name), field.Tag.Get("secret") == "true") {
			delete(fields, name)
		}
	}
}

func (d *strictDecoder) checkItems(list []any, t reflect.Type, path string, secret bool) {
	if len(list) == 0 && t == reflect.TypeFor[Strings]() && secret {
		d.problems.add("%s: must not be empty", path)
	}
	for i, item := range list {
		if !d.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), secret) {
			list[i] = nil
		}
	}
}
