package mcptool

import "encoding/json"

// The schemas are written out rather than derived from Go types by
// mcp.AddTool, which would decode and validate each result once more and whose
// argument errors name Go types.
var inputSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"user_id": {"type": "string", "description": "The user's stable id, as the product identifies the user to its analytics."},
		"product_id": {"type": "string", "description": "The product the user is using; the API key's product if omitted."},
		"limit": {"type": "integer", "description": "How many of the newest actions to return; all that are kept if omitted."}
	},
	"required": ["user_id"]
}`)

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
			"items": {
				"type": "object",
				"properties": {
					"type": {"type": "string", "description": "pageview, click, submit or change."},
					"title": {"type": "string"},
					"description": {"type": "string", "description": "What the user did, and on which page."},
					"timestamp_start": {"type": "number", "description": "Epoch seconds."},
					"timestamp_end": {"type": "number", "description": "Epoch seconds."},
					"raw_url": {"type": "string"},
					"canonical_url": {"type": "string", "description": "The URL with identifiers replaced by :id."},
					"index": {"type": "integer"}
				},
				"required": ["type", "title", "description", "timestamp_start", "timestamp_end", "raw_url", "canonical_url", "index"]
			}
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
		"q": {"type": "string", "description": "Only sessions whose e-mail address, user id or session id begins with this, in upper or lower case. Of a search, a result that is empty may not be the last: look at next."}
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
				"required": ["session_id", "user_id", "email", "page", "canonical_url", "last_action", "first_seen", "last_seen", "actions"]
			}
		},
		"next": {"type": ["string", "null"], "description": "What to pass as after to continue; null at the end."}
	},
	"required": ["sessions", "next"]
}`)
