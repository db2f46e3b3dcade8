package proactive

// Guidance is the label that a user chose in a conversation, and the trigger whose
// offer contained it.
type Guidance struct {
	ProductID, Desk, ConversationID string
	TriggerID, Label                string
	Metadata                        map[string]string // from the trigger's Result
}
