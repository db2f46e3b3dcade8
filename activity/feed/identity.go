package feed

import "github.com/liveactivity/liveactivity/activity"

// IdentityType is the type of an [Identity].
const IdentityType = "identity"

// Identity is a log entry by which a session identifies its visitor. Actions of the session under
// the anonymous ID that started no later than At belong to the user from then on. Other sessions
// are not affected.
type Identity struct {
	Type        string `json:"type"`
	ProductID   string `json:"product_id"`
	SessionID   string `json:"session_id"`
	AnonymousID string `json:"anonymous_id"`
	UserID      string `json:"user_id"`
	Email       string `json:"email,omitempty"` // the user's, as the session knows it by then
	At          int64  `json:"at"`              // microseconds since the epoch
	// Standing is the standing of the event. Of several identities for an action, the one
	// with the highest standing counts.
	Standing activity.Standing `json:"standing,omitempty"`
	// ConversationID is set if the session has a link for that user.
	ConversationID string `json:"conversation_id,omitempty"`
}
