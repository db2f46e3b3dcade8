package intake

import (
	"cmp"
	"strings"
	"unicode"
)

// screens is the prefix of the URLs of an app's screens.
const screens = "app://screen/"

// maxScreen is the number of bytes of a screen's name that are used.
const maxScreen = 256

// ScreenURL returns a URL for an app's screen, with the name as a slug of lower-case letters, digits
// and hyphens. Names that differ only in other characters share a URL. A name without letters and
// digits becomes "unnamed".
func ScreenURL(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name[:min(len(name), maxScreen)]), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return screens + cmp.Or(strings.Join(words, "-"), "unnamed")
}
