package config

import (
	"bytes"
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
// set, and secrets that are empty. With a nil getenv, ${NAME} means itself.
func Decode(data []byte, getenv func(string) (string, bool), into any) []string {
	d := &strictDecoder{dec: json.NewDecoder(bytes.NewReader(data)), getenv: getenv}
	d.dec.UseNumber()
	tree, err := d.value("")
	if err == nil {
		if _, err = d.dec.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("something follows the end of the JSON")
		}
	}
	if err != nil {
		return []string{fmt.Sprintf("is not valid JSON (line %d): %v", 1+bytes.Count(data[:min(int(d.dec.InputOffset()), len(data))], []byte("\n")), err)}
	}
	d.check(tree, reflect.TypeOf(into).Elem(), "", false)
	if d.problems != nil {
		return d.problems
	}
	expanded, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(expanded, into)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

type strictDecoder struct {
	dec      *json.Decoder
	getenv   func(string) (string, bool)
	problems problems
}

// value reads one value, with the environment's values in its strings.
func (d *strictDecoder) value(path string) (any, error) {
	token, err := d.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
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

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

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

// check compares a value with the type it is for.
func (d *strictDecoder) check(v any, t reflect.Type, path string, secret bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, ok := v.([]any); t == reflect.TypeFor[Strings]() && !ok {
		t = reflect.TypeFor[string]()
	}
	switch t.Kind() {
	case reflect.Struct:
		d.checkStruct(v, t, path)
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			d.problems.add("%s: must be an array", orFile(path))
			return
		}
		for i, item := range list {
			d.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), secret)
		}
	case reflect.String:
		if s, ok := v.(string); !ok {
			d.problems.add("%s: must be a string", path)
		} else if secret && strings.TrimSpace(s) == "" {
			d.problems.add("%s: must not be empty", path)
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			d.problems.add("%s: must be true or false", path)
		}
	case reflect.Int:
		n, ok := v.(json.Number)
		if _, err := strconv.Atoi(n.String()); !ok || err != nil {
			d.problems.add("%s: must be an integer", path)
		}
	default:
		panic("config: no rule for " + t.String())
	}
}

func (d *strictDecoder) checkStruct(v any, t reflect.Type, path string) {
	fields, ok := v.(map[string]any)
	if !ok {
		d.problems.add("%s: must be an object", orFile(path))
		return
	}
	known := map[string]reflect.StructField{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = t.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, ok := known[name]
		if !ok {
			d.problems.add("%s: is not a known field", join(path, name))
			continue
		}
		d.check(fields[name], field.Type, join(path, name), field.Tag.Get("secret") == "true")
	}
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
