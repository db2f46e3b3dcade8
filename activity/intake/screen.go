package intake

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/liveactivity/liveactivity/activity"
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

// NewAction returns an action on a page or a screen. The canonical URL of a screen keeps the screen's
// name even if that looks like an identifier.
func NewAction(typ string, target activity.Target, page string) activity.Action {
	return OnScreen(activity.NewAction(typ, target, page))
}

// OnScreen sets the canonical URL of an action on a screen to the screen's URL.
func OnScreen(a activity.Action) activity.Action {
	if strings.HasPrefix(a.RawURL, screens) {
		a.CanonicalURL = a.RawURL
	}
	return a
}
