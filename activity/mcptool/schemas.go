package mcptool

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaOf returns the schema of a tool's arguments or result, the JSON of a T. mcp.AddTool
// would derive it as well, but would decode and validate each value once more, and its argument
// errors name Go types.
func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[limit](): {Type: "integer"},
	}})
	if err != nil {
		panic(err) // T has a field that JSON cannot express
	}
	loosen(s)
	return s
}

// loosen allows the objects of a schema to gain fields in a later version. It also rules out
// null for arrays, because no slice of a result is nil.
func loosen(s *jsonschema.Schema) {
	if s.Items != nil {
		s.Type, s.Types = "array", nil
		loosen(s.Items)
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	for _, property := range s.Properties {
		loosen(property)
	}
}
