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

// nothingKnown is the summary of an unknown session.
const nothingKnown = "Hi! I have not seen any activity in this session yet. Look around, and ask me whenever " +
	"you need a hand."

// maxSummed limits a summary to the newest actions. It is an introduction, not
// a log.
const maxSummed = 15

// summarise describes a person's actions, oldest first, and the vendor's status. A session
// without actions has no vendor either: both expire together.
func summarise(actions []activity.Action, vendor *Vendor) string {
	if len(actions) == 0 {
		return nothingKnown
	}
	text := "Hi! I can see you " + did(actions[max(0, len(actions)-maxSummed):]) + "."
	if vendor != nil {
		text += " " + vendor.sentences()
	}
	return text
}

// kinds of actions, in the order of the summary; others come last.
var kinds = []string{activity.TypePageview, activity.TypeClick, activity.TypeSubmit, activity.TypeChange,
	activity.TypeError}

// did describes actions as part of a sentence: "visited vendors and clicked Approve vendor".
// It groups them by kind, in time order within a kind.
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

// joinClauses joins clauses with "and". It adds commas if there are more than
// two, or if one contains "and" itself.
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

// maxNamed is the maximum number of missing documents that a summary names.
const maxNamed = 8

// sentences describes the vendor's status: "Acme Supplies is blocked. Missing documents: W-9
// form."
func (v *Vendor) sentences() string {
	text := cmp.Or(v.Name, "Vendor "+activity.CleanLabel(v.ID)) + " is " +
		strings.ReplaceAll(string(v.Status), "_", " ") + "."
	missing := v.MissingDocuments
	if len(missing) == 0 {
		return text + " No documents are missing."
	}
	text += " Missing documents: " + strings.Join(missing[:min(len(missing), maxNamed)], ", ")
	if more := len(missing) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "."
}

// describe returns a sentence for an action that was reported without a
// description.
func describe(a activity.Action) string {
	switch {
	case a.Type == activity.TypePageview:
		return "User visited " + titleInSentence(a)
	case a.Type == activity.TypeError:
		return activity.NewError(a.Label(), "", a.RawURL).Description
	case !slices.Contains(kinds, a.Type):
		return "User did “" + a.Title + "”"
	}
	label := a.Title
	if prefix := a.Type + " "; len(label) > len(prefix) && strings.EqualFold(label[:len(prefix)], prefix) {
		label = label[len(prefix):]
	}
	return activity.NewAction(a.Type, activity.Target{Label: label}, a.RawURL).Description
}
