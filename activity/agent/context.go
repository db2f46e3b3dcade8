package agent

import "github.com/liveactivity/liveactivity/activity"

// Anonymous is the [Context.Identity] of an unidentified visitor. Otherwise the identity is
// the [activity.Standing] of the identifier that the query names.
const Anonymous = "anonymous"

// Context is one person's context for an agent. Texts are empty while unknown, and numbers
// zero; slices are never nil.
type Context struct {
	ProductID string `json:"product_id"`
	UserID    string `json:"user_id" jsonschema:"Empty while unknown."`
	Email     string `json:"email" jsonschema:"Empty while unknown."`
	Identity  string `json:"identity" jsonschema:"How sure it is: signed, reported, claimed (not verified) or anonymous."`

	SessionIDs     []string `json:"session_ids"` // the session seen last at the end
	ConversationID string   `json:"conversation_id,omitempty"`

	// The person's last place, as far as it is known. The durations end at AsOf.
	Page         string  `json:"page" jsonschema:"The page that the person is on, in words."` // see activity.PageName
	CanonicalURL string  `json:"canonical_url" jsonschema:"The page's URL with identifiers replaced by :id."`
	OnPageS      float64 `json:"on_page_s" jsonschema:"Seconds since the person came to the page."`
	HereS        float64 `json:"here_s" jsonschema:"Seconds since the session's first action."`
	LastSeen     float64 `json:"last_seen" jsonschema:"Epoch seconds; 0 while unknown."`

	// Summary is the newest one of the linked conversation.
	Summary string `json:"summary,omitempty" jsonschema:"Of earlier activity, in the linked conversation."`

	// Actions are of all the person's sessions.
	Count   int               `json:"count" jsonschema:"Number of actions."`
	Actions []activity.Action `json:"actions" jsonschema:"The person's actions, oldest first."`

	// Text is for a model, and has at most Query.MaxChars characters.
	Truncated bool   `json:"truncated" jsonschema:"Whether the text leaves actions out, for its size or for limit."`
	Prompt    string `json:"prompt,omitempty" jsonschema:"The product's own words to its agents."`
	Text      string `json:"text"`

	// Cursor is for Query.Cursor: everything up to it is in this answer, unless it exceeds
	// Query.Limit.
	Cursor string  `json:"cursor" jsonschema:"Pass it as since to get only later actions."`
	AsOf   float64 `json:"as_of" jsonschema:"Time of the answer, in epoch seconds."`
}
