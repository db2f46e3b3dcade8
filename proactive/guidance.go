package proactive

// Guidance is the label that a user chose in a conversation, and the trigger whose
// offer it was part of.
type Guidance struct {
	ProductID, Desk, ConversationID string
	TriggerID, Label                string
	Metadata                        map[string]string // of the trigger's result
}
