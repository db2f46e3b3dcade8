package intake

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/liveactivity/liveactivity/activity"
)

// screens is how the addresses of an app's screens begin.
const screens = "app://screen/"

// maxScreen is how many bytes of a screen's name are used.
const maxScreen = 256

// ScreenURL returns the address of an app's screen: its name as a slug of lower-case letters,
// digits and hyphens. Names that differ in other characters only share an address. A name
// without letters and digits is "unnamed".
func ScreenURL(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name[:min(len(name), maxScreen)]), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return screens + cmp.Or(strings.Join(words, "-"), "unnamed")
}

// NewAction returns an action on a page or a screen. A screen has one address: its
// name distinguishes it, even where it looks like an identifier.
func NewAction(typ string, target activity.Target, page string) activity.Action {
	return OnScreen(activity.NewAction(typ, target, page))
}

// OnScreen returns an action that may be on a screen with the screen's one address.
func OnScreen(a activity.Action) activity.Action {
	if strings.HasPrefix(a.RawURL, screens) {
		a.CanonicalURL = a.RawURL
	}
	return a
}
