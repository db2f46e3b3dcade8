package activity

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxSentence bounds the characters of a description or an address in Text.
const maxSentence = 500

// Text returns the batch as text for an agent or a model: one line per action, in order, without a
// final line feed.
//
//	2026-11-22 02:15:04 UTC: User clicked Export CSV on the dashboard page (https://app.example.com/dashboard)
//
// The time is the action's start. The address is its CanonicalURL, since the raw URL may contain
// secrets; without one, there are no parentheses. The title, or else the type, replaces a missing
// description. No text can add a line: white space is folded, and control and invisible
// formatting characters are dropped. Descriptions and addresses are cut after 500 characters.
func (b Batch) Text() string {
	var text strings.Builder
	for i, a := range b.Actions {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(a.Start().Format(time.DateTime + " UTC: "))
		text.WriteString(a.Sentence())
		if url := cut(fold(a.CanonicalURL), maxSentence); url != "" {
			text.WriteString(" (" + url + ")")
		}
	}
	return text.String()
}

// Sentence returns the action in words: its description or, if empty, its title or type. It is one
// line of at most 500 characters without control or invisible formatting characters.
func (a Action) Sentence() string {
	for _, text := range [...]string{a.Description, a.Title, a.Type} {
		if text = fold(text); text != "" {
			return cut(text, maxSentence)
		}
	}
	return "User did something"
}

// Label returns the object of the action from its title: "Export CSV", "signup form", the name of a
// custom event or the type of an error.
func (a Action) Label() string {
	switch a.Type {
	case TypeEvent:
		return a.Title
	case TypeError:
		return strings.TrimPrefix(strings.TrimPrefix(a.Title, "Error"), " ")
	}
	return strings.TrimPrefix(a.Title, titlePrefix(a.Type))
}

// fold returns s on one line without invisible characters.
func fold(s string) string { return foldStart(s, len(s)) }

// foldStart is like fold, but may stop after more than limit characters. The result is long enough
// to tell the first limit characters, and whether there are more.
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
		if r == joiner { // kept only between characters that it may join
			continue
		}
		if end = b.Len(); n > limit {
			break
		}
	}
	return b.String()[:end]
}

// joiner is the zero-width joiner, which emoji need.
const joiner = '\u200d'

// isInvisible reports whether r is a control character other than white space, or
// a formatting character that could reorder or hide text.
func isInvisible(r rune) bool {
	if r > ' ' && r < 0x7f {
		return false
	}
	return unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) && r != joiner
}

// isFolded reports whether s is visible text with single spaces between words, as nearly every
// label is. It returns false for text with joiners.
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

// cut cuts a folded text at a word after at most limit characters, including the "…" of the cut. If
// the first word is longer, it is cut within that word.
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

// firstRunes returns the first n characters of s, and whether s has more, in time proportional to n.
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
