package activity

import "cmp"

// Merge merges batches of one session into one. The actions keep their order and fields, and are
// indexed from zero. UserID, Email and ConversationID are each the first that is not empty, and
// ForwardedAt is the latest. If the last action of a batch has no end, it ends at the start of the
// next batch, unless that is earlier or belongs to another user. A click that is repeated with
// marks appears once, with the marks and its original end. Merge does not modify the batches, and
// the result shares no mutable memory with them. Without batches the result has no actions.
func Merge(batches ...Batch) Batch {
	merged := Batch{Type: BatchType}
	for _, b := range batches {
		merged.ProductID = cmp.Or(merged.ProductID, b.ProductID)
		merged.SessionID = cmp.Or(merged.SessionID, b.SessionID)
		merged.UserID = cmp.Or(merged.UserID, b.UserID)
		merged.Email = cmp.Or(merged.Email, b.Email)
		merged.ConversationID = cmp.Or(merged.ConversationID, b.ConversationID)
		merged.ForwardedAt = max(merged.ForwardedAt, b.ForwardedAt)
		merged.Count += len(b.Actions)
	}
	merged.Actions = make([]BatchAction, 0, merged.Count)
	for _, b := range batches {
		from := len(merged.Actions)
		merged.Actions = withoutMarked(append(merged.Actions, b.Actions...), from)
		if from > 0 && from < len(merged.Actions) {
			merged.Actions[from-1].endAt(&merged.Actions[from])
		}
	}
	merged.Count = len(merged.Actions)
	for i := range merged.Actions {
		merged.Actions[i].Index = i
	}
	return merged
}

// endAt sets the end of an action without one, or with one at its start, to the start of the next
// action, if that is later and of the same user.
func (a *BatchAction) endAt(next *BatchAction) {
	if a.TimestampEnd == a.TimestampStart && next.TimestampStart > a.TimestampStart && next.UserID == a.UserID {
		a.TimestampEnd = next.TimestampStart
	}
}
