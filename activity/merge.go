package activity

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Merge returns batches of one session, in their order, as one batch: all
// their actions, in order, indexed from zero. UserID, Email and ConversationID
// are each the first one that is not empty, ForwardedAt is the latest. Where
// the last action of a batch has no end it ends where the next
// batch starts, unless that starts earlier or is another user's. The actions' own fields
// stay. A click that comes again with marks is in the result once, with them, and ends no later for
// that. The batches are not changed, and share no memory that could change with the result.
// Without batches the result has no actions.
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

// endAt gives an action that has no end yet, or one at its start, the start of the next one, if
// that is its user's and later.
func (a *BatchAction) endAt(next *BatchAction) {
	if a.TimestampEnd == a.TimestampStart && next.TimestampStart > a.TimestampStart && next.UserID == a.UserID {
		a.TimestampEnd = next.TimestampStart
	}
}

// maxSentence bounds the characters of a description or an address in Text.
const maxSentence = 500

// Text returns the batch as an agent or a model reads it: one line an
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
		text.WriteString(Moment(a.Start()))
		text.WriteString(": ")
		text.WriteString(a.Sentence())
		if url := cut(fold(a.CanonicalURL), maxSentence); url != "" {
			text.WriteString(" (" + url + ")")
		}
	}
	return text.String()
}

// Moment returns a time as notes and texts state it: "2026-11-22 02:15:04 UTC".
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Sentence returns the action as an agent or a model reads it: its
// description or, without one, its title, or else its type. It is one line of
// at most 500 characters, without control and invisible formatting characters.
func (a Action) Sentence() string {
	for _, text := range [...]string{a.Description, a.Title, a.Type} {
		if text = fold(text); text != "" {
			return cut(text, maxSentence)
		}
	}
	return "User did something"
}

// Label returns the object of the action as the title names it: "Export CSV", "signup form",
// the name of a custom event or the type of an error.
func (a Action) Label() string {
	switch a.Type {
	case TypeEvent:
		return a.Title
	case TypeError:
		return strings.TrimPrefix(strings.TrimPrefix(a.Title, "Error"), " ")
	}
	label, _ := strings.CutPrefix(a.Title, titlePrefix(a.Type))
	return label
}

// fold returns s on one line, without characters that cannot be seen.
func fold(s string) string { return foldStart(s, len(s)) }

// foldStart is fold that may end early: beyond limit characters. The result tells fold's first
// limit characters, and whether there are more.
func foldStart(s string, limit int) string {
	if start, _ := firstRunes(s, limit+1); isFolded(start) {
		return start
	}
	var b strings.Builder
	n, end, gap := 0, 0, false // characters written, bytes up to the last one that stays, space before the next one
	for _, r := range s {
		switch {
		case isInvisible(r), r == joiner && n == 0:
			continue
		case unicode.IsSpace(r):
			gap = n > 0
			continue
		}
		if gap {
			b.WriteByte(' ')
			n, gap = n+1, false
		}
		b.WriteRune(r)
		n++
		if r == joiner { // it stays only where it may join
			continue
		}
		if end = b.Len(); n > limit {
			break
		}
	}
	return b.String()[:end]
}

// joiner is the zero-width joiner. Emoji need it.
const joiner = '\u200d'

// isInvisible reports whether r is a control character other than white space, or
// a formatting character that could reorder or hide text.
func isInvisible(r rune) bool {
	if r > ' ' && r < 0x7f {
		return false
	}
	return unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) && r != joiner
}

// isFolded reports whether s is visible text with single spaces between its
// words, as nearly every label is. It knows no joiners.
func isFolded(s string) bool {
	space := true
	for _, r := range s {
		if r > '~' && (isInvisible(r) || unicode.IsSpace(r) || r == joiner || r == utf8.RuneError) ||
			r < ' ' || space && r == ' ' {
			return false
		}
		space = r == ' '
	}
	return s == "" || !space
}

// cut cuts s, which is folded, at a word after at most limit characters, counting the "…" that
// marks the cut. A first word that is longer is cut inside.
func cut(s string, limit int) string {
	head, ok := firstRunes(s, limit)
	if !ok {
		return s
	}
	if i := strings.LastIndexByte(head, ' '); i > 0 {
		head = head[:i]
	} else {
		head, _ = firstRunes(head, limit-1)
	}
	return strings.TrimRight(head, " ") + "…"
}

// firstRunes returns the first n characters of s, and whether s has more. Its time does not
// depend on the rest of s.
func firstRunes(s string, n int) (head string, more bool) {
	if len(s) <= n {
		return s, false
	}
	for i := range s {
		if n == 0 {
			return s[:i], true
		}
		n--
	}
	return s, false
}
