package quickreply_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/quickreply"
)

func FuzzCleanLabels(f *testing.F) {
	f.Add("a", "<b>", "\xff\u0000")
	f.Add("ſ", "S", "s")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		labels := quickreply.CleanLabels([]string{a, b, c, a})
		for i, label := range labels {
			ok := label != "" && utf8.ValidString(label) && utf8.RuneCountInString(label) <= 80 &&
				!strings.ContainsAny(label, "<>\n") &&
				!strings.ContainsFunc(label, unicode.IsControl) && label == strings.TrimSpace(label) &&
				!slices.ContainsFunc(labels[:i], func(l string) bool { return strings.EqualFold(l, label) })
			assert.True(t, ok, "%q", labels)
		}
		assert.LessOrEqual(t, len(labels), helpdesk.MaxLabels)
		assert.Equal(t, labels, quickreply.CleanLabels(labels))
		body := quickreply.CleanBody(a)
		assert.True(t, utf8.ValidString(body) && utf8.RuneCountInString(body) <= 1000 &&
			!strings.ContainsAny(body, "<>\r\x00"), "%q", body)
	})
}

func TestSameLabel_comparesWithoutCaseInAnyScript(t *testing.T) {
	for a, b := range map[string]string{" Straße\n": "STRASSE", "ΌΧΙ ΟΔΌΣ": "όχι οδός", "ﬁne": "FINE"} {
		assert.True(t, quickreply.SameLabel(a, b), "%q and %q", a, b)
	}
	assert.False(t, quickreply.SameLabel("Strase", "Straße"))
}
