package activity

import (
	"cmp"
	"strings"
	"unicode/utf8"
)

// Merge returns batches of one session, in their order, as one batch: all
// their actions, in order, indexed from zero. UserID, Email and ConversationID
// are each the first one that is not empty, ForwardedAt is the latest. Where
// the last action of a batch has no end it ends where the next
// batch starts, unless that starts earlier. What the actions state of
// themselves stays. The batches are not changed, and share no memory that could
// change with the result. Without batches the result has no actions.
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
		if len(merged.Actions) > 0 && len(b.Actions) > 0 {
			merged.Actions[len(merged.Actions)-1].endAt(b.Actions[0].TimestampStart)
		}
		merged.Actions = append(merged.Actions, b.Actions...)
	}
	for i := range merged.Actions {
		merged.Actions[i].Index = i
	}
	return merged
}

// endAt gives an action that has no end yet the start of the next one.
func (a *Action) endAt(next float64) {
	if a.TimestampEnd == a.TimestampStart && next > a.TimestampStart {
		a.TimestampEnd = next
	}
}

// maxSentence bounds the characters of a description or an address in Text.
const maxSentence = 500

// Text returns what an agent or a model reads of the batch: one line an
// action, in order, without a line feed at the end.
//
//	2026-11-22 02:15:04 UTC: User clicked Export CSV on the dashboard page (https://app.example.com/dashboard)
//
// The time is the action's start, the address its CanonicalURL: the raw one
// may hold secrets. An action without a description has its title there, or
// else its type; one without an address has no parentheses. No text can make a
// line of its own: white space is folded, control and invisible formatting
// characters are dropped. Beyond 500 characters a description or an address is
// cut.
func (b Batch) Text() string {
	var text strings.Builder
	for i, a := range b.Actions {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(a.Start().Format("2006-01-02 15:04:05 UTC"))
		text.WriteString(": ")
		text.WriteString(a.Sentence())
		if url := cut(fold(a.CanonicalURL), maxSentence); url != "" {
			text.WriteString(" (" + url + ")")
		}
	}
	return text.String()
}

// Sentence returns what an agent or a model reads of the action: its
// description or, without one, its title, or else its type. It is one line of
// at most 500 characters, without control and invisible formatting characters.
func (a Action) Sentence() string {
	return cut(cmp.Or(fold(a.Description), fold(a.Title), fold(a.Type), "User did something"), maxSentence)
}

// fold returns s on one line, without characters that cannot be seen.
func fold(s string) string {
	return strings.Join(strings.Fields(dropInvisible(s)), " ")
}

// cut cuts s at a word after at most limit characters, counting the "…" that
// marks the cut.
func cut(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	head := string([]rune(s)[:limit])
	if i := strings.LastIndexByte(head, ' '); i > 0 {
		head = head[:i]
	} else {
		head = string([]rune(head)[:limit-1])
	}
	return strings.TrimRight(head, " ") + "…"
}
