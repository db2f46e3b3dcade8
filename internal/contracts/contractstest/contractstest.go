// Package contractstest reads the contracts of package contracts for tests: it
// resolves their references and validates values against their schemas.
package contractstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

// Object is a JSON object.
type Object = map[string]any

// Document is an OpenAPI or AsyncAPI document.
type Document struct {
	Root     Object
	compiled map[string]*jsonschema.Resolved // keyed by the schemas' JSON
}

// Parse returns the document in data.
func Parse(t testing.TB, data []byte) *Document {
	t.Helper()
	d := &Document{compiled: map[string]*jsonschema.Resolved{}}
	require.NoError(t, json.Unmarshal(data, &d.Root))
	return d
}

// at returns the object in a field, or an empty one.
func at(o Object, field string) Object {
	inner, _ := o[field].(Object)
	return inner
}

// Follow returns the object itself or, if it is a reference, its target.
func (d *Document) Follow(t testing.TB, value any) Object {
	t.Helper()
	object, ok := value.(Object)
	require.True(t, ok, "not an object: %v", value)
	for object["$ref"] != nil {
		path, local := strings.CutPrefix(object["$ref"].(string), "#/")
		require.True(t, local, "%v", object)
		target := d.Root
		for field := range strings.SplitSeq(path, "/") {
			next, ok := target[strings.NewReplacer("~1", "/", "~0", "~").Replace(field)].(Object)
			require.True(t, ok, "%v leads nowhere", object)
			target = next
		}
		object = target
	}
	return object
}

// Validate returns the mistakes in a decoded JSON value according to a schema
// of the document. An object may have only the properties that its schema
// names, unless the schema states otherwise: a document may allow future
// properties, but a test checks the present ones.
func (d *Document) Validate(t testing.TB, schema, value any) error {
	t.Helper()
	encoded, err := json.Marshal(schema)
	require.NoError(t, err)
	resolved := d.compiled[string(encoded)]
	if resolved == nil {
		resolved = d.compile(t, schema)
		d.compiled[string(encoded)] = resolved
	}
	return resolved.Validate(value)
}

// compile returns the schema, closed, with everything to which it refers.
func (d *Document) compile(t testing.TB, schema any) *jsonschema.Resolved {
	t.Helper()
	defs := Object{}
	encoded, err := json.Marshal(Object{"$defs": defs, "allOf": []any{d.local(t, schema, defs)}})
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(encoded, &s))
	resolved, err := s.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// local returns the schema, closed, with references into defs. It adds their
// targets to defs.
func (d *Document) local(t testing.TB, schema any, defs Object) any {
	t.Helper()
	switch schema := schema.(type) {
	case Object:
		result := make(Object, len(schema)+1)
		for name, value := range schema {
			switch name {
			case "const", "enum", "default":
				result[name] = value
			case "$ref":
				definition := path.Base(value.(string))
				result[name] = "#/$defs/" + definition
				if defs[definition] == nil {
					defs[definition] = Object{} // reserve the name: it may refer to itself
					defs[definition] = d.local(t, d.Follow(t, schema), defs)
				}
			default:
				result[name] = d.local(t, value, defs)
			}
		}
		_, properties := schema["properties"].(Object)
		if _, said := schema["additionalProperties"]; properties && schema["type"] == "object" && !said {
			result["additionalProperties"] = false
		}
		return result
	case []any:
		result := make([]any, len(schema))
		for i, value := range schema {
			result[i] = d.local(t, value, defs)
		}
		return result
	}
	return schema
}

// Operation is an operation of an OpenAPI document.
type Operation struct {
	ID, Method, Path string // Path has names in braces
	Fields           Object
}

// Operations returns an OpenAPI document's operations, by path and method.
func (d *Document) Operations(t testing.TB) (all []Operation) {
	t.Helper()
	paths := at(d.Root, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(Object)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			fields := item[method].(Object)
			all = append(all, Operation{fmt.Sprint(fields["operationId"]), strings.ToUpper(method), path, fields})
		}
	}
	require.NotEmpty(t, all)
	return all
}

// Tag returns the operation's tag.
func (op Operation) Tag() string { return op.Fields["tags"].([]any)[0].(string) }

// Parameters returns the parameters of an operation.
func (d *Document) Parameters(t testing.TB, op Operation) (all []Object) {
	t.Helper()
	list, _ := op.Fields["parameters"].([]any)
	for _, parameter := range list {
		all = append(all, d.Follow(t, parameter))
	}
	return all
}

// Statuses returns the statuses that an operation's answers may have.
func (op Operation) Statuses(t testing.TB) (all []int) {
	t.Helper()
	for _, status := range slices.Sorted(maps.Keys(at(op.Fields, "responses"))) {
		number, err := strconv.Atoi(status)
		require.NoError(t, err)
		all = append(all, number)
	}
	return all
}

// Example is an example of a body.
type Example struct {
	Name      string
	MediaType string
	Value     any
}

// Bodies returns the examples of an operation's request body, or nil if it has
// none.
func (d *Document) Bodies(t testing.TB, op Operation) []Example {
	t.Helper()
	if op.Fields["requestBody"] == nil {
		return nil
	}
	return Examples(at(d.Follow(t, op.Fields["requestBody"]), "content"))
}

// Examples returns the examples of a body's media types, by name.
func Examples(content Object) (all []Example) {
	for _, mediaType := range slices.Sorted(maps.Keys(content)) {
		media := content[mediaType].(Object)
		if value, ok := media["example"]; ok {
			all = append(all, Example{"example", mediaType, value})
		}
		examples := at(media, "examples")
		for _, name := range slices.Sorted(maps.Keys(examples)) {
			all = append(all, Example{name, mediaType, examples[name].(Object)["value"]})
		}
	}
	return all
}

// ValidateAnswer returns the mistakes in an answer to an operation: in its
// status, media type, headers or body.
func (d *Document) ValidateAnswer(t testing.TB, op Operation, status int, header http.Header, body []byte) error {
	t.Helper()
	documented, ok := at(op.Fields, "responses")[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("the status %d is not documented", status)
	}
	response := d.Follow(t, documented)
	for name, h := range at(response, "headers") {
		given := header.Values(name)
		if len(given) != 1 {
			return fmt.Errorf("the header %s is there %d times", name, len(given))
		}
		if err := d.Validate(t, d.Follow(t, h)["schema"], given[0]); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	content := at(response, "content")
	if len(content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("a body is not documented: %s", body)
		}
		return nil
	}
	mediaType, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	media, ok := content[mediaType].(Object)
	if !ok {
		return fmt.Errorf("the media type %q is not documented", mediaType)
	}
	var value any = string(body)
	if mediaType == "application/json" {
		if err := json.Unmarshal(body, &value); err != nil {
			return err
		}
	}
	return d.Validate(t, media["schema"], value)
}
