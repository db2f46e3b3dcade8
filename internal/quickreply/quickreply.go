// Package quickreply holds the rules for the two texts of an offer: its body and
// the labels that a user can choose.
package quickreply

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk"
)

// Maximum lengths of the texts, in characters.
const (
	MaxBody  = 1000
	MaxLabel = 80
)

// SameLabel reports whether two texts name the same label. Surrounding white
// space and case don't matter.
func SameLabel(a, b string) bool { return fold(a) == fold(b) }

// fold maps all spellings of a label to one: "Straße" and "STRASSE" are equal.
func fold(label string) string { return cases.Fold().String(strings.TrimSpace(label)) }

// CleanLabels makes labels from any source safe to show. It collapses white space,
// drops control characters and angle brackets, cuts each label to [MaxLabel], and
// skips empty and duplicate ones. It keeps at most [helpdesk.MaxLabels]; the result is
// never nil.
func CleanLabels(labels []string) []string {
	clean := make([]string, 0, min(len(labels), helpdesk.MaxLabels))
	for _, label := range labels {
		label = activity.CleanLabel(withoutBrackets.Replace(label))
		if label == "" || slices.ContainsFunc(clean, func(l string) bool { return SameLabel(l, label) }) {
			continue
		}
		if clean = append(clean, label); len(clean) == helpdesk.MaxLabels {
			break
		}
	}
	return clean
}

var withoutBrackets = strings.NewReplacer("<", " ", ">", " ")

// CleanBody makes a body from any source safe to show: without angle brackets and
// control characters other than line feeds, and with at most [MaxBody] characters.
func CleanBody(body string) string {
	body = strings.TrimSpace(strings.Map(func(r rune) rune {
		if isControl(r) {
			return -1
		}
		return r
	}, withoutBrackets.Replace(strings.ToValidUTF8(body, ""))))
	if utf8.RuneCountInString(body) > MaxBody {
		body = string([]rune(body)[:MaxBody-1]) + "…"
	}
	return body
}

// BodyProblem explains why a body cannot be shown unchanged, or returns "".
func BodyProblem(body string) string { return problem(body, MaxBody, isControl) }

// LabelProblem explains why a label cannot be shown unchanged, or returns "".
func LabelProblem(label string) string {
	if strings.TrimSpace(label) == "" {
		return "must not be empty"
	}
	return problem(label, MaxLabel, func(r rune) bool { return r == '\n' || isControl(r) })
}

// problem returns the first mistake in a text, without its subject.
func problem(text string, most int, forbidden func(rune) bool) string {
	switch {
	case utf8.RuneCountInString(text) > most:
		return fmt.Sprintf("must be at most %d characters", most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden):
		return "must not have control characters"
	case strings.ContainsAny(text, "<>"):
		return "must be text: < and > are not shown"
	}
	return ""
}

// isControl reports whether a character changes how the surrounding text is
// displayed.
func isControl(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d')
}
