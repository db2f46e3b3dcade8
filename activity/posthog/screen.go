package posthog

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/liveactivity/liveactivity/activity"
)

// typeTouch is the apps' word for a click.
const typeTouch = "touch"

// screens is how the addresses of an app's screens begin.
const screens = "app://screen/"

// maxScreen is how many bytes of a screen's name are used.
const maxScreen = 256

// screenURL returns the address of an app's screen: its name as a slug.
func screenURL(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name[:min(len(name), maxScreen)]), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return screens + cmp.Or(strings.Join(words, "-"), "unnamed")
}

// keepScreen gives a screen one address: its name distinguishes it, even
// where it looks like an identifier.
func keepScreen(a activity.Action) activity.Action {
	if strings.HasPrefix(a.RawURL, screens) {
		a.CanonicalURL = a.RawURL
	}
	return a
}
