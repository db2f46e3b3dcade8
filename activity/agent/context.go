package agent

import (
	"bytes"

	fastjson "github.com/segmentio/encoding/json" // encodes long texts several times as fast

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/buffers"
)

// Anonymous is the [Context.Identity] of an unidentified visitor. Otherwise the identity is
// the [activity.Standing] of the identifier that the query names.
const Anonymous = "anonymous"

// Context is one person's context for an agent. Texts are empty while unknown, and numbers
// zero; slices are never nil.
type Context struct {
	ProductID      string   `json:"product_id"`
	UserID         string   `json:"user_id"`
	Email          string   `json:"email"`
	Identity       string   `json:"identity"`    // "signed", "reported", "claimed" or "anonymous"
	SessionIDs     []string `json:"session_ids"` // the session seen last at the end
	ConversationID string   `json:"conversation_id,omitempty"`

	// Where the person was last, as far as anything is kept.
	Page         string  `json:"page"` // in words; see activity.PageName
	CanonicalURL string  `json:"canonical_url"`
	OnPageS      float64 `json:"on_page_s"` // seconds from when the person came to the page to AsOf
	HereS        float64 `json:"here_s"`    // seconds from the session's first action to AsOf
	LastSeen     float64 `json:"last_seen"` // epoch seconds

	Summary   string            `json:"summary,omitempty"` // the newest of the linked conversation
	Count     int               `json:"count"`             // len(Actions)
	Actions   []activity.Action `json:"actions"`           // over all sessions, oldest first
	Truncated bool              `json:"truncated"`         // the text leaves some of the actions out
	Prompt    string            `json:"prompt,omitempty"`  // of the product, for its agents
	Text      string            `json:"text"`              // for a model, at most Query.MaxChars characters
	Cursor    string            `json:"cursor"`            // for Query.Cursor: everything up to here is in the answer
	AsOf      float64           `json:"as_of"`             // epoch seconds
}

// Answer is a [Context] whose actions are encoded: Actions is nil, and Recent has them.
type Answer struct {
	Context
	Recent recent.Records
}

// Decode returns the context with its actions.
func (a *Answer) Decode() (c Context, err error) {
	c = a.Context
	c.Actions, err = a.Recent.Actions()
	return c, err
}

// AppendJSON appends the JSON of the context. It costs a copy of the actions and no encoding.
// After an error dst is as it was.
func (a *Answer) AppendJSON(dst []byte) ([]byte, error) {
	buf := buffers.Get()
	defer buffers.Put(buf)
	data, err := fastjson.Append(*buf, &a.Context, 0)
	if err != nil {
		return dst, err
	}
	*buf = data
	// No string of JSON has a quote that is not escaped, so this is the field.
	before, after, _ := bytes.Cut(data, []byte(`"actions":null`))
	dst = append(append(dst, before...), `"actions":`...)
	return append(a.Recent.AppendJSON(dst), after...), nil
}
