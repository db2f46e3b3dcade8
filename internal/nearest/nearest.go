// Package nearest finds the name that a misspelled one probably means.
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxName is the maximum length in bytes of a compared name: the cost is quadratic.
const maxName = 64

// Hint returns the end of a sentence about an unknown name: `; did you mean
// "webhook_secret"?`, or "" if no known name is near. A name is near if it differs, ignoring
// case, by at most a third of the known name's length and at most three letters.
func Hint(name string, known []string) string {
	if len(name) > maxName || len(known) == 0 {
		return ""
	}
	distance := func(to string) int { return levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(to)) }
	best := slices.MinFunc(known, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), strings.Compare(a, b))
	})
	if best == name || distance(best) > min(3, len(best)/3) {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
