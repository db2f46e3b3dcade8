package mcptool

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// resultOf returns the schema of a tool's result, the JSON of a T. mcp.AddTool would derive it,
// too, but decode and validate each result once more, and its argument errors name Go types.
func resultOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // T has a field that JSON cannot express
	}
	loosen(s)
	return s
}

// loosen lets the objects of a schema gain fields in a later version. It makes arrays arrays only:
// no slice of a result is nil.
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

// The input schemas are for models; ofUser, ofPerson and ofProduct take more than they say, such
// as a number for a string.
var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"user_id": {"type": "string",
			"description": "The user's stable id, as the product identifies the user to its analytics."},
		"product_id": {"type": "string", "description": "The product the user is using; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many of the newest actions to return; all if omitted."}
	},
	"required": ["user_id"]
}`)

var sessionsInput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string", "description": "The product; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many sessions to return: 50 if omitted, at most 200."},
		"after": {"type": "string", "description": "The value of next in the result to continue."},
		"q": {"type": "string",
			"description": "Only sessions whose email address, user id or session id begins with this, ` +
	`in upper or lower case. Of a search, a result that is empty may not be the last: look at next."}
	}
}`)

var contextInput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"email": {"type": "string", "description": "The person's email address."},
		"user_id": {"type": "string",
			"description": "The person's stable ID, as the product identifies users to its analytics; ` +
	`not an email address, unless that is the ID."},
		"session_id": {"type": "string", "description": "A session; only its actions are returned."},
		"conversation_id": {"type": "string", "description": "The help-desk conversation that the person is in."},
		"desk": {"type": "string", "description": "The help desk of the conversation, if several have that ID."},
		"product_id": {"type": "string", "description": "The product; the API key's product if omitted."},
		"since": {"type": "string",
			"description": "The cursor of an earlier result, for only later actions; or epoch seconds."},
		"limit": {"type": "integer",
			"description": "How many of the newest actions to return; all if omitted."},
		"max_chars": {"type": "integer",
			"description": "The most characters of the text, from 200 to 20000; 4000 if omitted."}
	}
}`)
