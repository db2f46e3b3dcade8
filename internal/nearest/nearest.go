// Package nearest finds the name that was probably meant by a misspelt one.
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxName bounds a name that is compared, in bytes: the cost grows with its square.
const maxName = 64

// Hint returns the end of a sentence that says that a name is unknown: `; did you mean
// "webhook_secret"?`, or "" where no known name is near. Near is at most a third of the known
// name's length, and at most three letters, in any case.
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
