package mcptool

import "encoding/json"

// The schemas are written out rather than derived from Go types by mcp.AddTool, which would
// decode and validate each result once more and whose argument errors name Go types. They
// describe the objects of the REST endpoints: a field added there is added here. The input
// schemas are for models; ofUser, ofPerson and ofProduct take more than they say, such as a
// number for a string.
var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"user_id": {"type": "string",
			"description": "The user's stable id, as the product identifies the user to its analytics."},
		"product_id": {"type": "string", "description": "The product the user is using; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many of the newest actions to return; all that are kept if omitted."}
	},
	"required": ["user_id"]
}`)

// actionSchema is an action in the results of two tools, indented for its place there.
const actionSchema = `{
				"type": "object",
				"properties": {
					"type": {"type": "string", "description": "pageview, click, submit, change, event or error."},
					"title": {"type": "string"},
					"description": {"type": "string", "description": "What the user did, and on which page."},
					"properties": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Of a custom event."},
					"timestamp_start": {"type": "number", "description": "Epoch seconds."},
					"timestamp_end": {"type": "number", "description": "Epoch seconds."},
					"raw_url": {"type": "string"},
					"canonical_url": {"type": "string", "description": "The URL with identifiers replaced by :id."},
					"index": {"type": "integer"}
				},
				"required": ["type", "title", "description", "timestamp_start", "timestamp_end", "raw_url",
					"canonical_url", "index"]
			}`

var outputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string"},
		"user_id": {"type": "string"},
		"count": {"type": "integer", "description": "Number of actions."},
		"as_of": {"type": "number", "description": "Time of the lookup, in epoch seconds."},
		"actions": {
			"type": "array",
			"description": "What the user did, oldest first.",
			"items": ` + actionSchema + `
		}
	},
	"required": ["product_id", "user_id", "count", "as_of", "actions"]
}`)

var sessionsInput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string", "description": "The product; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many sessions to return: 50 if omitted, at most 200."},
		"after": {"type": "string", "description": "The value of next in the result to continue."},
		"q": {"type": "string",
			"description": "Only sessions whose e-mail address, user id or session id begins with this, in upper or lower case. Of a search, a result that is empty may not be the last: look at next."}
	}
}`)

var sessionsOutput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"sessions": {
			"type": "array",
			"description": "The session seen last first.",
			"items": {
				"type": "object",
				"properties": {
					"session_id": {"type": "string"},
					"user_id": {"type": "string", "description": "Empty while unknown."},
					"email": {"type": "string", "description": "Empty while unknown."},
					"page": {"type": "string", "description": "The page that the user is on, in words."},
					"canonical_url": {"type": "string", "description": "The page's URL with identifiers replaced by :id."},
					"last_action": {"type": "string", "description": "What the user did last."},
					"first_seen": {"type": "number", "description": "Epoch seconds."},
					"last_seen": {"type": "number", "description": "Epoch seconds."},
					"actions": {"type": "integer", "description": "Number of the session's actions so far."},
					"conversation_id": {"type": "string", "description": "The help-desk conversation that the session is linked to."},
					"state": {"type": "string", "description": "What the proactive assistance in that conversation is doing."}
				},
				"required": ["session_id", "user_id", "email", "page", "canonical_url", "last_action", "first_seen",
					"last_seen", "actions"]
			}
		},
		"next": {"type": ["string", "null"], "description": "What to pass as after to continue; null at the end."}
	},
	"required": ["sessions", "next"]
}`)

var contextInput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"email": {"type": "string", "description": "The person's e-mail address."},
		"user_id": {"type": "string",
			"description": "The person's stable id, as the product identifies users to its analytics; not an e-mail address, unless that is the id."},
		"session_id": {"type": "string", "description": "A session, which alone is looked at."},
		"conversation_id": {"type": "string", "description": "The help-desk conversation that the person is in."},
		"desk": {"type": "string", "description": "The help desk of the conversation, where several have that id."},
		"product_id": {"type": "string", "description": "The product; the API key's product if omitted."},
		"since": {"type": "string",
			"description": "The cursor of an earlier result, for only what has arrived since; or epoch seconds."},
		"limit": {"type": "integer",
			"description": "How many of the newest actions to return; all that are kept if omitted."},
		"max_chars": {"type": "integer",
			"description": "The most characters of the text, from 200 to 20000; 4000 if omitted."}
	}
}`)

var contextOutput = json.RawMessage(`{
	"type": "object",
	"properties": {
		"product_id": {"type": "string"},
		"user_id": {"type": "string", "description": "Empty while unknown."},
		"email": {"type": "string", "description": "Empty while unknown."},
		"identity": {"type": "string",
			"description": "Whose word it is that this is who was asked for: signed, reported, claimed (not verified) or anonymous."},
		"session_ids": {"type": "array", "items": {"type": "string"}},
		"conversation_id": {"type": "string"},
		"page": {"type": "string", "description": "The page that the person is on, in words."},
		"canonical_url": {"type": "string", "description": "The page's URL with identifiers replaced by :id."},
		"on_page_s": {"type": "number", "description": "Seconds since the person came to the page."},
		"here_s": {"type": "number", "description": "Seconds since the session's first action."},
		"last_seen": {"type": "number", "description": "Epoch seconds; 0 while unknown."},
		"summary": {"type": "string", "description": "Of earlier activity, in the linked conversation."},
		"count": {"type": "integer", "description": "Number of actions."},
		"actions": {
			"type": "array",
			"description": "What the person did, oldest first.",
			"items": ` + actionSchema + `
		},
		"truncated": {"type": "boolean", "description": "Whether the text leaves some of the actions out."},
		"prompt": {"type": "string", "description": "The product's own words to its agents."},
		"text": {"type": "string"},
		"cursor": {"type": "string", "description": "What to pass as since for what arrives later."},
		"as_of": {"type": "number", "description": "Time of the answer, in epoch seconds."}
	},
	"required": ["product_id", "user_id", "email", "identity", "session_ids", "page", "canonical_url",
		"on_page_s", "here_s", "last_seen", "count", "actions", "truncated", "text", "cursor", "as_of"]
}`)
