package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity"
)

// nothingKnown is the summary of a session that was never heard of.
const nothingKnown = "Hi! I have not seen any activity in this session yet. Look around, and ask me whenever " +
	"you need a hand."

// maxSummed bounds the actions of a summary to the newest ones. It is an
// intro, not a protocol.
const maxSummed = 15

// summarise describes a person's actions, oldest first, and the vendor's status. A session
// without actions has no vendor either: both expire together.
func summarise(actions []activity.Action, vendor *Vendor) string {
	if len(actions) == 0 {
		return nothingKnown
	}
	text := "Hi! I can see you " + did(actions[max(0, len(actions)-maxSummed):]) + "."
	if vendor != nil {
		text += " " + vendor.sentence()
	}
	return text
}

// kinds of actions, in the order of the summary; others come last.
var kinds = []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange}

// did describes actions as part of a sentence: "visited vendors and clicked Approve vendor".
// They are grouped by kind; within a kind the order of time is kept.
func did(actions []activity.Action) string {
	digests := make([]activity.Digest, len(kinds)+1)
	for _, a := range actions {
		kind := slices.Index(kinds, a.Type)
		if kind < 0 {
			kind = len(kinds)
		} else {
			// The person saw the title; a description may be any sentence.
			a.Title, a.Description, a.CanonicalURL = titleInSentence(a), "", ""
		}
		digests[kind].Add(a)
	}
	var clauses []string
	for i := range digests {
		if said := strings.TrimSuffix(digests[i].String(), "."); said != "" {
			clauses = append(clauses, lowerFirst(said))
		}
	}
	return joinClauses(clauses)
}

// titleInSentence returns an action's title as part of a sentence. A page loses
// its prefix: "Page Load: Vendors" becomes "vendors", "Acme Supplies" stays.
func titleInSentence(a activity.Action) string {
	if a.Type != activity.TypePageview {
		return a.Title
	}
	title := strings.TrimPrefix(a.Title, "Page Load: ")
	lower := lowerFirst(title)
	if title == "Page Load" || strings.ToLower(lower) != lower {
		return title
	}
	return lower
}

// joinClauses joins clauses with "and", and with commas where some of them
// contain an "and" themselves.
func joinClauses(clauses []string) string {
	last := len(clauses) - 1
	if last <= 0 {
		return strings.Join(clauses, "")
	}
	conjunction := " and "
	if last > 1 || strings.Contains(clauses[0]+clauses[1], conjunction) {
		conjunction = ", and "
	}
	return strings.Join(clauses[:last], ", ") + conjunction + clauses[last]
}

func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[size:]
}

// sentence says how the vendor stands: "Acme Supplies is blocked: the W-9 form
// is missing."
func (v *Vendor) sentence() string {
	name := cmp.Or(v.Name, "Vendor "+activity.CleanLabel(v.ID))
	status := strings.ReplaceAll(string(v.Status), "_", " ")
	switch missing := missingClause(v.MissingDocuments); {
	case missing == "" && v.Status == Approved:
		return fmt.Sprintf("%s is approved, and no documents are missing.", name)
	case missing == "":
		return fmt.Sprintf("%s is %s, but no documents are missing.", name, status)
	case v.Status == Approved:
		return fmt.Sprintf("%s is approved, but %s.", name, missing)
	default:
		return fmt.Sprintf("%s is %s: %s.", name, status, missing)
	}
}

// maxNamed is how many documents a sentence names.
const maxNamed = 8

// missingClause returns a clause with the missing documents; it is empty when none is missing.
// More than maxNamed are counted instead of named.
func missingClause(documents []string) string {
	if len(documents) == 0 {
		return ""
	}
	named := make([]string, 0, maxNamed)
	for _, d := range documents {
		named = append(named, withThe(d))
	}
	if len(named) > maxNamed {
		rest := len(named) - (maxNamed - 1)
		named = append(named[:maxNamed-1], fmt.Sprintf("%d more documents", rest))
	}
	verb := "are"
	if len(documents) == 1 && !isPlural(documents[0]) {
		verb = "is"
	}
	return list(named) + " " + verb + " missing"
}

// list joins words, of which there is at least one, as in "a, b and c".
func list(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// determiners are words before which no article goes.
var determiners = map[string]bool{"the": true, "a": true, "an": true, "your": true, "their": true, "its": true,
	"our": true}

func withThe(noun string) string {
	first, _, _ := strings.Cut(noun, " ")
	if determiners[strings.ToLower(first)] {
		return noun
	}
	return "the " + noun
}

// isPlural guesses whether a noun is one of several things: "bank details".
func isPlural(noun string) bool {
	for _, singular := range []string{"ss", "us", "is"} {
		if strings.HasSuffix(noun, singular) {
			return false
		}
	}
	return strings.HasSuffix(noun, "s")
}

// describe returns a sentence for an action that was reported without one.
func describe(a activity.Action) string {
	switch {
	case a.Type == activity.TypePageview:
		return "User visited " + titleInSentence(a)
	case !slices.Contains(kinds, a.Type):
		return "User did “" + a.Title + "”"
	}
	label := a.Title
	if prefix := a.Type + " "; len(label) > len(prefix) && strings.EqualFold(label[:len(prefix)], prefix) {
		label = label[len(prefix):]
	}
	return activity.NewAction(a.Type, activity.Target{Label: label}, a.RawURL).Description
}
