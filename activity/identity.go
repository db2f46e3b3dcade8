package activity

// Standing is whose word an identity is. The order counts: a higher standing is never
// overridden by a lower one.
type Standing uint8

// The standings, from the lowest.
const (
	Claimed  Standing = iota // by anyone: a browser, with a token that stands in every page
	Reported                 // by a webhook that proved its secret, or by a program through its own sink
	Signed                   // under one of the product's identity secrets
)

// String returns "claimed", "reported" or "signed".
func (s Standing) String() string {
	return [...]string{"claimed", "reported", "signed"}[min(s, Signed)]
}

// IdentityType is the type of an [Identity].
const IdentityType = "identity"

// Identity is an entry of the log: a session has named its visitor. The actions
// that the session appended under the anonymous id, and that started no later, are
// the user's from then on. It changes nothing of other sessions.
type Identity struct {
	Type        string `json:"type"`
	ProductID   string `json:"product_id"`
	SessionID   string `json:"session_id"`
	AnonymousID string `json:"anonymous_id"`
	UserID      string `json:"user_id"`
	Email       string `json:"email,omitempty"` // the user's, as the session knows it by then
	At          int64  `json:"at"`              // microseconds since the epoch
	// Standing is the event's. Of several identities for an action, the one of the
	// highest standing counts.
	Standing Standing `json:"standing,omitempty"`
	// ConversationID is set where the session is linked for that user.
	ConversationID string `json:"conversation_id,omitempty"`
}
