package activity

// Standing is the trustworthiness of an identity. Standings are ordered: a lower one never
// overrides a higher one.
type Standing uint8

// The standings, from the lowest.
const (
	Claimed  Standing = iota // by anyone, such as a browser with the public capture token
	Reported                 // by a webhook that proved its secret, or by a program through its own sink
	Signed                   // under one of the product's identity secrets
)

// String returns "claimed", "reported" or "signed".
func (s Standing) String() string {
	return [...]string{"claimed", "reported", "signed"}[min(s, Signed)]
}

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
	Standing Standing `json:"standing,omitempty"`
	// ConversationID is set if the session has a link for that user.
	ConversationID string `json:"conversation_id,omitempty"`
}
