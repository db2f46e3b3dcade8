package connector

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// An echo is a reply of the service that a chat's trigger sends back as a message. A desk that
// does not list its public comments cannot tell an echo from the requester's message, and an
// answer to it would be echoed as well. So a conversation remembers its last replies, each
// before it is sent: an echo may overtake the desk's answer, reach another server, or find a new
// process.

// said is a reply that a conversation remembers: a digest of its words, and when it was stored.
type said struct {
	Words string    `json:"words"`
	At    time.Time `json:"at"`
}

// Bounds of the replies that a conversation remembers.
const (
	echoTTL = time.Hour // after that, a message with the same words is the requester's own
	maxSaid = 20        // the newest
)

// say remembers a reply and forgets the old ones. It replaces the slice.
func (c *conversation) say(text string, now time.Time) {
	words := wordsOf(text)
	kept := slices.DeleteFunc(slices.Clone(c.Said), func(s said) bool {
		return s.Words == words || now.Sub(s.At) > echoTTL
	})
	kept = append(kept, said{words, now})
	c.Said = kept[max(0, len(kept)-maxSaid):]
}

// echoes reports whether a message has the same words as one of the last replies.
func (c *conversation) echoes(text string, now time.Time) bool {
	words := wordsOf(text)
	return slices.ContainsFunc(c.Said, func(s said) bool { return s.Words == words && now.Sub(s.At) <= echoTTL })
}

// wordsOf returns a digest of the letters and digits of a text, ignoring case: the desk and its
// trigger may add or drop markup, entities, white space, quotation marks and list marks. For a
// text without letters and digits, the digest is of its punctuation and symbols.
func wordsOf(text string) string {
	for range maxEscapes {
		text = html.UnescapeString(text)
	}
	text = markup.ReplaceAllString(text, "")
	words := only(text, unicode.Letter, unicode.Mark, unicode.Number)
	if words == "" {
		words = only(text, unicode.Punct, unicode.Symbol)
	}
	digest := sha256.Sum256([]byte(words))
	return hex.EncodeToString(digest[:16])
}

// maxEscapes is how many levels of escaping are undone: a text about entities is escaped more
// than once.
const maxEscapes = 3

// markup matches tags. A < before a space or a digit does not begin one.
var markup = regexp.MustCompile(`</?[A-Za-z!][^<>]*>`)

// only returns the characters of a text that are in the tables, in lower case.
func only(text string, tables ...*unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, tables...) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
